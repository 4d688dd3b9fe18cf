#include <algorithm>

#include "server/model_pool.h"

namespace tandem::server {

namespace {

constexpr int kSendingPatienceUs = 3000;

}  // namespace

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const std::string& source, const OpenDevice& open_device,
                                                       const engine::EngineOptions& options, LoadProgress& progress) {
    engine::Bundle bundle = TRY(engine::open_bundle(source));
    std::unique_ptr<LoadedModel> model(new LoadedModel(std::move(bundle)));
    model->backend_ = TRY(open_device(model->bundle_.model.weights.size_bytes()));
    model->block_tokens_ = options.block_tokens;
    model->weight_bytes_ = model->bundle_.model.weights.size_bytes();
    engine::EngineOptions watched = options;
    watched.progress = [&progress](double done) -> Status {
        progress.done = static_cast<float>(done);
        if (progress.is_unwanted) return fail("the server is stopping");
        return Ok{};
    };
    model->engine_ =
        TRY(engine::Engine::open(model->bundle_.model, model->bundle_.tokenizer, *model->backend_, watched));
    model->grammars_ = std::make_unique<GrammarCache>(*model->engine_);
    // On a CPU the next step would take the cores from those who send the tokens of the last.
    const std::chrono::microseconds patience{model->on_gpu() ? 0 : kSendingPatienceUs};
    model->thread_ = std::thread([engine = model->engine_.get(), &wakes = model->wakes_, patience] {
        engine->run([&wakes, patience] { wakes.flush(patience); });
    });
    progress.done = 1;
    return model;
}

LoadedModel::~LoadedModel() {
    halt();
}

void LoadedModel::halt() {
    if (!thread_.joinable()) return;
    engine_->stop();
    thread_.join();
}

bool LoadedModel::on_gpu() const {
    return backend_->describe().kind != device::Kind::cpu;
}

}  // namespace tandem::server
