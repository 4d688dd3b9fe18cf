#include "server/model_pool.h"

#include <algorithm>
#include <system_error>

#include "base/log.h"

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
    if (model.bundle().chat_template) card.chat_template = model.bundle().chat_template->source();
    card.has_tools = card.chat_template.find("tools") != std::string::npos;
    card.has_thinking = card.chat_template.find("<think>") != std::string::npos;
    return card;
}

}  // namespace

// ---- Use

ModelPool::Use& ModelPool::Use::operator=(Use&& other) noexcept {
    if (this == &other) return *this;
    release();
    pool_ = std::exchange(other.pool_, nullptr);
    name_ = std::move(other.name_);
    model_ = std::move(other.model_);
    load_seconds_ = other.load_seconds_;
    return *this;
}

void ModelPool::Use::release() {
    if (!model_) return;
    model_->touch();
    model_.reset();
    pool_->wake_.notify_all();  // without the lock, which whoever calls this might wait for: work() looks again anyway
}

// ---- Names

Result<std::unique_ptr<ModelPool>> ModelPool::open(PoolOptions options) {
    std::unique_ptr<ModelPool> pool(new ModelPool(std::move(options)));
    std::vector<std::string> named = pool->options_.models;
    if (named.empty()) named.emplace_back(engine::embedded_models().front().name);
    for (const std::string& source : named) TRY(pool->add_named(source));
    if (!pool->options_.folder.empty()) {
        std::error_code error;
        if (!fs::is_directory(pool->options_.folder, error)) {
            return fail("{}: no such directory of models", pool->options_.folder.string());
        }
        pool->scan_folder();
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
            if (entry.model) continue;
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
        const auto idle = [&entry] { return !entry.model || entry.model.use_count() == 1; };
        for (int i = 0; i < kMostLooks && !idle(); ++i) wake_.wait_for(lock, kLookWhileClosing);
        if (entry.model) entry.model->halt();
        entry.model.reset();
    }
}

