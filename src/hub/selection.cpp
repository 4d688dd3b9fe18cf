#include "hub/selection.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>

namespace tandem::hub {

namespace {

// What is taken where nothing is said: the usual compromise first, then what is nearest to it in size and common.
constexpr std::array<std::string_view, 14> kPreferred = {"Q4_K_M", "UD-Q4_K_XL", "Q4_K_S", "Q4_0", "Q4_1",
                                                         "Q5_K_M", "Q5_K_S",     "Q6_K",   "Q8_0", "MXFP4",
                                                         "Q3_K_M", "BF16",       "F16",    "F32"};
constexpr std::string_view kSafetensors = "safetensors";

std::string upper(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return result;
}

std::string_view file_name(std::string_view path) {
    const size_t slash = path.find_last_of('/');
    return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// GGUF files that are no model by themselves.
bool is_companion(std::string_view path) {
    const std::string name = upper(file_name(path));
    if (name.find("MMPROJ") != std::string::npos || name.find("IMATRIX") != std::string::npos) return true;
    return name.starts_with("MTP-") || name.starts_with("EAGLE3-") || name.starts_with("DFLASH-") ||
           name.starts_with("DSPARK-");
}

struct Part {
    std::string prefix;  // of all parts
    int number = 1;
    int count = 1;
};

// "dir/name-00001-of-00003.gguf"
std::optional<Part> parse_part(std::string_view path) {
    constexpr std::string_view kTail = "-00000-of-00000.gguf";
    if (path.size() <= kTail.size()) return std::nullopt;
    const std::string_view tail = path.substr(path.size() - kTail.size());
    Part part{.prefix = std::string(path.substr(0, path.size() - kTail.size()))};
    if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
    const auto first = std::from_chars(tail.data() + 1, tail.data() + 6, part.number);
    const auto second = std::from_chars(tail.data() + 10, tail.data() + 15, part.count);
    if (first.ptr != tail.data() + 6 || second.ptr != tail.data() + 15 || part.number < 1 || part.number > part.count) {
        return std::nullopt;
    }
    return part;
}

bool is_quant_word(std::string_view word) {
    const auto begins = [&](std::string_view letters) {
        return word.starts_with(letters) && word.size() > letters.size() &&
               std::isdigit(static_cast<unsigned char>(word[letters.size()])) != 0;
    };
    return begins("Q") || begins("IQ") || begins("TQ") || begins("MXFP") || begins("NVFP") || word == "F16" ||
           word == "F32" || word == "BF16" || word == "FP16";
}

bool is_text_of_model(std::string_view name) {
    static constexpr std::array<std::string_view, 11> kNames = {"config.json",
                                                                "generation_config.json",
                                                                "tokenizer.json",
                                                                "tokenizer.model",
                                                                "tokenizer_config.json",
                                                                "special_tokens_map.json",
                                                                "added_tokens.json",
                                                                "chat_template.jinja",
                                                                "chat_template.json",
                                                                "vocab.json",
                                                                "merges.txt"};
    return std::find(kNames.begin(), kNames.end(), name) != kNames.end() || name == "model.safetensors.index.json";
}

void add_safetensors(const std::vector<FileEntry>& files, std::vector<Variant>& variants) {
    Variant variant{.label = std::string(kSafetensors), .first = "", .files = {}};
    bool has_config = false;
    bool has_weights = false;
    const auto is_weights = [](const FileEntry& file) {
        return file.path.find('/') == std::string::npos && file.path.ends_with(".safetensors");
    };
    const auto is_consolidated = [](const FileEntry& file) { return file.path.starts_with("consolidated"); };
    const bool has_others = std::any_of(
        files.begin(), files.end(), [&](const FileEntry& file) { return is_weights(file) && !is_consolidated(file); });
    for (const FileEntry& file : files) {
        const bool weights =
            is_weights(file) && (!has_others || !is_consolidated(file));  // the same, in Mistral's names
        if (!weights && !is_text_of_model(file.path)) continue;
        has_config = has_config || file.path == "config.json";
        has_weights = has_weights || weights;
        variant.files.push_back(file);
    }
    if (has_config && has_weights) variants.push_back(std::move(variant));
}

std::string labels_of(const std::vector<Variant>& variants) {
    std::string list;
    for (const Variant& variant : variants) {
        if (list.find(variant.label) == std::string::npos) list += (list.empty() ? "" : ", ") + variant.label;
    }
    return list;
}

const Variant* find_tagged(const std::vector<Variant>& variants, std::string_view tag) {
    const std::string wanted = upper(tag);
    const auto find = [&](const auto& fits) -> const Variant* {
        const auto found = std::find_if(variants.begin(), variants.end(), fits);
        return found == variants.end() ? nullptr : &*found;
    };
    if (const Variant* exact = find([&](const Variant& v) { return upper(v.label) == wanted; })) return exact;
    const Variant* const named = find([&](const Variant& v) {
        return std::any_of(v.files.begin(), v.files.end(), [&](const FileEntry& file) {
            const std::string path = upper(file.path);
            const std::string name(file_name(path));
            return path == wanted || name == wanted || name == wanted + ".GGUF";
        });
    });
    if (named != nullptr) return named;
    return find([&](const Variant& v) {  // as llama.cpp has it
        const std::string path = upper(v.first);
        return path.find(wanted + ".") != std::string::npos || path.find(wanted + "-") != std::string::npos;
    });
}

}  // namespace

uint64_t Variant::size_bytes() const {
    uint64_t sum = 0;
    for (const FileEntry& file : files) sum += file.size_bytes;
    return sum;
}

std::string quant_label(std::string_view path) {
    const std::optional<Part> part = parse_part(path);
    std::string_view stem = part ? file_name(part->prefix) : file_name(path);
    if (stem.ends_with(".gguf")) stem.remove_suffix(5);
    const size_t cut = stem.find_last_of("-.");
    const std::string word = upper(cut == std::string_view::npos ? stem : stem.substr(cut + 1));
    if (!is_quant_word(word)) return std::string(stem);
    const bool is_dynamic = cut != std::string_view::npos && upper(stem.substr(0, cut)).ends_with("-UD");
    return is_dynamic ? "UD-" + word : word;
}

std::vector<Variant> find_variants(const std::vector<FileEntry>& files) {
    std::vector<Variant> variants;
    std::map<std::string, size_t> of_prefix;  // of files with parts
    std::vector<int> counts;
    for (const FileEntry& file : files) {
        if (!file.path.ends_with(".gguf") || is_companion(file.path)) continue;
        const std::optional<Part> part = parse_part(file.path);
        const std::string key = part ? fmt::format("{}/{}", part->prefix, part->count) : file.path;
        const auto [known, is_new] = of_prefix.try_emplace(key, variants.size());
        if (is_new) {
            variants.push_back({.label = quant_label(file.path), .first = file.path, .files = {}});
            counts.push_back(part ? part->count : 1);
        }
        Variant& variant = variants[known->second];
        variant.files.push_back(file);
        variant.first = std::min(variant.first, file.path);  // the parts are numbered with as many digits
    }
    for (size_t i = 0; i < variants.size(); ++i) {
        variants[i].is_complete = variants[i].files.size() == static_cast<size_t>(counts[i]);
    }
    add_safetensors(files, variants);
    return variants;
}

Result<Selection> select_variant(const std::vector<FileEntry>& files, std::string_view tag, std::string_view name) {
    const std::vector<Variant> variants = find_variants(files);
    if (variants.empty()) {
        return fail(
            "{}: it has neither a GGUF file nor a config.json with safetensors: take another repository, one "
            "with GGUF in its name",
            name);
    }
    const auto checked = [&](const Variant& variant, std::string why) -> Result<Selection> {
        if (variant.is_complete) return Selection{variant, std::move(why)};
        return fail("{}: some parts of {} are missing: take another of {}", name, variant.first, labels_of(variants));
    };
    if (!tag.empty()) {
        const Variant* const tagged = find_tagged(variants, tag);
        if (tagged == nullptr) return fail("{}: there is no {}: there are {}", name, tag, labels_of(variants));
        return checked(*tagged, "");
    }
    for (const std::string_view label : kPreferred) {
        const Variant* const preferred = find_tagged(variants, label);
        if (preferred == nullptr || preferred->label != label) continue;
        return checked(*preferred, variants.size() == 1          ? "it is the only one"
                                   : label == kPreferred.front() ? "it is a good compromise of size and quality"
                                                                 : "there is no Q4_K_M");
    }
    return checked(variants.front(), variants.size() == 1 ? "it is the only one" : "it is the first there");
}

}  // namespace tandem::hub
