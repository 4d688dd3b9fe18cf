// ModelPool: the models of a server, by name: loaded when somebody asks, unloaded when nobody does.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/backend.h"
#include "engine/bundle.h"
#include "engine/engine.h"
#include "hub/places.h"
#include "server/grammar_cache.h"
#include "server/model_card.h"
#include "server/reply.h"
#include "server/wake_queue.h"

namespace tandem::server {

// Of a model that is being loaded. From any thread.
struct LoadProgress {
    std::atomic<float> done = 0;            // to 1
    std::atomic<bool> is_unwanted = false;  // loading ends as soon as it can
};

// A model with its device and an engine that runs on a thread of its own.
class LoadedModel {
  public:
    // A device for a model with so many bytes of weights.
    using OpenDevice = std::function<Result<std::unique_ptr<device::Backend>>(uint64_t weight_bytes)>;

    static Result<std::unique_ptr<LoadedModel>> load(const std::string& source, const OpenDevice& open_device,
                                                     const engine::EngineOptions& options, LoadProgress& progress);
    LoadedModel(const LoadedModel&) = delete;
    LoadedModel& operator=(const LoadedModel&) = delete;
    ~LoadedModel();

    const engine::Bundle& bundle() const { return bundle_; }
    const device::Backend& backend() const { return *backend_; }
    engine::Engine& engine() { return *engine_; }
    const engine::Engine& engine() const { return *engine_; }
    GrammarCache& grammars() { return *grammars_; }

    uint64_t weight_bytes() const { return weight_bytes_; }
    int block_tokens() const { return block_tokens_; }
    uint64_t memory_bytes() const { return weight_bytes_ + engine_->cache_bytes(); }
    bool on_gpu() const;
    // Of whoever hears of its answers, on the engine's thread.
    WakeBatch& wakes() { return wakes_; }

    // ModelPool::Uses of it. The pool adds one only under its lock, and with the lock sees when there is none.
    void add_user() { ++users_; }
    void remove_user() { --users_; }
    bool is_used() const { return users_ > 0; }
    // Its file was lost while it was in use: it has to be loaded again.
    bool is_broken() const { return engine_->broken(); }
    // When somebody last had it.
    void touch() { last_used_ = Clock::now(); }
    std::chrono::steady_clock::time_point last_used() const { return last_used_; }
    // Ends the engine's thread; what is under way gets no more events.
    void halt();

  private:
    using Clock = std::chrono::steady_clock;

    explicit LoadedModel(engine::Bundle bundle) : bundle_(std::move(bundle)) {}

    std::unique_ptr<device::Backend> backend_;
    engine::Bundle bundle_;
    std::unique_ptr<engine::Engine> engine_;
    std::unique_ptr<GrammarCache> grammars_;
    uint64_t weight_bytes_ = 0;
    int block_tokens_ = 0;
    WakeBatch wakes_;
    std::atomic<int> users_ = 0;
    std::atomic<Clock::time_point> last_used_ = Clock::now();
    std::thread thread_;
};

// A model to load at the start.
struct PoolModel {
    std::string source;     // for engine::open_bundle
    std::string name = {};  // empty: that of its file
};

struct PoolOptions {
    std::vector<PoolModel> models;  // loaded at the start and kept; the first is the default; empty: the embedded one
    std::optional<hub::Places> library;  // the models of this machine, to be had by name; nothing: none
    std::filesystem::path folder;        // GGUF files and Hugging Face directories to be had by name; empty: none
    engine::EngineOptions engine;
    LoadedModel::OpenDevice open_device;
    uint64_t memory_bytes = 0;  // for all models together; 0: as much as there is
    double keep_alive_s = 300;  // of the models of the folder; negative: for good
};

// All of it may be called from any thread.
class ModelPool {
  public:
    // Who has one keeps the model from being unloaded. The pool must outlive it.
    class Use {
      public:
        Use() = default;
        Use(ModelPool& pool, std::string name, LoadedModel& model, double load_seconds);
        Use(Use&& other) noexcept { *this = std::move(other); }
        Use& operator=(Use&& other) noexcept;
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        ~Use() { release(); }

        explicit operator bool() const { return model_ != nullptr; }
        LoadedModel& operator*() const { return *model_; }
        LoadedModel* operator->() const { return model_; }
        const std::string& name() const { return name_; }
        double load_seconds() const { return load_seconds_; }  // that it was waited for
        Use another() const { return {*pool_, name_, *model_, load_seconds_}; }
        void release();

