#include "server/model_pool.h"

#include <algorithm>
#include <system_error>

#include "base/log.h"
#include "base/units.h"
#include "hub/library.h"

namespace tandem::server {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLookAgain{500};  // for models to unload
constexpr std::chrono::milliseconds kLookWhileClosing{20};
constexpr int kMostLooks = 100;
constexpr size_t kMostModels = 10'000;  // that a folder is searched for

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

const engine::EmbeddedModel* find_embedded(std::string_view name) {
    for (const engine::EmbeddedModel& model : engine::embedded_models()) {
        if (model.name == name) return &model;
    }
    return nullptr;
}

bool is_model(const fs::path& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return fs::exists(path / "config.json", ignored);
    return path.extension() == ".gguf" && fs::is_regular_file(path, ignored);
}

std::string name_of(const fs::path& path) {
    const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
    return last.extension() == ".gguf" ? last.stem().string() : last.string();
}

uint64_t size_of(const fs::path& path) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
        const uint64_t size = fs::file_size(path, error);
        return error ? 0 : size;
    }
    uint64_t sum = 0;
    for (fs::directory_iterator file(path, error), end; !error && file != end; file.increment(error)) {
        if (file->path().extension() == ".safetensors") sum += size_of(file->path());
    }
    return sum;
}

int64_t changed_s(const fs::path& path) {
    std::error_code error;
    const fs::file_time_type time = fs::last_write_time(path, error);
    if (error) return 0;
    const auto system = std::chrono::file_clock::to_sys(time).time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(system).count();
}

// What clients get to know of an error: the names of files, not where on this machine they are.
std::string without_paths(std::string message, const std::string& source) {
    const std::string parent = fs::path(source).parent_path().string();
    const std::string folder = parent.ends_with('/') ? parent : parent + "/";
    for (size_t at = parent.empty() ? std::string::npos : message.find(folder); at != std::string::npos;
         at = message.find(folder, at))
        message.erase(at, folder.size());
    const bool has_path = message.starts_with('/') || message.find(" /") != std::string::npos ||
                          message.find("'/") != std::string::npos || message.find("\"/") != std::string::npos;
    return has_path ? "it cannot be loaded: the log of the server says why" : message;
}

// What is wrong with a model, as far as one can tell without its weights; empty: nothing.
std::string flaw_of(const fs::path& path) {
    const auto look = [&]() -> Status {
        const format::Checkpoint checkpoint = TRY(engine::open_checkpoint(path.string()));
        TRY(models::load(checkpoint));
        return Ok{};
    };
    const Status looked = look();
    if (looked) return {};
    log::warn("{} is not offered: {}", path.string(), looked.error().message);
    return without_paths(looked.error().message, path.string());
}

// Ollama's clients add a tag.
std::string without_tag(const std::string& name) {
    constexpr std::string_view kTag = ":latest";
    return name.ends_with(kTag) ? name.substr(0, name.size() - kTag.size()) : name;
}

ApiError stopping_error() {
    return {.status = 503, .type = "unavailable_error", .message = "the server is stopping", .retry_after_s = 5};
}

ModelCard details_of(const LoadedModel& model) {
    const models::Model& weights = model.bundle().model;
    ModelCard card;
    card.family = weights.family;
    card.parameters = weights.parameters;
    std::map<DType, uint64_t> bytes;
    for (const auto& [name, view] : weights.weights.all()) bytes[view.dtype] += view.data.size();
    const auto most =
        std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != bytes.end()) card.quantization = name(most->first);
    card.context = model.engine().context();
    card.trained_context = weights.context_length;
    card.dim = weights.dim;
    if (const auto& chat_template = model.bundle().prompts.chat_template()) {
        card.chat_template = chat_template->source();
        card.has_tools = chat_template->shows_tools();
        card.has_thinking = chat_template->answer_format().reasons();
    }
    return card;
}

}  // namespace

// ---- Use

ModelPool::Use::Use(ModelPool& pool, std::string name, LoadedModel& model, double load_seconds)
    : pool_(&pool), name_(std::move(name)), model_(&model), load_seconds_(load_seconds) {
    model.add_user();
}

