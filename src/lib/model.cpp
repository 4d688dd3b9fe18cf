#include "lib/model.h"

#include <exception>
#include <optional>
#include <utility>

#include "user/models.h"

namespace tandem::lib {

namespace {

// What the stepping thread hands to the one that waits.
struct Inbox {
    std::string text;
    std::optional<engine::Finish> finish;
};

// Notes of devices, as long as the model is being opened; later ones are nobody's to read.
struct Notes {
    std::mutex mutex;
    std::string lines;

    void add(std::string_view line) {
        const std::lock_guard lock(mutex);
        lines += line;
        lines += '\n';
    }
};

}  // namespace

Result<std::shared_ptr<Model>> Model::open(const std::string& name, const OpenOptions& options) {
    const auto notes = std::make_shared<Notes>();
    auto devices =
        std::make_unique<user::Devices>(options.device, [notes](std::string_view line) { notes->add(line); });
    TRY(devices->check());  // a wrong name should not cost the loading of a model
    engine::Bundle bundle = TRY(user::open_bundle(name));
    std::shared_ptr<Model> model(new Model(std::move(bundle)));
    model->devices_ = std::move(devices);
    model->backend_ = TRY(model->devices_->open(model->bundle_.model.weights.size_bytes()));
    model->engine_ =
        TRY(engine::Engine::open(model->bundle_.model, model->bundle_.tokenizer, *model->backend_, options.engine));
    model->device_name_ = model->backend_->describe().name;
    {
        const std::lock_guard lock(notes->mutex);
        model->notes_ = notes->lines;
    }
    model->stepper_ = std::thread([raw = model.get()] { raw->step_until_stopped(); });
    return model;
}

Model::~Model() {
    if (!stepper_.joinable()) return;
    engine_->stop();
    stepper_.join();
}

void Model::step_until_stopped() {
    std::string failure;
    try {
        engine_->run();
        return;
    } catch (const std::bad_alloc&) {
        failure = "out of memory: take a smaller model or context, or fewer sequences";
    } catch (const std::exception& error) {
        failure = fmt::format("unexpected error: {}", error.what());
    }
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    delivered_.notify_all();
}

Result<engine::Finish> Model::run(engine::Request request, const Listener& listener) {
    const auto inbox = std::make_shared<Inbox>();
    request.on_event = [this, inbox](const engine::Event& event) {
        const std::lock_guard lock(mutex_);
        inbox->text += event.text;
        if (event.finish != nullptr) inbox->finish = *event.finish;
        delivered_.notify_all();
    };
    const engine::RequestId id = TRY(engine_->submit(std::move(request)));
    listener.on_id(id);
    for (bool wanted = true;;) {
        std::unique_lock lock(mutex_);
        delivered_.wait(lock, [&] { return !inbox->text.empty() || inbox->finish || !failure_.empty(); });
        if (inbox->text.empty() && !inbox->finish) return Error{failure_};
        const std::string text = std::exchange(inbox->text, {});
        const std::optional<engine::Finish> finish = inbox->finish;
        lock.unlock();
        if (wanted && !text.empty()) wanted = listener.on_text(text);
        if (!finish && !wanted) engine_->cancel(id);
        if (finish && finish->reason == engine::FinishReason::error) return Error{finish->error};
        if (finish) return *finish;
    }
}

}  // namespace tandem::lib
