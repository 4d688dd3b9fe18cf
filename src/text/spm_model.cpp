#include "text/spm_model.h"

#include <cstring>

#include "base/byte_reader.h"
#include "text/utf8.h"

namespace tandem::text {

namespace {

// A protocol buffer is a list of numbered fields; those with a length may hold messages themselves.
struct ProtoField {
    uint32_t number = 0;
    uint32_t wire_type = 0;
    uint64_t value = 0;                  // types 0, 1 and 5
    std::span<const std::byte> bytes{};  // type 2

    std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
    bool flag() const { return value != 0; }
    float real() const {
        const auto bits = static_cast<uint32_t>(value);
        float result = 0;
        std::memcpy(&result, &bits, sizeof(result));
        return result;
    }
};

class ProtoReader {
  public:
    explicit ProtoReader(std::span<const std::byte> bytes) : reader_(bytes) {}

    // False at the end of the message and after an error.
    bool next(ProtoField& field) {
        if (!reader_.ok() || reader_.remaining() == 0) return false;
        const uint64_t tag = varint("field tag");
        field = {.number = static_cast<uint32_t>(tag >> 3), .wire_type = static_cast<uint32_t>(tag & 7U)};
        switch (field.wire_type) {
            case 0:
                field.value = varint("number");
                break;
            case 1:
                field.value = reader_.read<uint64_t>("64-bit field");
                break;
            case 2:
                field.bytes = reader_.take(varint("field length"), "field");
                break;
            case 5:
                field.value = reader_.read<uint32_t>("32-bit field");
                break;
            default:
                reader_.set_error(fail("field {} at offset {} has the unknown wire type {}", field.number,
                                       reader_.offset(), field.wire_type));
        }
        return reader_.ok();
    }

    Status status() const { return reader_.status(); }

  private:
    uint64_t varint(std::string_view what) {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            const auto byte = reader_.read<uint8_t>(what);
            value |= uint64_t{byte & 0x7FU} << shift;
            if ((byte & 0x80U) == 0) return value;
        }
        reader_.set_error(fail("{} at offset {} is longer than 64 bits", what, reader_.offset()));
        return 0;
    }

    ByteReader reader_;
};

Result<Piece> parse_piece(std::span<const std::byte> bytes) {
    Piece piece;
    ProtoReader reader(bytes);
    for (ProtoField field; reader.next(field);) {
        if (field.number == 1) piece.text = field.text();
        if (field.number == 2) piece.score = field.real();
        if (field.number == 3) {
            if (field.value < 1 || field.value > 6)
                return fail("piece '{}' has the unknown type {}", piece.text, field.value);
            piece.kind = static_cast<PieceKind>(field.value);
        }
    }
    TRY(reader.status());
    if (piece.text.size() > Vocabulary::kMaxPieceBytes)
        return fail("a piece has {} bytes; the limit is {}", piece.text.size(), Vocabulary::kMaxPieceBytes);
    if (piece.score != piece.score) return fail("the score of piece '{}' is not a number", piece.text);
    return piece;
}

Status parse_trainer(std::span<const std::byte> bytes, SentencePieceSpec& spec) {
    ProtoReader reader(bytes);
    for (ProtoField field; reader.next(field);) {
        switch (field.number) {
            case 3:
                if (field.value != 1 && field.value != 2)
                    return fail("model type {} is neither unigram (1) nor BPE (2)", field.value);
                spec.kind = field.value == 2 ? SentencePieceSpec::Kind::bpe : SentencePieceSpec::Kind::unigram;
                break;
            case 24:
                spec.whitespace_as_suffix = field.flag();
                break;
            case 35:
                spec.byte_fallback = field.flag();
                break;
            case 44:
                spec.unk_surface = field.text();
                break;
            case 45:
                spec.unk_piece = field.text();
                break;
            case 46:
                spec.bos_piece = field.text();
                break;
            case 47:
                spec.eos_piece = field.text();
                break;
            case 48:
                spec.pad_piece = field.text();
                break;
            default:
                break;
        }
    }
    return reader.status();
}

Status parse_normalizer(std::span<const std::byte> bytes, SentencePieceSpec& spec) {
    ProtoReader reader(bytes);
    for (ProtoField field; reader.next(field);) {
        if (field.number == 2) spec.charsmap = field.text();
        if (field.number == 3) spec.add_dummy_prefix = field.flag();
        if (field.number == 4) spec.remove_extra_whitespaces = field.flag();
        if (field.number == 5) spec.escape_whitespaces = field.flag();
    }
    return reader.status();
}

Result<SentencePieceSpec> parse_model(std::span<const std::byte> bytes) {
    SentencePieceSpec spec;
    ProtoReader reader(bytes);
    for (ProtoField field; reader.next(field);) {
        if (field.number == 1 && field.wire_type == 2) spec.pieces.push_back(TRY(parse_piece(field.bytes)));
        if (field.number == 2) TRY(parse_trainer(field.bytes, spec));
        if (field.number == 3) TRY(parse_normalizer(field.bytes, spec));
    }
    TRY(reader.status());
    if (spec.pieces.empty()) return fail("it has no pieces");
    return spec;
}

}  // namespace

Result<SentencePieceSpec> parse_sentencepiece_proto(std::span<const std::byte> bytes, std::string_view name) {
    auto spec = parse_model(bytes);
    if (!spec) return fail("{} is not a SentencePiece model: {}", name, spec.error().message);
    return spec;
}

std::string user_defined_text(const Piece& piece) {
    return replace_all(piece.text, " ", kSpaceMark);
}

SentencePieceVocab::SentencePieceVocab(const Vocabulary& pieces, bool byte_fallback) : vocab(pieces) {
    std::vector<std::string> texts;
    std::vector<TokenId> ids;
    for (TokenId id = 0; id < vocab.size(); ++id) {
        const Piece& piece = vocab[id];
        if (piece.kind == PieceKind::unknown && !unk) unk = id;
        if (piece.kind == PieceKind::unused) has_unused = true;
        if (!is_user_defined(piece)) continue;
        texts.push_back(user_defined_text(piece));
        ids.push_back(id);
    }
    std::vector<Trie::Key> keys;
    for (size_t i = 0; i < texts.size(); ++i) keys.push_back({texts[i], ids[i]});
    user_defined = Trie(std::move(keys));
    if (byte_fallback) bytes = find_byte_pieces(vocab);
}

bool SentencePieceVocab::is_text(TokenId id) const {
    const Piece& piece = vocab[id];
    return piece.kind == PieceKind::normal || is_user_defined(piece) || piece.kind == PieceKind::unused;
}

void UnknownRun::push(std::string_view text, std::optional<TokenId> id) {
    const bool unknown = !id || pieces_.vocab[*id].kind == PieceKind::unknown;
    if (!unknown) {
        out_.push_back(*id);
    } else if (pieces_.bytes) {
        for (const char byte : text) out_.push_back((*pieces_.bytes)[static_cast<unsigned char>(byte)]);
    } else if (pieces_.unk && !after_unknown_) {
        out_.push_back(*pieces_.unk);
    }
    after_unknown_ = unknown;
}

}  // namespace tandem::text
