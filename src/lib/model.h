// Model: an opened model with an engine that a thread of its own steps, for any number of requests at once.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "engine/bundle.h"
#include "engine/engine.h"
#include "lib/options.h"

namespace tandem::lib {

class Model {
  public:
    static Result<std::shared_ptr<Model>> open(const std::string& name, const OpenOptions& options);
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;
    ~Model();

    const engine::Bundle& bundle() const { return bundle_; }
    engine::Engine& engine() { return *engine_; }
    const std::string& device_name() const { return device_name_; }
    const std::string& notes() const { return notes_; }

    // Runs a request and waits for its end. All calls are made by this thread: `on_id` when the engine has the request,
    // `on_text` for each piece; false cancels it.
    struct Listener {
        std::function<void(engine::RequestId)> on_id;
        std::function<bool(std::string_view)> on_text;
    };
    Result<engine::Finish> run(engine::Request request, const Listener& listener);

  private:
    explicit Model(engine::Bundle bundle) : bundle_(std::move(bundle)) {}
    void step_until_stopped();

    engine::Bundle bundle_;
    std::unique_ptr<user::Devices> devices_;
    std::unique_ptr<device::Backend> backend_;
    std::unique_ptr<engine::Engine> engine_;
    std::string device_name_;
    std::string notes_;  // of opening it

    std::mutex mutex_;  // of what requests are delivered, and of:
    std::condition_variable delivered_;
    std::string failure_;  // why nothing is stepped any more
    std::thread stepper_;
};

}  // namespace tandem::lib
