#include "hub/repository.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "format/json.h"

namespace tandem::hub {

namespace {

using Json = nlohmann::json;

constexpr int kMostPages = 1000;
constexpr size_t kMostFiles = 200'000;
constexpr format::JsonLimits kListing = {.values = 4'000'000, .members = 2'000'000};

std::string encoded(std::string_view text, bool keeps_slashes) {
    std::string result;
    for (const char c : text) {
        const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' ||
                              c == '~' || (keeps_slashes && c == '/');
        result += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return result;
}

// A member that must be a string; empty when it is not.
std::string text_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<uint64_t> size_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<uint64_t>();
}

Result<RemoteFile> parse_file(const Json& entry, std::string_view name) {
    RemoteFile file{.path = text_of(entry, "path")};
    if (!is_inner_path(file.path)) return fail("{}: the path '{}' leads out of the repository", name, file.path);
    const auto lfs = entry.find("lfs");
    const bool is_large = lfs != entry.end() && lfs->is_object();
    const std::optional<uint64_t> size = is_large ? size_of(*lfs, "size") : size_of(entry, "size");
    file.etag = is_large ? text_of(*lfs, "oid") : text_of(entry, "oid");
    if (!size || !is_hex(file.etag, is_large ? 64 : 40)) {
        return fail("{}: the file '{}' is listed without a size or a checksum", name, file.path);
    }
    file.size_bytes = *size;
    return file;
}

}  // namespace

bool is_hex(std::string_view text, size_t digits) {
    return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<std::vector<RemoteFile>> parse_tree(std::string_view json, std::string_view name) {
    const Json entries = TRY(format::parse_json(json, name, kListing));
    if (!entries.is_array()) return fail("{}: a list of files was expected", name);
    std::vector<RemoteFile> files;
    for (const Json& entry : entries) {
        if (!entry.is_object()) return fail("{}: an entry is not an object", name);
        if (text_of(entry, "type") == "file") files.push_back(TRY(parse_file(entry, name)));
    }
    return files;
}

Result<std::string> parse_commit(std::string_view json, std::string_view name) {
    const Json info = TRY(format::parse_json(json, name, kListing));
    const std::string commit = info.is_object() ? text_of(info, "sha") : std::string();
    if (!is_hex(commit, 40)) return fail("{}: it names no commit", name);
    return commit;
}

std::string next_page(std::string_view link) {
    for (size_t begin = link.find('<'); begin != std::string_view::npos; begin = link.find('<', begin + 1)) {
        const size_t end = link.find('>', begin);
        if (end == std::string_view::npos) return {};
        const size_t next_link = link.find('<', end);
        const std::string_view parameters =
            link.substr(end, next_link == std::string_view::npos ? next_link : next_link - end);
        if (parameters.find("rel=\"next\"") != std::string_view::npos) {
            return std::string(link.substr(begin + 1, end - begin - 1));
        }
    }
    return {};
}

Result<Repository> list_repository(Http& http, const Reference& reference) {
    const Places& places = http.options().places;
    const std::string base = places.endpoint + "/api/models/" + reference.repo;
    const HttpAnswer info = TRY(http.get(base + "/revision/" + encoded(reference.revision, false)));
    Repository repository{.repo = reference.repo, .commit = TRY(parse_commit(info.body, base))};

    std::string page = base + "/tree/" + repository.commit + "?recursive=true";
    for (int pages = 0; !page.empty(); ++pages) {
        const HttpAnswer answer = TRY(http.get(page));
        std::vector<RemoteFile> files = TRY(parse_tree(answer.body, base));
        std::move(files.begin(), files.end(), std::back_inserter(repository.files));
        if (pages >= kMostPages || repository.files.size() > kMostFiles) {
            return fail("{}: the list of its files has no end", base);
        }
        const std::string next = next_page(answer.headers.find("link"));
        page = next.empty() ? next : resolve_url(page, next);
        // A mirror may pass on the Hub's own addresses.
        constexpr std::string_view kHub = "https://huggingface.co/";
        if (page.starts_with(kHub)) page = places.endpoint + page.substr(kHub.size() - 1);
    }
    return repository;
}

std::string file_url(const Places& places, const Repository& repository, std::string_view path) {
    return fmt::format("{}/{}/resolve/{}/{}", places.endpoint, repository.repo, repository.commit, encoded(path, true));
}

}  // namespace tandem::hub