ModelPool::Use& ModelPool::Use::operator=(Use&& other) noexcept {
    if (this == &other) return *this;
    release();
    pool_ = std::exchange(other.pool_, nullptr);
    name_ = std::move(other.name_);
    model_ = std::exchange(other.model_, nullptr);
    load_seconds_ = other.load_seconds_;
    return *this;
}

void ModelPool::Use::release() {
    if (model_ == nullptr) return;
    model_->touch();
    std::exchange(model_, nullptr)->remove_user();
    pool_->wake_.notify_all();  // without the lock, which whoever calls this might wait for: work() looks again anyway
}

// ---- Names

Result<std::unique_ptr<ModelPool>> ModelPool::open(PoolOptions options) {
    std::unique_ptr<ModelPool> pool(new ModelPool(std::move(options)));
    std::vector<PoolModel> named = pool->options_.models;
    if (named.empty()) named.push_back({std::string(engine::embedded_models().front().name)});
    for (const PoolModel& model : named) TRY(pool->add_named(model));
    if (!pool->options_.folder.empty()) {
        std::error_code error;
        if (!fs::is_directory(pool->options_.folder, error)) {
            return fail("{}: no such directory of models", pool->options_.folder.string());
        }
        std::unique_lock lock(pool->mutex_);
        pool->scan_folder(lock);
    }
    return pool;
}

void ModelPool::start() {
    thread_ = std::thread([this] { work(); });
}

void ModelPool::stop_loading() {
    std::vector<Waiter> refused;
    {
        const std::lock_guard lock(mutex_);
        loads_nothing_ = true;
        for (const auto& item : entries_) {
            Entry& entry = *item.second;
            entry.progress.is_unwanted = true;
            std::move(entry.waiters.begin(), entry.waiters.end(), std::back_inserter(refused));
            entry.waiters.clear();
        }
        wake_.notify_all();
    }
    for (const Waiter& waiter : refused) waiter.ready(stopping_error());
}

bool ModelPool::loader_ends(std::chrono::milliseconds within) {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, within, [&] { return !is_loading_; });
}

ModelPool::~ModelPool() {
    close();
}

void ModelPool::close() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    std::unique_lock lock(mutex_);
    for (const auto& item : entries_) {
        Entry& entry = *item.second;
        if (!entry.model) continue;
        for (int i = 0; i < kMostLooks && entry.model->is_used(); ++i) wake_.wait_for(lock, kLookWhileClosing);
        entry.model->halt();
        if (!entry.model->is_used()) entry.model.reset();
    }
}

Status ModelPool::add_named(const PoolModel& model) {
    const std::string& source = model.source;
    auto entry = std::make_unique<Entry>();
    const engine::EmbeddedModel* const embedded = find_embedded(source);
    if (embedded != nullptr) {
        entry->name = source;
        entry->created_s = changed_s("/proc/self/exe");
        entry->file_bytes = embedded->gguf.size();
    } else {
        TRY(engine::open_checkpoint(source));  // says what is wrong with it, before anything else begins
        entry->name = model.name.empty() ? name_of(source) : without_tag(model.name);
        entry->file_bytes = size_of(source);
        entry->created_s = changed_s(source);
    }
    entry->source = source;
    entry->wanted_from_start = true;
    entry->waiters.push_back({.ready = [](const Reply<Use>&) {}, .since = Clock::now()});
    if (entries_.contains(entry->name)) {
        return fail("{}: there is already a model named '{}'; rename the file", source, entry->name);
    }
    if (default_name_.empty()) default_name_ = entry->name;
    entries_[entry->name] = std::move(entry);
    return Ok{};
}

// ---- The folder. Names come from this list and from nowhere else, so none leads out of it.

