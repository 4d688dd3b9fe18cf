#include "text/bpe.h"

#include <bit>

#include "text/symbol_merge.h"
#include "text/utf8.h"

namespace tandem::text {

namespace {

// (left, right) -> Merge in one flat table: a look-up is one cache miss, where std::unordered_map has several.
class MergeTable {
  public:
    explicit MergeTable(const std::vector<BpeMerge>& merges)
        : slots_(std::bit_ceil(merges.size() * 2 + 1)), mask_(slots_.size() - 1) {
        uint32_t rank = 0;
        for (const BpeMerge& merge : merges) {
            Slot& slot = slots_[locate(key(merge.left, merge.right))];
            slot = {key(merge.left, merge.right), {rank++, merge.merged}};  // of equal pairs the last counts
        }
    }

    std::optional<Merge> find(TokenId left, TokenId right) const {
        const uint64_t wanted = key(left, right);
        const Slot& slot = slots_[locate(wanted)];
        if (slot.key != wanted) return std::nullopt;
        return slot.merge;
    }

  private:
    static constexpr uint64_t kEmpty = ~uint64_t{0};  // ids are not negative: no pair has this key
    struct Slot {
        uint64_t key = kEmpty;
        Merge merge{};
    };

    static uint64_t key(TokenId left, TokenId right) {
        return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    }

    size_t locate(uint64_t wanted) const {
        uint64_t hash = wanted * 0x9E3779B97F4A7C15U;
        hash ^= hash >> 32;
        size_t at = hash & mask_;
        while (slots_[at].key != wanted && slots_[at].key != kEmpty) at = (at + 1) & mask_;
        return at;
    }

    std::vector<Slot> slots_;
    size_t mask_;
};

class Bpe : public TokenModel {
  public:
    Bpe(const Vocabulary& vocab, const std::vector<BpeMerge>& merges, BpeOptions options)
        : vocab_(vocab), merges_(merges), options_(std::move(options)) {
        if (options_.byte_fallback) bytes_ = find_byte_pieces(vocab);
        for (const BpeMerge& merge : merges)
            neighbours_.add(vocab[merge.left].text.back(), vocab[merge.right].text.front());
    }

    void encode(std::string_view text, ModelScratch& scratch, std::vector<TokenId>& out) const override {
        const bool newlines = options_.whole_newlines && text.find_first_not_of('\n') == std::string_view::npos;
        if (options_.ignore_merges || newlines) {
            if (const auto whole = vocab_.find_in_model(text)) {
                out.push_back(*whole);
                return;
            }
        }
        auto& symbols = scratch.symbols;
        split_into_symbols(text, symbols);
        const auto joined = [&](const Symbol& left, const Symbol& right) {
            return neighbours_.contains(vocab_[left.id].text.back(), vocab_[right.id].text.front());
        };
        const auto find = [&](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); };
        for_each_run(symbols, joined, [&](size_t begin, size_t end) { merge_symbols(scratch, begin, end, find); });
        for (const Symbol& symbol : symbols) {
            if (symbol.size > 0) out.push_back(symbol.id);
        }
    }

  private:
    static void add_symbol(std::vector<Symbol>& symbols, TokenId id, size_t size) {
        const auto index = static_cast<int32_t>(symbols.size());
        symbols.push_back({index - 1, index + 1, 0, static_cast<uint32_t>(size), id});
    }

    void split_into_symbols(std::string_view text, std::vector<Symbol>& symbols) const {
        symbols.clear();
        size_t unknown_bytes = 0;  // of the unknown token that is still to be added
        for (size_t at = 0; at < text.size();) {
            const size_t length = decode_utf8(text.substr(at)).length;
            const std::string_view character = text.substr(at, length);
            const auto id = find_character(character, at == 0, at + length == text.size());
            at += length;
            if (id) {
                if (unknown_bytes > 0) add_symbol(symbols, *options_.unk, unknown_bytes);
                unknown_bytes = 0;
                add_symbol(symbols, *id, length);
            } else if (bytes_) {
                for (const char byte : character) add_symbol(symbols, (*bytes_)[static_cast<unsigned char>(byte)], 1);
            } else if (options_.unk) {
                if (unknown_bytes > 0 && !options_.fuse_unk) {
                    add_symbol(symbols, *options_.unk, unknown_bytes);
                    unknown_bytes = 0;
                }
                unknown_bytes += length;
            }
        }
        if (unknown_bytes > 0) add_symbol(symbols, *options_.unk, unknown_bytes);
    }

    std::optional<TokenId> find_character(std::string_view character, bool first, bool last) const {
        const bool prefixed = !first && !options_.continuing_subword_prefix.empty();
        const bool suffixed = last && !options_.end_of_word_suffix.empty();
        if (!prefixed && !suffixed) return vocab_.find_in_model(character);
        return vocab_.find_in_model((prefixed ? options_.continuing_subword_prefix : "") + std::string(character) +
                                    (suffixed ? options_.end_of_word_suffix : ""));
    }

    const Vocabulary& vocab_;
    MergeTable merges_;
    BpeOptions options_;
    std::optional<std::vector<TokenId>> bytes_;
    ByteNeighbours neighbours_;
};

}  // namespace

TokenModelPtr bpe_model(const Vocabulary& vocab, const std::vector<BpeMerge>& merges, BpeOptions options) {
    return std::make_unique<Bpe>(vocab, merges, std::move(options));
}

std::optional<BpeMerge> find_merge(const Vocabulary& vocab, std::string_view left, std::string_view right,
                                   std::string_view continuing_subword_prefix) {
    const auto left_id = vocab.find(left);
    const auto right_id = vocab.find(right);
    if (right.starts_with(continuing_subword_prefix)) right.remove_prefix(continuing_subword_prefix.size());
    const auto merged = vocab.find(std::string(left) + std::string(right));
    if (!left_id || !right_id || !merged) return std::nullopt;
    return BpeMerge{*left_id, *right_id, *merged};
}

}  // namespace tandem::text
