// What `tandem plan` found, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan_cluster.h"
#include "cli/plan_placements.h"
#include "engine/memory_need.h"
#include "plan/forecast.h"
#include "plan/machines.h"

namespace tandem::cli {

// A device that the model could run on.
struct PlanDevice {
    std::string name;      // as in --device; "gpu" of a machine that is not at hand
    std::string hardware;  //
    plan::Speeds speeds = {};
    uint64_t room_bytes = 0;  // for models, now
    int step_rows = 0;        // of a prompt, that the engine gives it at once
};

struct PlanMachine {
    std::string name;  // "here", "780m"
    std::string title;
    const plan::KnownMachine* known = nullptr;  // null: this one
    std::vector<PlanDevice> devices;
    std::string npu;  // its array; empty: none
};

// A line of the forecast.
struct PlanLine {
    std::string device;
    int sequences = 0;  // that decode; 0: a prompt
    int length = 0;     // positions behind them, or of the prompt
    plan::Forecast forecast = {};
};

struct PlanFit {
    std::string device;
    int sequences = 1;  // at once
    engine::MemoryNeed need = {};
    uint64_t room_bytes = 0;
    int longest_context = 0;  // that fits; 0: none

    bool fits() const { return need.total() <= room_bytes; }
};

// The model in another type, on the first device.
struct PlanType {
    std::string type;
    engine::MemoryNeed need;
    int longest_context = 0;
    double tokens_per_s = 0;  // of one sequence
};

// What it would take to reach a rate, on the first device.
struct PlanTarget {
    double tokens_per_s = 0;
    plan::Forecast alone;            // one sequence
    double bits_per_weight = 0;      // that the weights have
    int sequences = 0;               // together; 0: however many, they do not
    double together_per_s = 0;       // of so many
    double most_together_per_s = 0;  // of as many as were tried
    int most_sequences = 0;
    std::vector<std::string> machines;  // on which one sequence does
};

struct PlanReport {
    std::string model;
    std::string what;  // kind of model
    PlanMachine machine;
    engine::MemoryShape shape = {};
    int trained_context = 0;
    std::vector<PlanFit> fits = {};
    std::vector<PlanLine> lines = {};
    std::vector<PlanType> types = {};
    std::optional<PlanTarget> target = {};
    PlacementQuestion question = {};
    std::optional<PlacementReport> placements = {};
    ClusterQuestion cluster = {};
    std::vector<ClusterLine> clusters = {};  // empty: not asked for
};

std::string to_text(const PlanReport& report);
std::string to_json(const PlanReport& report);

// `--machine list`
std::string machines_text();
std::string machines_json();

}  // namespace tandem::cli