std::map<std::string, ModelPool::Found> ModelPool::find_models() const {
    std::map<std::string, Found> models;
    std::error_code error;
    for (fs::directory_iterator file(options_.folder, error), end; !error && file != end; file.increment(error)) {
        if (models.size() >= kMostModels || !is_model(file->path())) continue;
        models.try_emplace(
            name_of(file->path()),
            Found{.path = file->path(), .bytes = size_of(file->path()), .changed_s = changed_s(file->path())});
    }
    if (!options_.library) return models;
    for (const hub::LocalModel& model : hub::find_models(*options_.library)) {
        if (models.size() >= kMostModels) break;
        models.try_emplace(without_tag(model.name),
                           Found{.path = model.path, .bytes = model.size_bytes, .changed_s = model.changed_s});
    }
    return models;
}

bool ModelPool::is_known(const std::string& name, const Found& found) const {
    const auto known = entries_.find(name);
    if (known == entries_.end()) return false;
    const Entry& entry = *known->second;
    return entry.wanted_from_start || (entry.file_bytes == found.bytes && entry.created_s == found.changed_s);
}

void ModelPool::keep(const std::string& name, const Found& found) {
    std::unique_ptr<Entry>& entry = entries_[name];
    if (!entry) {
        entry = std::make_unique<Entry>();
        entry->name = name;
        entry->keep_alive_s = options_.keep_alive_s;
    }
    entry->source = found.path.string();  // a newer version lies elsewhere
    entry->file_bytes = found.bytes;
    entry->created_s = found.changed_s;
    entry->flaw = found.flaw;
}

// What is new or has changed is looked at once, without the lock.
void ModelPool::scan_folder(std::unique_lock<std::mutex>& lock) {
    if (options_.folder.empty() && !options_.library) return;
    lock.unlock();
    std::map<std::string, Found> models = find_models();
    lock.lock();
    std::vector<std::pair<const std::string, Found>*> unknown;
    for (auto& item : models) {
        if (!is_known(item.first, item.second)) unknown.push_back(&item);
    }
    lock.unlock();
    for (auto* const item : unknown) item->second.flaw = flaw_of(item->second.path);
    lock.lock();
    for (const auto* const item : unknown) keep(item->first, item->second);
    for (const auto& [name, entry] : entries_) entry->is_there = entry->wanted_from_start || models.contains(name);
}

ModelPool::Entry* ModelPool::find(const std::string& name) {
    const auto found = entries_.find(name.empty() ? default_name_ : without_tag(name));
    return found == entries_.end() ? nullptr : found->second.get();
}

Reply<ModelPool::Entry*> ModelPool::require(const std::string& name, std::unique_lock<std::mutex>& lock) {
    Entry* entry = find(name);
    // it may be new, or may have been put right
    if (entry == nullptr || !entry->is_there || !entry->flaw.empty()) {
        scan_folder(lock);
        entry = find(name);
    }
    if (entry == nullptr && options_.library) {  // a repository without a tag means one of its quantizations
        lock.unlock();
        const std::optional<hub::LocalModel> local = hub::find_model(*options_.library, name);
        lock.lock();
        if (local) entry = find(local->name);
    }
    if (entry == nullptr || (!entry->is_there && !entry->model)) {
        return ApiError{.status = 404,
                        .type = "not_found_error",
                        .message = fmt::format("the model '{}' does not exist: /v1/models lists those that do", name),
                        .code = "model_not_found",
                        .param = "model"};
    }
    if (!entry->flaw.empty() && !entry->model) {
        return ApiError{.status = 422,
                        .message = fmt::format("the model '{}' cannot be loaded: {}", entry->name, entry->flaw),
                        .code = "model_unusable",
                        .param = "model"};
    }
    return entry;
}

// ---- What there is

