#include "hub/library.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "hub/http.h"
#include "hub/hub_cache.h"
#include "hub/partial_file.h"
#include "hub/reference.h"
#include "hub/repository.h"
#include "hub/selection.h"

namespace tandem::hub {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntries = 100'000;  // of a folder that is searched

int64_t changed_at(const fs::path& path) {
    std::error_code error;
    const fs::file_time_type time = fs::last_write_time(path, error);
    if (error) return 0;
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::file_clock::to_sys(time).time_since_epoch())
        .count();
}

// The files below a folder, their paths from there; links are followed to files, not to folders.
std::vector<FileEntry> files_below(const fs::path& folder) {
    std::vector<FileEntry> files;
    std::error_code error;
    fs::recursive_directory_iterator item(folder, fs::directory_options::skip_permission_denied, error);
    for (const fs::recursive_directory_iterator end; !error && item != end; item.increment(error)) {
        if (files.size() >= kMostEntries) break;
        std::error_code not_a_file;
        const uint64_t size = fs::file_size(item->path(), not_a_file);  // fails for folders and dead links
        if (not_a_file) continue;
        files.push_back({.path = item->path().lexically_relative(folder).string(), .size_bytes = size});
    }
    std::sort(files.begin(), files.end(), [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
    return files;
}

std::vector<fs::path> subfolders(const fs::path& folder) {
    std::vector<fs::path> folders;
    std::error_code error;
    for (fs::directory_iterator item(folder, error), end; !error && item != end; item.increment(error)) {
        if (item->is_directory(error)) folders.push_back(item->path());
    }
    std::sort(folders.begin(), folders.end());
    return folders;
}

LocalModel model_of(const fs::path& folder, const Variant& variant, std::string name, Owner owner) {
    LocalModel model{.name = std::move(name),
                     .path = variant.first.empty() ? folder : folder / variant.first,
                     .files = {},
                     .size_bytes = variant.size_bytes(),
                     .owner = owner};
    for (const FileEntry& file : variant.files) model.files.push_back(folder / file.path);
    model.changed_s = changed_at(model.files.front());
    return model;
}

// A safetensors model is whole when all files of its index are there.
bool is_whole(const Variant& variant) {
    if (!variant.is_complete) return false;
    if (!variant.first.empty()) return true;
    int count = 0;
    int wanted = 0;
    for (const FileEntry& file : variant.files) {
        const size_t of = file.path.find("-of-");
        if (!file.path.ends_with(".safetensors") || of == std::string::npos) continue;
        ++count;
        wanted = std::atoi(file.path.c_str() + of + 4);
    }
    return count == wanted;
}

// Snapshots of a repository: the one that main stands for first, then the newest.
std::vector<fs::path> snapshots_of(const HubCache& cache) {
    std::vector<fs::path> folders = subfolders(cache.root() / "snapshots");
    const std::string main = cache.ref("main");
    const auto rank = [&](const fs::path& folder) { return std::pair(folder.filename() == main, changed_at(folder)); };
    std::stable_sort(folders.begin(), folders.end(),
                     [&](const fs::path& a, const fs::path& b) { return rank(a) > rank(b); });
    return folders;
}

void mark_default(std::vector<LocalModel>& models, const std::vector<FileEntry>& files) {
    const Result<Selection> selection = select_variant(files, "", "");
    if (!selection) return;
    for (LocalModel& model : models) {
        if (model.name.ends_with(":" + selection->variant.label)) {
            model.is_default = true;
            return;
        }
    }
}

bool is_same_name(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
        return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
    });
}

}  // namespace

std::string_view name(Owner owner) {
    switch (owner) {
        case Owner::tandem:
            return "tandem";
        case Owner::hugging_face:
            return "Hugging Face";
        case Owner::ollama:
            return "Ollama";
        case Owner::llama_cpp:
            return "llama.cpp";
        case Owner::lm_studio:
            return "LM Studio";
    }
    return "";
}

