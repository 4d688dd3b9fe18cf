#include "vulkan/kernels/advance.h"

namespace tandem::vulkan {

namespace {

struct AdvanceParams {
    VkDeviceAddress header, next, tokens, positions, sampling, drawn;
    uint32_t sampling_stride, draw_at;
};

}  // namespace

Status record_advance(Recorder& rec, const StepState::Addresses& step, const Access& next, const Access& drawn) {
    // Every kernel of the step reads its state, which no Access tells of: all of it has to be over.
    rec.barrier();
    return rec.dispatch({.pipeline = {.kernel = "advance"},
                         .push = AdvanceParams{step.header, next.begin, step.tokens, step.positions, step.sampling,
                                               drawn.begin, StepState::kSamplingBytes / 8, StepState::kDrawOffset / 8},
                         .reads = {next},
                         .writes = {drawn}});
}

}  // namespace tandem::vulkan