ModelCard ModelPool::card_of(const Entry& entry) const {
    ModelCard card = entry.details;
    card.name = entry.name;
    card.file_bytes = entry.file_bytes;
    card.created_s = entry.created_s;
    card.error = entry.error;
    if (entry.model) {
        card.state = ModelState::ready;
        card.progress = 1;
        card.memory_bytes = entry.model->memory_bytes();
        card.device_bytes = entry.model->on_gpu() ? card.memory_bytes : 0;
        if (entry.keep_alive_s >= 0) {
            card.expires_in_s = std::max(0.0, entry.keep_alive_s - seconds_since(entry.model->last_used()));
        }
        const engine::EngineStats stats = entry.model->engine().stats();
        card.cache_usage = stats.cache_usage;
        card.cache_blocks = entry.model->engine().cache_blocks();
        if (stats.prompt_tokens > 0) {
            card.cached_share = static_cast<double>(stats.cached_tokens) / static_cast<double>(stats.prompt_tokens);
        }
    } else if (entry.loading || !entry.waiters.empty()) {
        card.state = ModelState::loading;
        card.progress = entry.progress.done;
    } else {
        card.state = entry.error.empty() ? ModelState::unloaded : ModelState::failed;
    }
    return card;
}

std::vector<ModelCard> ModelPool::list() {
    std::unique_lock lock(mutex_);
    scan_folder(lock);
    std::vector<ModelCard> cards;
    cards.reserve(entries_.size());
    cards.push_back(card_of(*find("")));
    for (const auto& [name, entry] : entries_) {
        const bool is_usable = entry->model || (entry->is_there && entry->flaw.empty());
        if (name != default_name_ && is_usable) cards.push_back(card_of(*entry));
    }
    return cards;
}

Reply<ModelCard> ModelPool::card(const std::string& name) {
    std::unique_lock lock(mutex_);
    return card_of(*TRY(require(name, lock)));
}

double ModelPool::start_progress() {
    const std::lock_guard lock(mutex_);
    double done = 0;
    double all = 0;
    for (const auto& [name, entry] : entries_) {
        if (!entry->wanted_from_start) continue;
        const double size = std::max(1.0, static_cast<double>(entry->file_bytes));
        all += size;
        // what was ready once counts, whatever became of it
        done += entry->details.context > 0 ? size : size * 0.99 * static_cast<double>(entry->progress.done);
    }
    return done / all;
}

std::string ModelPool::start_error() {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) {
        if (entry->wanted_from_start && !entry->error.empty()) return entry->error;
    }
    return {};
}

void ModelPool::for_each(const std::function<void(const std::string&, LoadedModel&)>& visit) {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, entry] : entries_) {
        if (entry->model) visit(name, *entry->model);
    }
}

// ---- Taking and giving back

void ModelPool::acquire(const std::string& name, std::optional<double> keep_alive_s, const OnReady& ready) {
    std::unique_lock lock(mutex_);
    Reply<Entry*> found = stopping_ ? stopping_error() : require(name, lock);
    if (found && loads_nothing_ && !(*found)->model) found = stopping_error();
    if (!found) {
        lock.unlock();
        return ready(found.error());
    }
    Entry& entry = **found;
    if (keep_alive_s) entry.keep_alive_s = *keep_alive_s;
    entry.to_unload = false;
    if (entry.model && !entry.model->is_broken()) {
        entry.model->touch();
        Use use(*this, entry.name, *entry.model, 0);
        lock.unlock();
        return ready(std::move(use));
    }
    entry.error.clear();
    entry.waiters.push_back({.ready = ready, .since = Clock::now()});
    wake_.notify_all();
}

ModelPool::Use ModelPool::find_loaded(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const Entry* const entry = find(name);
    if (entry == nullptr || !entry->model) return {};
    return {*this, entry->name, *entry->model, 0};
}

Reply<Ok> ModelPool::unload(const std::string& name) {
    std::unique_lock lock(mutex_);
    Entry* const entry = TRY(require(name, lock));
    entry->to_unload = entry->model != nullptr;
    wake_.notify_all();
    return Ok{};
}

// ---- The loader's thread

void ModelPool::work() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        unload_idle(lock);
        const auto wanted = std::find_if(entries_.begin(), entries_.end(), [](const auto& item) {
            return !item.second->waiters.empty() && !item.second->model;
        });
        if (wanted != entries_.end()) {
            load(*wanted->second, lock);
            continue;
        }
        wake_.wait_for(lock, kLookAgain);
    }
}

