#include <algorithm>
#include <unordered_map>

#include "text/spm_model.h"
#include "text/symbol_merge.h"
#include "text/utf8.h"

namespace tandem::text {

namespace {

// Which merge comes first is told by the score of its result; any two pieces that form a third may merge.
class SentencePieceBpe : public TokenModel {
  public:
    explicit SentencePieceBpe(SentencePieceVocab pieces)
        : pieces_(std::move(pieces)), ranks_(static_cast<size_t>(pieces_.vocab.size())) {
        const Vocabulary& vocab = pieces_.vocab;
        std::vector<float> scores;
        for (TokenId id = 0; id < vocab.size(); ++id) {
            if (!pieces_.is_text(id)) continue;
            const std::string& text = vocab[id].text;
            for (size_t i = 1; i < text.size(); ++i) neighbours_.add(text[i - 1], text[i]);
            scores.push_back(vocab[id].score);
        }
        std::sort(scores.begin(), scores.end(), std::greater<>());
        scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
        for (TokenId id = 0; id < vocab.size(); ++id) {
            const auto at = std::lower_bound(scores.begin(), scores.end(), vocab[id].score, std::greater<>());
            ranks_[static_cast<size_t>(id)] = static_cast<uint32_t>(at - scores.begin());
        }
    }

    void encode(std::string_view text, ModelScratch& scratch, std::vector<TokenId>& out) const override {
        split_into_symbols(text, scratch.symbols);
        UnusedPieces unused;
        const auto joined = [&](const Symbol& left, const Symbol& right) {
            const bool user_defined = left.id != kCharacter || right.id != kCharacter;
            return !user_defined && neighbours_.contains(text[right.begin - 1], text[right.begin]);
        };
        const auto find = [&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
            const auto id = pieces_.vocab.find(text.substr(left.begin, left.size + right.size));
            if (!id || !pieces_.is_text(*id)) return std::nullopt;
            if (pieces_.vocab[*id].kind == PieceKind::unused) unused[*id] = left.size;
            return Merge{ranks_[static_cast<size_t>(*id)], *id};
        };
        for_each_run(scratch.symbols, joined,
                     [&](size_t begin, size_t end) { merge_symbols(scratch, begin, end, find); });
        UnknownRun run(pieces_, out);
        for (const Symbol& symbol : scratch.symbols) {
            if (symbol.size == 0) continue;
            const std::string_view piece = text.substr(symbol.begin, symbol.size);
            if (symbol.id == kCharacter || pieces_.vocab[symbol.id].kind == PieceKind::unused)
                take_apart(piece, unused, run);
            else
                run.push(piece, symbol.id);
        }
    }

  private:
    static constexpr TokenId kCharacter = -1;                  // a symbol that has not been merged
    using UnusedPieces = std::unordered_map<TokenId, size_t>;  // bytes of the left half of those that were met

    void split_into_symbols(std::string_view text, std::vector<Symbol>& symbols) const {
        symbols.clear();
        for (size_t at = 0; at < text.size();) {
            const std::string_view rest = text.substr(at);
            const auto match = pieces_.user_defined.longest_prefix(rest);
            const size_t size = match.length > 0 ? match.length : utf8_step(rest);
            const auto index = static_cast<int32_t>(symbols.size());
            symbols.push_back({index - 1, index + 1, static_cast<uint32_t>(at), static_cast<uint32_t>(size),
                               match.length > 0 ? match.value : kCharacter});
            at += size;
        }
    }

    // An unused piece stands for the two that it was merged from.
    void take_apart(std::string_view piece, const UnusedPieces& unused, UnknownRun& run) const {
        std::vector<std::string_view> pending = {piece};
        while (!pending.empty()) {
            const std::string_view next = pending.back();
            pending.pop_back();
            const auto id = pieces_.vocab.find(next);
            const auto found = id ? unused.find(*id) : unused.end();
            if (found == unused.end()) {
                run.push(next, id);
            } else {
                pending.push_back(next.substr(found->second));
                pending.push_back(next.substr(0, found->second));
            }
        }
    }

    SentencePieceVocab pieces_;
    std::vector<uint32_t> ranks_;
    ByteNeighbours neighbours_;
};

}  // namespace

TokenModelPtr sentencepiece_bpe(SentencePieceVocab pieces) {
    return std::make_unique<SentencePieceBpe>(std::move(pieces));
}

}  // namespace tandem::text
