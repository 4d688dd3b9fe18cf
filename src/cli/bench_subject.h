// Subject: the model that `tandem bench` measures, one that exists or a shape with random weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/backend.h"
#include "format/checkpoint.h"
#include "models/model.h"
#include "models/synthetic.h"

namespace tandem::cli {

struct Subject {
    models::MemoryFile random;  // of a shape; empty for a model that exists
    std::unique_ptr<const format::Checkpoint> checkpoint;
    models::Model model;
};

// What is to be measured.
struct SubjectChoice {
    std::string model;  // or the name of a shape
    std::string type;   // of a shape's weights, a type or a mix; empty: as the shape is mostly used
};

// Of its weights; they are not made yet.
Result<uint64_t> subject_bytes(const SubjectChoice& choice);

// Random weights are made only when this machine and the device have room for them.
Result<Subject> open_subject(const SubjectChoice& choice, const device::Description& device, int threads);

// Whether all pools of the device together have room for so many bytes of weights.
Status check_room(std::string_view model, uint64_t needed_bytes, const device::Description& device);

}  // namespace tandem::cli
