#include "text/unigram.h"

#include <algorithm>
#include <limits>

#include "text/spm_model.h"
#include "text/trie.h"
#include "text/utf8.h"

namespace tandem::text {

namespace {

constexpr double kUnknownPenalty = 10;

struct Step {
    size_t begin;
    size_t end;
    int32_t id;  // kUnknown for a character that no piece covers
};
constexpr int32_t kUnknown = -1;

// The Viterbi search both kinds share. `Real` is the precision that path scores are kept in: it decides ties.
template <typename Real>
class BestPath {
  public:
    // score(id, bytes) is the score of a piece; pieces it gives no number for do not take part.
    template <typename Score>
    static std::vector<Step> find(const Trie& trie, std::string_view text, Real unknown_score, Score score) {
        std::vector<Node> nodes(text.size() + 1);
        for (size_t begin = 0; begin < text.size();) {
            const Real till_here = nodes[begin].score;
            const size_t character = utf8_step(text.substr(begin));
            bool covered = false;
            trie.for_each_prefix(text.substr(begin), [&](size_t length, int32_t id) {
                const std::optional<double> piece_score = score(id, length);
                if (!piece_score) return;
                nodes[begin + length].offer(*piece_score + till_here, begin, id);
                covered = covered || length == character;
            });
            if (!covered) nodes[begin + character].offer(unknown_score + till_here, begin, kUnknown);
            begin += character;
        }
        std::vector<Step> steps;
        for (size_t end = text.size(); end > 0; end = nodes[end].begin)
            steps.push_back({nodes[end].begin, end, nodes[end].id});
        std::reverse(steps.begin(), steps.end());
        return steps;
    }

  private:
    struct Node {
        Real score = 0;
        size_t begin = kUnreached;
        int32_t id = kUnknown;

        // Compared before it is rounded, as SentencePiece does.
        void offer(double candidate, size_t from, int32_t piece) {
            if (begin != kUnreached && !(candidate > score)) return;
            score = static_cast<Real>(candidate);
            begin = from;
            id = piece;
        }
    };
    static constexpr size_t kUnreached = std::numeric_limits<size_t>::max();
};

class SentencePieceUnigram : public TokenModel {
  public:
    explicit SentencePieceUnigram(SentencePieceVocab pieces) : pieces_(std::move(pieces)) {
        const Vocabulary& vocab = pieces_.vocab;
        std::vector<std::string> texts(static_cast<size_t>(vocab.size()));
        std::vector<Trie::Key> keys;
        float lowest = std::numeric_limits<float>::max();
        for (TokenId id = 0; id < vocab.size(); ++id) {
            const Piece& piece = vocab[id];
            if (piece.kind == PieceKind::normal) {
                lowest = std::min(lowest, piece.score);
                highest_ = std::max(highest_, piece.score);
            }
            if (!pieces_.is_text(id)) continue;
            std::string& text = texts[static_cast<size_t>(id)];
            text = piece.kind == PieceKind::user_defined ? user_defined_text(piece) : piece.text;
            keys.push_back({text, id});
        }
        trie_ = Trie(std::move(keys));
        unknown_score_ = lowest - static_cast<float>(kUnknownPenalty);
    }

    void encode(std::string_view text, ModelScratch&, std::vector<TokenId>& out) const override {
        const auto score = [&](TokenId id, size_t bytes) -> std::optional<double> {
            const Piece& piece = pieces_.vocab[id];
            if (piece.kind == PieceKind::unused) return std::nullopt;
            // The bonus that makes user-defined pieces win.
            if (piece.kind == PieceKind::user_defined) return static_cast<float>(bytes) * highest_ - 0.1;
            return piece.score;
        };
        UnknownRun run(pieces_, out);
        for (const Step& step : BestPath<float>::find(trie_, text, unknown_score_, score)) {
            run.push(text.substr(step.begin, step.end - step.begin),
                     step.id == kUnknown ? std::nullopt : std::optional<TokenId>(step.id));
        }
    }

  private:
    SentencePieceVocab pieces_;
    Trie trie_;
    float unknown_score_;
    float highest_ = std::numeric_limits<float>::min();  // never below zero, as in SentencePiece
};

class Unigram : public TokenModel {
  public:
    Unigram(const Vocabulary& vocab, UnigramOptions options) : vocab_(vocab), options_(std::move(options)) {
        std::vector<Trie::Key> keys;
        double lowest = 0;
        for (TokenId id = 0; id < vocab.size(); ++id) {
            if (static_cast<size_t>(id) >= options_.scores.size()) break;  // tokens that were added later
            keys.push_back({vocab[id].text, id});
            const double score = options_.scores[static_cast<size_t>(id)];
            lowest = id == 0 ? score : std::min(lowest, score);
        }
        trie_ = Trie(std::move(keys));
        unknown_score_ = lowest - kUnknownPenalty;
        if (options_.byte_fallback) bytes_ = find_byte_pieces(vocab);
    }

    void encode(std::string_view text, ModelScratch&, std::vector<TokenId>& out) const override {
        const auto score = [&](TokenId id, size_t) -> std::optional<double> {
            return options_.scores[static_cast<size_t>(id)];
        };
        const std::vector<Step> steps = BestPath<double>::find(trie_, text, unknown_score_, score);
        for (size_t i = 0; i < steps.size();) {
            size_t last = i;
            while (is_unknown(steps[i]) && last + 1 < steps.size() && is_unknown(steps[last + 1])) ++last;
            if (is_unknown(steps[i]))
                push_unknown(text.substr(steps[i].begin, steps[last].end - steps[i].begin), out);
            else
                out.push_back(steps[i].id);
            i = last + 1;
        }
    }

  private:
    // The text "<unk>" is unknown too.
    bool is_unknown(const Step& step) const { return step.id == kUnknown || step.id == options_.unk; }

    void push_unknown(std::string_view text, std::vector<TokenId>& out) const {
        if (const auto id = vocab_.find_in_model(text)) {
            out.push_back(*id);
        } else if (bytes_) {
            for (const char byte : text) out.push_back((*bytes_)[static_cast<unsigned char>(byte)]);
        } else if (options_.unk) {
            out.push_back(*options_.unk);
        }
    }

    const Vocabulary& vocab_;
    UnigramOptions options_;
    Trie trie_;
    double unknown_score_;
    std::optional<std::vector<TokenId>> bytes_;
};

}  // namespace

TokenModelPtr sentencepiece_unigram(SentencePieceVocab pieces) {
    return std::make_unique<SentencePieceUnigram>(std::move(pieces));
}

TokenModelPtr unigram_model(const Vocabulary& vocab, UnigramOptions options) {
    return std::make_unique<Unigram>(vocab, std::move(options));
}

}  // namespace tandem::text
