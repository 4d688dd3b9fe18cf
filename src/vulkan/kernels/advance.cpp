#include "vulkan/kernels/advance.h"

#include "vulkan/kernels/contracts.h"

namespace tandem::vulkan {

Status record_advance(Recorder& rec, const StepState::Addresses& step, const Access& next, const Access& drawn) {
    // Every kernel of the step reads its state, which no Access tells of: all of it has to be over.
    rec.barrier();
    return rec.dispatch(kernels::Advance{.params = {.header = step.header,
                                                    .next = next.begin,
                                                    .tokens = step.tokens,
                                                    .positions = step.positions,
                                                    .sampling = step.sampling,
                                                    .drawn = drawn.begin,
                                                    .sampling_stride = StepState::kSamplingBytes / 8,
                                                    .draw_at = StepState::kDrawOffset / 8}},
                        {.reads = {next}, .writes = {drawn}});
}

}  // namespace tandem::vulkan
