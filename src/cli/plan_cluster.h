// The part of `tandem plan` about several machines of a kind: what each number of them would do, and where one more no
// longer pays.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/memory_need.h"
#include "graph/program.h"
#include "plan/cluster.h"

namespace tandem::cli {

struct ClusterQuestion {
    int most_machines = 8;
    std::vector<std::string> links;
    std::vector<int> batches;
    int prompt = 4096;  // tokens of a prompt
    engine::MemoryShape shape = {};
    plan::Speeds speeds = {};
    uint64_t room_bytes = 0;  // of each machine
};

// So many machines at one work.
struct ClusterPoint {
    int machines = 1;
    int most_layers = 0;      // of a machine
    uint64_t most_bytes = 0;  //
    plan::ClusterForecast forecast = {};
    double efficiency = 1;  // against the fewest that hold it, machine by machine
    bool pays = true;       // one machine more adds at least half of what one of the fewest brings
};

struct ClusterLine {
    std::string link;
    int sequences = 0;  // that decode; 0: a prompt
    std::vector<ClusterPoint> points;

    // The number of machines up to which each one more pays; 0: however many, they do not hold it.
    int pays_up_to() const;
};

Result<std::vector<ClusterLine>> plan_clusters(const graph::Program& program, const ClusterQuestion& question);

std::string to_text(const ClusterQuestion& question, const std::vector<ClusterLine>& lines);
// An SVG file: a small chart for each link, tokens a second over the number of machines.
Status write_cluster_chart(const std::string& path, const std::string& title, const std::vector<ClusterLine>& lines);

}  // namespace tandem::cli
