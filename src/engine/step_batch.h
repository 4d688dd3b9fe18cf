// StepBatch: the rows of a step, put together from the shares that the scheduler gave to answers.
#pragma once

#include <span>

#include "device/batch.h"
#include "engine/answer.h"
#include "engine/scheduler.h"

namespace tandem::engine {

inline Answer& answer_of(const Share& share) {
    return static_cast<Answer&>(*share.sequence);  // the engine schedules nothing else
}

// Fills the batch with the shares' rows, outputs and draws. Its memory is used again from step to step; it points into
// the answers.
void fill_batch(device::Batch& batch, std::span<const Share> shares);

}  // namespace tandem::engine
