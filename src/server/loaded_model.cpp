#include <algorithm>

#include "server/model_pool.h"
#include "server/wake_queue.h"

namespace tandem::server {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kPiece = size_t{32} << 20;
constexpr int kSendingPatienceUs = 3000;
constexpr float kReadShare = 0.8F;  // of the progress: reading the file; the rest is the device's

uint64_t bytes_of(const graph::Weights& weights) {
    uint64_t bytes = 0;
    for (const auto& [name, view] : weights.all()) bytes += view.data.size();
    return bytes;
}

// Touches every page, so that the file is read here, where progress can be seen, and not by the device.
Status read_ahead(const graph::Weights& weights, uint64_t total, LoadProgress& progress) {
    uint64_t done = 0;
    for (const auto& [name, view] : weights.all()) {
        for (size_t begin = 0; begin < view.data.size(); begin += kPiece) {
            const size_t end = std::min(view.data.size(), begin + kPiece);
            for (size_t at = begin; at < end; at += kPage) {
                static_cast<void>(*static_cast<const volatile std::byte*>(view.data.data() + at));
            }
            done += end - begin;
            if (progress.is_unwanted) return fail("the server is stopping");
            progress.done = kReadShare * static_cast<float>(static_cast<double>(done) / static_cast<double>(total));
        }
    }
    return Ok{};
}

}  // namespace

Result<std::unique_ptr<LoadedModel>> LoadedModel::load(const std::string& source, const OpenDevice& open_device,
                                                       const engine::EngineOptions& options, LoadProgress& progress) {
    std::unique_ptr<device::Backend> backend = TRY(open_device());
    engine::Bundle bundle = TRY(engine::open_bundle(source));
    std::unique_ptr<LoadedModel> model(new LoadedModel(std::move(bundle)));
    model->backend_ = std::move(backend);
    model->block_tokens_ = options.block_tokens;
    model->weight_bytes_ = bytes_of(model->bundle_.model.weights);
    TRY(read_ahead(model->bundle_.model.weights, std::max<uint64_t>(model->weight_bytes_, 1), progress));
    model->engine_ =
        TRY(engine::Engine::open(model->bundle_.model, model->bundle_.tokenizer, *model->backend_, options));
    model->grammars_ = std::make_unique<GrammarCache>(*model->engine_);
    // On a CPU the next step would take the cores from those who send the tokens of the last.
    const std::chrono::microseconds patience{model->on_gpu() ? 0 : kSendingPatienceUs};
    model->thread_ = std::thread([engine = model->engine_.get(), patience] {
        WakeQueue::gather();
        engine->run([patience] { WakeQueue::flush(patience); });
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
    return !backend_->describe().name.starts_with("cpu");
}

}  // namespace tandem::server
