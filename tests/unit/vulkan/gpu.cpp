#include "unit/vulkan/gpu.h"

namespace tandem::vulkan {

Gpu::Gpu() {
    Result<std::shared_ptr<Device>> opened = Device::open("", {.validation = true});
    if (!opened) opened = Device::open("");  // a machine without the layers, where a real GPU is tried
    device_ = std::move(opened).value();
    queue_ = Queue::create(device_).value();
    pipelines_ = PipelineCache::open(device_, {}).value();
    arena_ = std::make_unique<Arena>(device_, MemoryKind::readback, uint64_t{16} << 20);
}

Buffer Gpu::buffer(uint64_t size_bytes) {
    Buffer made = arena_->allocate(size_bytes == 0 ? 1 : size_bytes).value();
    made.size_bytes = size_bytes;
    std::memset(made.mapped, 0, size_bytes);
    return made;
}

void Gpu::run(const std::function<Status(Recorder&)>& record) {
    const int before = Device::validation_messages();
    const Status done = queue_->run([&](VkCommandBuffer commands) -> Status {
        Recorder recorder(*pipelines_, commands);
        TRY(record(recorder));
        recorder.finish();
        return Ok{};
    });
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(Device::validation_messages(), before) << "the validation layer complains";
}

Gpu& gpu() {
    static Gpu opened;
    return opened;
}

}  // namespace tandem::vulkan
