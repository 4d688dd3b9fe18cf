#include "text/word_piece.h"

#include "text/trie.h"
#include "text/utf8.h"

namespace tandem::text {

namespace {

class WordPiece : public TokenModel {
  public:
    WordPiece(const Vocabulary& vocab, const WordPieceOptions& options)
        : unk_(options.unk), max_word_chars_(options.max_word_chars) {
        std::vector<Trie::Key> start, inside;
        for (TokenId id = 0; id < vocab.size(); ++id) {
            const Piece& piece = vocab[id];
            if (piece.added || piece.kind == PieceKind::unused) continue;
            const std::string_view text = piece.text;
            const bool starts = text.starts_with(options.start_mark);
            if (starts) start.push_back({text.substr(options.start_mark.size()), id});
            // Where starts are marked, a marked piece is never found inside a word.
            const bool goes_on = text.starts_with(options.inside_mark) && (options.start_mark.empty() || !starts);
            if (goes_on) inside.push_back({text.substr(options.inside_mark.size()), id});
        }
        start_ = Trie(std::move(start));
        inside_ = Trie(std::move(inside));
    }

    void encode(std::string_view word, ModelScratch&, std::vector<TokenId>& out) const override {
        const size_t before = out.size();
        bool known = !is_too_long(word);
        for (size_t at = 0; known && at < word.size();) {
            const auto match = (at == 0 ? start_ : inside_).longest_prefix(word.substr(at));
            known = match.length > 0;
            out.push_back(match.value);
            at += match.length;
        }
        if (known) return;
        out.resize(before);
        out.push_back(unk_);
    }

  private:
    bool is_too_long(std::string_view word) const {
        if (max_word_chars_ == 0 || word.size() <= max_word_chars_) return false;
        size_t chars = 0;
        for (; !word.empty(); word.remove_prefix(utf8_step(word))) ++chars;
        return chars > max_word_chars_;
    }

    TokenId unk_;
    size_t max_word_chars_;
    Trie start_, inside_;
};

}  // namespace

TokenModelPtr word_piece_model(const Vocabulary& vocab, const WordPieceOptions& options) {
    return std::make_unique<WordPiece>(vocab, options);
}

}  // namespace tandem::text
