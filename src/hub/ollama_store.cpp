// What Ollama has downloaded: manifests by name, the model itself a blob that is a GGUF file.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "format/json.h"
#include "hub/library.h"
#include "hub/repository.h"

namespace tandem::hub {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kMostManifestBytes = size_t{1} << 20;
constexpr int kNameDepth = 4;  // host/namespace/model/tag
constexpr std::string_view kDigestPrefix = "sha256:";

std::string member(const Json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>()
                                                                             : std::string();
}

// "gemma3:4b" of registry.ollama.ai/library/gemma3/4b: what Ollama itself leaves out is left out.
std::string shown_name(const fs::path& relative) {
    std::vector<std::string> parts;
    for (const fs::path& part : relative) parts.push_back(part.string());
    std::string name = parts[2] + ":" + parts[3];
    if (parts[0] != "registry.ollama.ai") return parts[0] + "/" + parts[1] + "/" + name;
    return parts[1] == "library" ? name : parts[1] + "/" + name;
}

}  // namespace

Result<std::string> parse_manifest(std::string_view json, std::string_view name) {
    const Json manifest = TRY(format::parse_json(json, name));
    const auto layers = manifest.is_object() ? manifest.find("layers") : manifest.end();
    if (!manifest.is_object() || layers == manifest.end() || !layers->is_array()) {
        return fail("{}: a manifest without layers", name);
    }
    for (const Json& layer : *layers) {
        if (member(layer, "mediaType") != "application/vnd.ollama.image.model") continue;
        const std::string digest = member(layer, "digest");
        const bool is_digest = digest.starts_with(kDigestPrefix) && is_hex(digest.substr(kDigestPrefix.size()), 64);
        if (!is_digest) return fail("{}: the digest '{}' is none", name, digest);
        return digest;
    }
    return fail("{}: no layer is a GGUF model", name);
}

std::vector<LocalModel> find_in_ollama(const fs::path& folder) {
    std::vector<LocalModel> models;
    const fs::path manifests = folder / "manifests";
    std::error_code error;
    fs::recursive_directory_iterator item(manifests, fs::directory_options::skip_permission_denied, error);
    for (const fs::recursive_directory_iterator end; !error && item != end; item.increment(error)) {
        std::error_code ignored;
        const fs::path relative = item->path().lexically_relative(manifests);
        if (!item->is_regular_file(ignored) || std::distance(relative.begin(), relative.end()) != kNameDepth) continue;
        const Result<std::string> text = read_text_file(item->path(), kMostManifestBytes);
        if (!text) continue;
        const Result<std::string> digest = parse_manifest(*text, relative.string());
        if (!digest) continue;
        LocalModel model{.name = shown_name(relative), .path = {}, .files = {}, .owner = Owner::ollama};
        model.path = folder / "blobs" / ("sha256-" + digest->substr(kDigestPrefix.size()));
        model.size_bytes = fs::file_size(model.path, ignored);
        if (ignored) continue;  // pruned, or not downloaded yet
        model.files = {model.path};
        const fs::file_time_type time = fs::last_write_time(item->path(), ignored);
        model.changed_s =
            std::chrono::duration_cast<std::chrono::seconds>(std::chrono::file_clock::to_sys(time).time_since_epoch())
                .count();
        models.push_back(std::move(model));
    }
    return models;
}

}  // namespace tandem::hub
