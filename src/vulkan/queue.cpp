#include "vulkan/queue.h"

#include <thread>
#include <vector>

namespace tandem::vulkan {

namespace {

// Longer than any step; a GPU that takes longer hangs, and the driver's own timeout has failed to say so.
constexpr std::chrono::seconds kHang{120};

// The kernel wakes a sleeper a few tens of microseconds after the GPU is done, about as much as a short step takes.
// So it is woken this much earlier, and looks itself for at most this long.
constexpr std::chrono::microseconds kEarly{60};
constexpr std::chrono::microseconds kPoll{120};
// The driver's own wait takes processor time. Of the time the same commands took before, this share is slept through,
// and in the rest but for the end a look is taken now and then.
constexpr int kSureShare = 97;  // percent
constexpr int kTryShare = 75;   // percent, of a time that was too long for the commands
constexpr std::chrono::microseconds kNap{40};

}  // namespace

Result<std::unique_ptr<Queue>> Queue::create(std::shared_ptr<Device> device) {
    std::unique_ptr<Queue> queue(new Queue(std::move(device)));
    const VkCommandPoolCreateInfo pool{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                       .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                       .queueFamilyIndex = queue->device_->queue_family()};
    VK_TRY("creating the command pool", vkCreateCommandPool(queue->device_->handle(), &pool, nullptr, &queue->pool_));
    const VkSemaphoreTypeCreateInfo type{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                         .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo semaphore{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VK_TRY("creating the semaphore",
           vkCreateSemaphore(queue->device_->handle(), &semaphore, nullptr, &queue->timeline_));
    return queue;
}

Queue::~Queue() {
    if (!device_->lost() && submitted_ > 0)
        static_cast<void>(wait(submitted_));  // a GPU that hangs would never be idle
    vkDestroySemaphore(device_->handle(), timeline_, nullptr);
    vkDestroyCommandPool(device_->handle(), pool_, nullptr);
}

Result<VkCommandBuffer> Queue::allocate() {
    const VkCommandBufferAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .commandPool = pool_,
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = 1};
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VK_TRY("allocating a command buffer", vkAllocateCommandBuffers(device_->handle(), &allocate, &commands));
    return commands;
}

void Queue::free(VkCommandBuffer commands) {
    vkFreeCommandBuffers(device_->handle(), pool_, 1, &commands);
    std::erase_if(took_, [&](const auto& each) { return each.first.first == commands; });
}

Status Queue::begin(VkCommandBuffer commands) {
    const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                         .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    VK_TRY("recording", vkBeginCommandBuffer(commands, &begin));
    return Ok{};
}

Status Queue::end(VkCommandBuffer commands) {
    VK_TRY("recording", vkEndCommandBuffer(commands));
    return Ok{};
}

Result<uint64_t> Queue::submit(VkCommandBuffer commands, int times) {
    const std::vector<VkCommandBufferSubmitInfo> buffers(
        static_cast<size_t>(times), {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, .commandBuffer = commands});
    const VkSemaphoreSubmitInfo signal{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                       .semaphore = timeline_,
                                       .value = submitted_ + 1,
                                       .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
    const VkSubmitInfo2 submit{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                               .commandBufferInfoCount = static_cast<uint32_t>(buffers.size()),
                               .pCommandBufferInfos = buffers.data(),
                               .signalSemaphoreInfoCount = 1,
                               .pSignalSemaphoreInfos = &signal};
    TRY(device_->check_alive());
    const VkResult result = [&] {
        const std::lock_guard lock(device_->queue_mutex());
        return vkQueueSubmit2(device_->queue(), 1, &submit, VK_NULL_HANDLE);
    }();
    if (result == VK_ERROR_DEVICE_LOST) return device_->lose("the driver reports it as lost");
    VK_TRY("submitting", result);
    submitted_at_ = Clock::now();
    last_ = {commands, times};
    return ++submitted_;
}

VkResult Queue::block(uint64_t value, std::chrono::nanoseconds timeout) const {
    const VkSemaphoreWaitInfo wait{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                   .semaphoreCount = 1,
                                   .pSemaphores = &timeline_,
                                   .pValues = &value};
    return vkWaitSemaphores(device_->handle(), &wait, static_cast<uint64_t>(timeout.count()));
}

VkResult Queue::poll(uint64_t value, Clock::time_point until, std::chrono::microseconds nap) const {
    while (true) {
        uint64_t counter = 0;
        const VkResult result = vkGetSemaphoreCounterValue(device_->handle(), timeline_, &counter);
        if (result != VK_SUCCESS) return result;
        if (counter >= value) return VK_SUCCESS;
        if (Clock::now() >= until) return VK_TIMEOUT;
        if (nap.count() > 0) {
            std::this_thread::sleep_for(nap);
        } else {
            std::this_thread::yield();
        }
    }
}

Status Queue::wait(uint64_t value) {
    TRY(device_->check_alive());
    VkResult result = VK_TIMEOUT;
    bool overslept = false;
    if (!device_->info().software()) {  // which needs the cores itself, and is never as fast twice
        if (const auto before = took_.find(last_); before != took_.end() && value == submitted_) {
            std::this_thread::sleep_until(submitted_at_ + before->second * kSureShare / 100);
            result = poll(value, Clock::now(), {});
            overslept = result == VK_SUCCESS;
            if (result == VK_TIMEOUT) result = poll(value, submitted_at_ + before->second - kEarly, kNap);
        }
        if (result == VK_TIMEOUT) result = poll(value, Clock::now() + kPoll, {});
    }
    // Software does not hang, however long it takes on a busy machine; and it would go on with memory that is gone.
    do {
        if (result == VK_TIMEOUT) result = block(value, kHang);
    } while (result == VK_TIMEOUT && device_->info().software());
    if (result == VK_TIMEOUT) return device_->lose(fmt::format("it did not answer for {} s", kHang.count()));
    if (result == VK_ERROR_DEVICE_LOST) return device_->lose("the driver reports it as lost");
    VK_TRY("waiting for the GPU", result);
    if (value == submitted_) {
        const std::chrono::nanoseconds took = Clock::now() - submitted_at_;
        took_[last_] = overslept ? took * kTryShare / 100 : took;
    }
    return Ok{};
}

Status Queue::run(const std::function<Status(VkCommandBuffer)>& record) {
    VkCommandBuffer commands = TRY(allocate());
    const auto record_and_wait = [&]() -> Status {
        TRY(begin(commands));
        TRY(record(commands));
        TRY(end(commands));
        const uint64_t done = TRY(submit(commands));
        return wait(done);
    };
    Status status = record_and_wait();
    free(commands);
    return status;
}

Status Queue::fill(std::span<const Buffer> buffers, uint32_t word) {
    return run([&](VkCommandBuffer commands) -> Status {
        for (const Buffer& buffer : buffers) {
            const uint64_t whole_words = (buffer.size_bytes + 3) / 4 * 4;  // an Arena's pieces are aligned to more
            if (whole_words > 0) vkCmdFillBuffer(commands, buffer.handle, buffer.offset, whole_words, word);
        }
        return Ok{};
    });
}

}  // namespace tandem::vulkan