Status ModelPool::add_named(const std::string& source) {
    auto entry = std::make_unique<Entry>();
    const engine::EmbeddedModel* const embedded = find_embedded(source);
    if (embedded != nullptr) {
        entry->name = source;
        entry->created_s = changed_s("/proc/self/exe");
        entry->file_bytes = embedded->gguf.size();
    } else {
        TRY(engine::open_checkpoint(source));  // says what is wrong with it, before anything else begins
        entry->name = name_of(source);
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

// Names come from this list and from nowhere else, so none leads out of the folder.
void ModelPool::scan_folder() {
    if (options_.folder.empty()) return;
    std::error_code error;
    for (fs::directory_iterator file(options_.folder, error), end; !error && file != end; file.increment(error)) {
        const std::string name = name_of(file->path());
        if (entries_.size() >= kMostModels || entries_.contains(name) || !is_model(file->path())) continue;
        auto entry = std::make_unique<Entry>();
        entry->name = name;
        entry->source = file->path().string();
        entry->file_bytes = size_of(file->path());
        entry->created_s = changed_s(file->path());
        entry->keep_alive_s = options_.keep_alive_s;
        entries_[name] = std::move(entry);
    }
}

ModelPool::Entry* ModelPool::find(const std::string& name) {
    const auto found = entries_.find(name.empty() ? default_name_ : without_tag(name));
    return found == entries_.end() ? nullptr : found->second.get();
}

Reply<ModelPool::Entry*> ModelPool::require(const std::string& name) {
    Entry* entry = find(name);
    if (entry == nullptr) {
        scan_folder();  // it may be new
        entry = find(name);
    }
    if (entry != nullptr) return entry;
    return ApiError{.status = 404,
                    .type = "not_found_error",
                    .message = fmt::format("the model '{}' does not exist: /v1/models lists those that do", name),
                    .code = "model_not_found",
                    .param = "model"};
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
    const std::lock_guard lock(mutex_);
    scan_folder();
    std::vector<ModelCard> cards;
    cards.reserve(entries_.size());
    cards.push_back(card_of(*find("")));
    for (const auto& [name, entry] : entries_) {
        if (name != default_name_) cards.push_back(card_of(*entry));
    }
    return cards;
}

Reply<ModelCard> ModelPool::card(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return card_of(*TRY(require(name)));
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
    Reply<Entry*> found = stopping_ ? stopping_error() : require(name);
    if (found && loads_nothing_ && !(*found)->model) found = stopping_error();
    if (!found) {
        lock.unlock();
        return ready(found.error());
    }
    Entry& entry = **found;
    if (keep_alive_s) entry.keep_alive_s = *keep_alive_s;
    entry.to_unload = false;
    if (entry.model) {
        entry.model->touch();
        Use use(*this, entry.name, entry.model, 0);
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
    return {*this, entry->name, entry->model, 0};
}

Reply<Ok> ModelPool::unload(const std::string& name) {
    const std::lock_guard lock(mutex_);
    Entry* const entry = TRY(require(name));
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
    if (!entry.model || entry.model.use_count() > 1 || !entry.waiters.empty()) return false;
    if (entry.to_unload) return true;
    if (entry.keep_alive_s < 0) return false;
    return std::chrono::duration<double>(now - entry.model->last_used()).count() >= entry.keep_alive_s;
}

void ModelPool::unload_idle(std::unique_lock<std::mutex>& lock) {
    for (const auto& [name, entry] : entries_) {
        if (!expired(*entry, Clock::now())) continue;
        log::info("unloading {}", name);
        entry->to_unload = false;
        std::shared_ptr<LoadedModel> model = std::move(entry->model);
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
    if (!room || stopping_) return answer_waiters(entry, room ? "the server is stopping" : room.error().message, lock);
    log::info("loading {}", entry.name);
    is_loading_ = true;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    Result<std::unique_ptr<LoadedModel>> loaded =
        LoadedModel::load(entry.source, options_.open_device, options_.engine, entry.progress);
    lock.lock();
    is_loading_ = false;
    wake_.notify_all();
    if (!loaded) return answer_waiters(entry, loaded.error().message, lock);
    log::info("loaded {} in {:.1f} s: context {}, {} bytes", entry.name, seconds_since(begin),
              (*loaded)->engine().context(), (*loaded)->memory_bytes());
    entry.model = std::move(*loaded);
    entry.details = details_of(*entry.model);
    answer_waiters(entry, "", lock);
}

// Unloads what was not used for longest until the model fits; waits for those that are in use.
Status ModelPool::make_room(const Entry& entry, std::unique_lock<std::mutex>& lock) {
    const uint64_t budget = options_.memory_bytes;
    if (budget == 0) return Ok{};
    if (entry.file_bytes > budget) {
        return fail("{} needs more than its {} bytes, and the server may use {}: raise --memory", entry.name,
                    entry.file_bytes, budget);
    }
    while (!stopping_) {
        uint64_t taken = 0;
        Entry* oldest = nullptr;
        for (const auto& [name, other] : entries_) {
            if (!other->model) continue;
            taken += other->model->memory_bytes();
            const bool idle = other->model.use_count() == 1;
            if (idle && (oldest == nullptr || other->model->last_used() < oldest->model->last_used()))
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

void ModelPool::answer_waiters(Entry& entry, const std::string& error, std::unique_lock<std::mutex>& lock) {
    entry.loading = false;
    entry.error = error;
    if (!error.empty() && !entry.progress.is_unwanted) log::error("{}: {}", entry.name, error);
    std::vector<Waiter> waiters = std::exchange(entry.waiters, {});
    const std::shared_ptr<LoadedModel> model = entry.model;
    lock.unlock();
    for (const Waiter& waiter : waiters) {
        if (model) {
            waiter.ready(Use(*this, entry.name, model, seconds_since(waiter.since)));
        } else {
            waiter.ready(ApiError{.status = 500,
                                  .type = "server_error",
                                  .message = fmt::format("{}: {}", entry.name, error),
                                  .code = "model_load_failed"});
        }
    }
    lock.lock();
}

}  // namespace tandem::server
