// The end of a step that another follows at once: the tokens drawn become the input.
#pragma once

#include "vulkan/recorder.h"
#include "vulkan/step_state.h"

namespace tandem::vulkan {

// `next`: i32 [outputs], just drawn, one for every row. `drawn`: i32 [steps][outputs].
Status record_advance(Recorder& rec, const StepState::Addresses& step, const Access& next, const Access& drawn);

}  // namespace tandem::vulkan