bool ModelPool::expired(const Entry& entry, Clock::time_point now) const {
    if (!entry.model || entry.model->is_used()) return false;
    if (entry.model->is_broken()) return true;  // whoever waits gets it loaded again
    if (!entry.waiters.empty()) return false;
    if (entry.to_unload) return true;
    if (entry.keep_alive_s < 0) return false;
    return std::chrono::duration<double>(now - entry.model->last_used()).count() >= entry.keep_alive_s;
}

void ModelPool::unload_idle(std::unique_lock<std::mutex>& lock) {
    for (const auto& [name, entry] : entries_) {
        if (!expired(*entry, Clock::now())) continue;
        log::info("unloading {}", name);
        entry->to_unload = false;
        std::unique_ptr<LoadedModel> model = std::move(entry->model);
        entry->progress.done = 0;
        lock.unlock();  // freeing gigabytes takes its time
        model.reset();
        lock.lock();
    }
}

void ModelPool::load(Entry& entry, std::unique_lock<std::mutex>& lock) {
    entry.loading = true;
    entry.progress.done = 0;
    Status room = make_room(entry, lock);
    if (!room || stopping_) return fail_loading(entry, room ? "the server is stopping" : room.error().message, lock);
    log::info("loading {}", entry.name);
    is_loading_ = true;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    Result<std::unique_ptr<LoadedModel>> loaded =
        LoadedModel::load(entry.source, options_.open_device, options_.engine, entry.progress);
    lock.lock();
    is_loading_ = false;
    wake_.notify_all();
    if (!loaded) return fail_loading(entry, loaded.error().message, lock);
    log::info("loaded {} in {:.1f} s: context {}, {}", entry.name, seconds_since(begin), (*loaded)->engine().context(),
              format_bytes((*loaded)->memory_bytes()));
    entry.model = std::move(*loaded);
    entry.details = details_of(*entry.model);
    answer_waiters(entry, "", lock);
}

// Unloads what was not used for longest until the model fits; waits for those that are in use.
Status ModelPool::make_room(const Entry& entry, std::unique_lock<std::mutex>& lock) {
    const uint64_t budget = options_.memory_bytes;
    if (budget == 0) return Ok{};
    if (entry.file_bytes > budget) {
        return fail("{} needs more than its {}, and the server may use {}: raise --memory", entry.name,
                    format_bytes(entry.file_bytes), format_bytes(budget));
    }
    while (!stopping_) {
        uint64_t taken = 0;
        Entry* oldest = nullptr;
        for (const auto& [name, other] : entries_) {
            if (!other->model) continue;
            taken += other->model->memory_bytes();
            if (!other->model->is_used() &&
                (oldest == nullptr || other->model->last_used() < oldest->model->last_used()))
                oldest = other.get();
        }
        if (taken == 0 || taken + entry.file_bytes <= budget) return Ok{};
        if (oldest == nullptr) {
            wake_.wait_for(lock, kLookAgain);
            continue;
        }
        oldest->to_unload = true;
        unload_idle(lock);
    }
    return Ok{};
}

void ModelPool::fail_loading(Entry& entry, const std::string& error, std::unique_lock<std::mutex>& lock) {
    if (!entry.progress.is_unwanted) log::error("{}: {}", entry.name, error);
    answer_waiters(entry, without_paths(error, entry.source), lock);
}

void ModelPool::answer_waiters(Entry& entry, const std::string& error, std::unique_lock<std::mutex>& lock) {
    entry.loading = false;
    entry.error = error;
    std::vector<Waiter> waiters = std::exchange(entry.waiters, {});
    std::vector<Reply<Use>> replies;
    replies.reserve(waiters.size());
    for (const Waiter& waiter : waiters) {
        if (entry.model) {
            replies.emplace_back(Use(*this, entry.name, *entry.model, seconds_since(waiter.since)));
        } else {
            replies.emplace_back(ApiError{.status = 500,
                                          .type = "server_error",
                                          .message = fmt::format("{}: {}", entry.name, error),
                                          .code = "model_load_failed"});
        }
    }
    lock.unlock();
    for (size_t i = 0; i < waiters.size(); ++i) waiters[i].ready(std::move(replies[i]));
    lock.lock();
}

}  // namespace tandem::server