std::string file_name_of(std::string_view name) {
    std::string file;
    for (const char c : name) {
        const bool is_plain = c != '/' && c != '%' && c != '\\' && static_cast<unsigned char>(c) >= 0x20;
        file += is_plain && !(file.empty() && c == '.') ? std::string(1, c)
                                                        : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return file;
}

std::string name_of_file(std::string_view file) {
    std::string name;
    for (size_t i = 0; i < file.size(); ++i) {
        const bool is_code = file[i] == '%' && i + 2 < file.size() &&
                             std::isxdigit(static_cast<unsigned char>(file[i + 1])) != 0 &&
                             std::isxdigit(static_cast<unsigned char>(file[i + 2])) != 0;
        if (is_code) {
            name += static_cast<char>(std::stoi(std::string(file.substr(i + 1, 2)), nullptr, 16));
            i += 2;
        } else {
            name += file[i];
        }
    }
    return name;
}

std::vector<LocalModel> find_own(const fs::path& folder) {
    std::vector<LocalModel> models;
    std::error_code error;
    for (fs::directory_iterator item(folder, error), end; !error && item != end; item.increment(error)) {
        std::error_code not_there;
        const bool is_file = item->path().extension() == ".gguf" && fs::is_regular_file(item->path(), not_there);
        const bool is_folder = fs::exists(item->path() / "config.json", not_there);
        if (!is_file && !is_folder) continue;
        const std::string file = is_file ? item->path().stem().string() : item->path().filename().string();
        LocalModel model{.name = name_of_file(file), .path = item->path(), .files = {item->path()}};
        // One step of a link: a file's name says whether it is one of several.
        if (fs::is_symlink(item->path(), not_there)) model.path = fs::read_symlink(item->path(), not_there);
        model.changed_s = changed_at(item->path());
        for (const FileEntry& part : is_folder ? files_below(model.path) : std::vector<FileEntry>()) {
            model.size_bytes += part.path.ends_with(".safetensors") ? part.size_bytes : 0;
        }
        if (is_file) model.size_bytes = fs::file_size(model.path, not_there);
        models.push_back(std::move(model));
    }
    return models;
}

std::vector<LocalModel> find_in_hub_cache(const fs::path& folder) {
    std::vector<LocalModel> models;
    for (const fs::path& entry : subfolders(folder)) {
        const std::string repo = repo_of_entry(entry.filename().string());
        if (repo.empty()) continue;
        std::vector<LocalModel> of_repo;
        std::vector<FileEntry> all;
        for (const fs::path& snapshot : snapshots_of(HubCache(folder, repo))) {
            const std::vector<FileEntry> files = files_below(snapshot);
            for (const Variant& variant : find_variants(files)) {
                const std::string name = repo + ":" + variant.label;
                const bool is_known = std::any_of(of_repo.begin(), of_repo.end(),
                                                  [&](const LocalModel& model) { return model.name == name; });
                if (is_known || !is_whole(variant)) continue;
                of_repo.push_back(model_of(snapshot, variant, name, Owner::hugging_face));
                all.insert(all.end(), variant.files.begin(), variant.files.end());
            }
        }
        mark_default(of_repo, all);
        std::move(of_repo.begin(), of_repo.end(), std::back_inserter(models));
    }
    return models;
}

std::vector<LocalModel> find_in_llama_cpp(const fs::path& folder) {
    std::vector<LocalModel> models;
    for (const Variant& variant : find_variants(files_below(folder))) {
        if (variant.first.empty() || !is_whole(variant)) continue;
        std::string name = fs::path(variant.first).stem().string();
        models.push_back(model_of(folder, variant, std::move(name), Owner::llama_cpp));
    }
    return models;
}

std::vector<LocalModel> find_in_lm_studio(const fs::path& folder) {
    std::vector<LocalModel> models;
    for (const fs::path& publisher : subfolders(folder)) {
        for (const fs::path& model : subfolders(publisher)) {
            const std::string repo = publisher.filename().string() + "/" + model.filename().string();
            for (const Variant& variant : find_variants(files_below(model))) {
                if (!is_whole(variant)) continue;
                models.push_back(model_of(model, variant, repo + ":" + variant.label, Owner::lm_studio));
            }
        }
    }
    return models;
}

std::vector<LocalModel> find_models(const Places& places) {
    std::vector<LocalModel> models;
    const auto add = [&](std::vector<LocalModel> more) {
        for (LocalModel& model : more) {
            const bool is_known = std::any_of(models.begin(), models.end(), [&](const LocalModel& other) {
                return is_same_name(other.name, model.name);
            });
            if (!is_known) models.push_back(std::move(model));
        }
    };
    if (!places.own.empty()) add(find_own(places.own));
    if (!places.hub_cache.empty()) add(find_in_hub_cache(places.hub_cache));
    for (const fs::path& folder : places.ollama) add(find_in_ollama(folder));
    if (!places.llama_cpp.empty()) add(find_in_llama_cpp(places.llama_cpp));
    if (!places.lm_studio.empty()) add(find_in_lm_studio(places.lm_studio));
    std::stable_sort(models.begin(), models.end(),
                     [](const LocalModel& a, const LocalModel& b) { return a.name < b.name; });
    return models;
}

namespace {

void add_file(LocalModel& model, const fs::path& file) {
    std::error_code error;
    const uint64_t size = fs::file_size(file, error);
    model.files.push_back(file);
    model.size_bytes += error ? 0 : size;
}

std::vector<fs::path> partial_files(const fs::path& folder) {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator item(folder, error), end; !error && item != end; item.increment(error)) {
        if (item->path().extension() == kPartialSuffix) files.push_back(item->path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace

std::vector<LocalModel> find_unfinished(const Places& places) {
    std::vector<LocalModel> models;
    for (const fs::path& entry : subfolders(places.hub_cache)) {
        LocalModel model{
            .name = repo_of_entry(entry.filename().string()), .path = {}, .files = {}, .owner = Owner::hugging_face};
        if (model.name.empty()) continue;
        for (const fs::path& file : partial_files(entry / "blobs")) add_file(model, file);
        for (const fs::path& snapshot : subfolders(entry / "snapshots")) {
            for (const Variant& variant : find_variants(files_below(snapshot))) {
                for (const FileEntry& part : variant.files) {
                    if (!variant.is_complete) add_file(model, snapshot / part.path);
                }
            }
        }
        if (!model.files.empty()) models.push_back(std::move(model));
    }
    for (const fs::path& file : partial_files(places.own)) {
        models.push_back({.name = name_of_file(file.stem().stem().string()), .path = {}, .files = {}});
        add_file(models.back(), file);
    }
    return models;
}

std::optional<LocalModel> find_model(const Places& places, std::string_view name) {
    const std::vector<LocalModel> models = find_models(places);
    const auto find = [&](std::string_view wanted) {
        return std::find_if(models.begin(), models.end(),
                            [&](const LocalModel& model) { return is_same_name(model.name, wanted); });
    };
    if (const auto exact = find(name); exact != models.end()) return *exact;
    if (const auto latest = find(std::string(name) + ":latest"); latest != models.end()) return *latest;
    const Result<std::optional<Reference>> parsed = parse_reference(name, places.endpoint);
    if (!parsed || !*parsed || (*parsed)->repo.empty()) return std::nullopt;
    const Reference& reference = **parsed;
    if (!reference.tag.empty()) {
        const std::string label = quant_label(reference.tag);
        const auto tagged = find(reference.repo + ":" + label);
        return tagged == models.end() ? std::nullopt : std::optional(*tagged);
    }
    std::vector<const LocalModel*> of_repo;
    for (const LocalModel& model : models) {
        if (is_same_name(model.name.substr(0, model.name.find(':')), reference.repo)) of_repo.push_back(&model);
    }
    if (of_repo.size() == 1) return *of_repo.front();
    const auto preferred =
        std::find_if(of_repo.begin(), of_repo.end(), [](const LocalModel* m) { return m->is_default; });
    return preferred == of_repo.end() ? std::nullopt : std::optional(**preferred);
}

namespace {

// The blobs that the snapshots of a repository link to.
std::set<fs::path> linked_blobs(const fs::path& root) {
    std::set<fs::path> blobs;
    std::error_code error;
    fs::recursive_directory_iterator item(root / "snapshots", error);
    for (const fs::recursive_directory_iterator end; !error && item != end; item.increment(error)) {
        std::error_code ignored;
        if (item->is_symlink(ignored)) blobs.insert(fs::read_symlink(item->path(), ignored).filename());
    }
    return blobs;
}

void remove_empty_folders(fs::path folder, const fs::path& root) {
    std::error_code error;
    for (; folder != root && folder.has_relative_path(); folder = folder.parent_path()) {
        if (!fs::is_empty(folder, error) || error || !fs::remove(folder, error)) return;
    }
}

Status remove_from_hub_cache(const fs::path& cache, const LocalModel& model) {
    const HubCache repository(cache, model.name.substr(0, model.name.find(':')));
    const fs::path& root = repository.root();
    const std::set<fs::path> before = linked_blobs(root);
    for (const fs::path& file : model.files) {
        std::shared_ptr<void> lock;
        if (file.extension() == kPartialSuffix) {
            auto locked = repository.lock(
                file.stem().string(), [] { return true; }, [] {});
            if (!locked && is_stopped(locked.error()))
                return fail("{}: it is being fetched: stop that first", model.name);
            if (locked) lock = *std::move(locked);
        }
        std::error_code error;
        fs::remove(file, error);
        if (error) return fail("{}: cannot be removed: {}", file.string(), error.message());
        remove_empty_folders(file.parent_path(), root);
    }
    const std::set<fs::path> after = linked_blobs(root);
    for (const fs::path& blob : before) {
        if (after.contains(blob)) continue;
        std::error_code error;
        fs::remove(root / "blobs" / blob, error);
        if (error) return fail("{}: cannot be removed: {}", (root / "blobs" / blob).string(), error.message());
    }
    std::error_code ignored;
    if (after.empty()) fs::remove_all(root, ignored);  // refs, and what is left of downloads
    if (after.empty()) fs::remove_all(cache / ".locks" / root.filename(), ignored);
    return Ok{};
}

}  // namespace

Status remove_model(const Places& places, const LocalModel& model) {
    if (model.owner == Owner::hugging_face) return remove_from_hub_cache(places.hub_cache, model);
    if (model.owner != Owner::tandem) {
        return fail("{} belongs to {}: remove it there", model.name, name(model.owner));
    }
    for (const fs::path& file : model.files) {
        std::error_code error;
        fs::remove_all(file, error);  // a link is removed, not what it leads to
        if (error) return fail("{}: cannot be removed: {}", file.string(), error.message());
    }
    return Ok{};
}

Status name_model(const Places& places, const fs::path& path, std::string_view name) {
    if (places.own.empty()) return fail("{}: there is no home to keep names of models in", name);
    std::error_code error;
    const fs::path target = fs::absolute(path, error);
    const bool is_folder = fs::is_directory(target, error);
    const fs::path link = places.own / (file_name_of(name) + (is_folder ? "" : ".gguf"));
    if (name.empty() || link.filename().string().size() > 250) return fail("'{}' is no name for a model", name);
    if (fs::exists(link, error) && !fs::is_symlink(link, error)) {
        return fail("{}: there is a model of this name: remove it first", name);
    }
    fs::create_directories(places.own, error);
    const fs::path temporary = link.string() + ".tandem-link";
    fs::remove(temporary, error);
    fs::create_symlink(target, temporary, error);
    if (!error) fs::rename(temporary, link, error);
    if (error) return fail("{}: cannot be written: {}", link.string(), error.message());
    return Ok{};
}

}  // namespace tandem::hub