      private:
        ModelPool* pool_ = nullptr;
        std::string name_;
        LoadedModel* model_ = nullptr;
        double load_seconds_ = 0;
    };
    using OnReady = std::function<void(Reply<Use>)>;

    // Fails when a model that was named is not there.
    static Result<std::unique_ptr<ModelPool>> open(PoolOptions options);
    ModelPool(const ModelPool&) = delete;
    ModelPool& operator=(const ModelPool&) = delete;
    ~ModelPool();

    // From now on models are loaded and unloaded, in the background.
    void start();
    // What waits for a model that is not loaded is refused from now on, and nothing is loaded any more.
    void stop_loading();
    // After stop_loading(): whether the loader has come to its end within this time. A device may take longer.
    bool loader_ends(std::chrono::milliseconds within);
    // Unloads everything, once the answers under way have been cancelled; nothing is acquired any more.
    void close();

    // Calls `ready` once: before it returns, or when the model has been loaded, from the loader's thread. An empty name
    // is the default's; `keep_alive_s` is for this model from now on.
    void acquire(const std::string& name, std::optional<double> keep_alive_s, const OnReady& ready);
    // The model if it is loaded; loads nothing.
    Use find_loaded(const std::string& name);
    // As soon as nobody uses it.
    Reply<Ok> unload(const std::string& name);

    // Where models of this machine lie; null: they are not offered.
    const hub::Places* library() const { return options_.library ? &*options_.library : nullptr; }

    // Those that can be used: a file of the folder that cannot be loaded is left out.
    std::vector<ModelCard> list();
    Reply<ModelCard> card(const std::string& name);
    // Of the models that are wanted from the start; 1: all are ready.
    double start_progress();
    std::string start_error();  // why one of them will not be; empty otherwise

    // Calls `visit` for every loaded model.
    void for_each(const std::function<void(const std::string& name, LoadedModel& model)>& visit);

  private:
    using Clock = std::chrono::steady_clock;

    struct Waiter {
        OnReady ready;
        Clock::time_point since;
    };

    struct Entry {
        std::string name;
        std::string source;  // for engine::open_bundle
        uint64_t file_bytes = 0;
        int64_t created_s = 0;
        bool wanted_from_start = false;
        bool is_there = true;  // one of the folder may be taken away
        std::string flaw;      // why one of the folder cannot be loaded, for clients; empty: it can, as far as one sees
        double keep_alive_s = -1;
        bool to_unload = false;
        std::unique_ptr<LoadedModel> model;
        ModelCard details;  // what was learned by loading it
        std::vector<Waiter> waiters;
        bool loading = false;
        LoadProgress progress;
        std::string error;  // of loading it, for clients: without the paths of this machine
    };
    // A model of the folder, as it lies there.
    struct Found {
        std::filesystem::path path;
        uint64_t bytes = 0;
        int64_t changed_s = 0;
        std::string flaw = {};
    };

    explicit ModelPool(PoolOptions options) : options_(std::move(options)) {}

    Status add_named(const PoolModel& model);
    void scan_folder(std::unique_lock<std::mutex>& lock);
    std::map<std::string, Found> find_models() const;
    bool is_known(const std::string& name, const Found& found) const;
    void keep(const std::string& name, const Found& found);
    Entry* find(const std::string& name);
    Reply<Entry*> require(const std::string& name, std::unique_lock<std::mutex>& lock);
    ModelCard card_of(const Entry& entry) const;

    void work();
    bool expired(const Entry& entry, Clock::time_point now) const;
    void unload_idle(std::unique_lock<std::mutex>& lock);
    void load(Entry& entry, std::unique_lock<std::mutex>& lock);
    Status make_room(const Entry& entry, std::unique_lock<std::mutex>& lock);
    void answer_waiters(Entry& entry, const std::string& error, std::unique_lock<std::mutex>& lock);
    void fail_loading(Entry& entry, const std::string& error, std::unique_lock<std::mutex>& lock);

    PoolOptions options_;
    std::mutex mutex_;  // of what follows
    std::condition_variable wake_;
    std::map<std::string, std::unique_ptr<Entry>> entries_;  // never removed: loading refers to them
    std::string default_name_;
    bool loads_nothing_ = false;
    bool is_loading_ = false;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace tandem::server
