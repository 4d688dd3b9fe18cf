#include "vulkan/tune.h"

#include <array>
#include <chrono>
#include <span>
#include <vector>

#include "vulkan/kernels/matmul.h"
#include "vulkan/shared_gpu.h"
#include "vulkan/tuning_file.h"

namespace tandem::vulkan {

namespace {

constexpr double kWorthwhile = 0.99;  // of the time: what is gained must be more than chance
constexpr int kShortContext = 512;
constexpr int kLongContext = 4096;
constexpr int kPrompt = 512;
constexpr int kSequences = 8;
constexpr int kManySequences = 32;

using Seconds = std::function<Result<double>()>;

class Search {
  public:
    Search(Tuning& tuning, const DeviceInfo& info, const std::filesystem::path& directory, const TuneMeasures& measures)
        : tuning_(tuning), info_(info), directory_(directory), measures_(measures) {
        for (GemvTuning& gemv : tuning_.gemv)
            tune_gemv(gemv,
                      fmt::format("gemv of {} outputs and {} inputs", up_to(gemv.max_outputs), up_to(gemv.max_inputs)));
        tune_gemv(tuning_.gated, "gate and up");
        tune_chain();
        for (StreamTuning& stream : tuning_.stream) tune_stream(stream);
        if (tuning_.stream.empty()) {
            for (MatmulTuning& matmul : tuning_.matmul) tune_matmul(matmul);
        }
        tune_attention();
    }

    // One choice after the other, until it is told to stop.
    Status run() {
        TRY(save_tuning(directory_, tuning_, info_));  // what fails, fails before anything was measured
        for (size_t i = 0; i < choices_.size() && !measures_.stopped(); ++i) {
            const Found found = TRY(make(choices_[i]));
            if (found.value != found.value_before) TRY(save_tuning(directory_, tuning_, info_));
            measures_.note(fmt::format("[{} of {}, {} left] {} {}: {:.3f} ms, {:.3f} ms before", i + 1, choices_.size(),
                                       time_left(i + 1), choices_[i].name, found.value, found.seconds * 1e3,
                                       found.seconds_before * 1e3));
        }
        return Ok{};
    }

  private:
    // A value of the tuning, what it may be, and what is to become fastest.
    struct Choice {
        std::string name;
        uint32_t* value;
        std::vector<uint32_t> candidates;
        Seconds seconds;
    };

    struct Found {
        uint32_t value;
        uint32_t value_before;
        double seconds;
        double seconds_before;
    };

    void choose(std::string name, uint32_t& value, std::span<const uint32_t> candidates, const Seconds& seconds) {
        choices_.push_back({std::move(name), &value, {candidates.begin(), candidates.end()}, seconds});
    }

    // Leaves the value at the candidate that is fastest of those there was time for, or as it was.
    Result<Found> make(const Choice& choice) {
        uint32_t& value = *choice.value;
        const double before = TRY(choice.seconds());
        Found found{.value = value, .value_before = value, .seconds = before, .seconds_before = before};
        for (const uint32_t candidate : choice.candidates) {
            if (measures_.stopped()) break;
            if (candidate == found.value) continue;
            value = candidate;
            if (!usable()) continue;
            const Result<double> took = choice.seconds();
            if (!took || *took >= found.seconds * kWorthwhile) continue;
            found.seconds = *took;
            found.value = candidate;
        }
        value = found.value;
        return found;
    }

    // "2:05": at the pace of the candidates so far.
    std::string time_left(size_t made) const {
        double done = 0;
        double left = 0;
        for (size_t i = 0; i < choices_.size(); ++i)
            (i < made ? done : left) += 1 + static_cast<double>(choices_[i].candidates.size());
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
        const auto seconds = static_cast<int64_t>(passed.count() / done * left);
        return fmt::format("about {}:{:02}", seconds / 60, seconds % 60);
    }

    // By the same rules as a file that somebody wrote; tiles that would be shrunk to fit are other candidates' turn.
    bool usable() const {
        for (const MatmulTuning& matmul : tuning_.matmul) {
            const Result<MatmulTuning> fitted = fit_matmul(matmul, info_.capabilities);
            if (!fitted || (!info_.software() && !(*fitted == matmul))) return false;
        }
        return static_cast<bool>(tuning_from_json(tuning_to_json(tuning_, info_), info_));
    }

    // So many workgroups to a compute unit.
    std::vector<uint32_t> per_unit(std::vector<uint32_t> counts) const {
        for (uint32_t& count : counts) count *= compute_units(info_);
        return counts;
    }

    static std::string up_to(uint32_t limit) {
        return limit == 0xffffffff ? std::string("any number of") : fmt::format("up to {}", limit);
    }

    void tune_gemv(GemvTuning& gemv, const std::string& what) {
        const Seconds decode = [this] { return measures_.decode_seconds(1, kShortContext); };
        const auto name = [&](std::string_view value) { return fmt::format("{}: {}", what, value); };
        choose(name("lanes"), gemv.lanes, std::array{128U, 256U, 512U, 1024U}, decode);
        choose(name("lanes a row"), gemv.lanes_per_row, std::array{4U, 8U, 16U, 32U}, decode);
        choose(name("rows"), gemv.rows, std::array{1U, 2U, 4U}, decode);
        choose(name("unroll"), gemv.unroll, std::array{2U, 3U, 4U, 6U, 8U}, decode);
        choose(name("staged"), gemv.staged, std::array{0U, 1U}, decode);
        choose(name("groups"), gemv.groups, per_unit({1, 2, 4, 8}), decode);
        choose(name("clamped"), gemv.clamped, std::array{0U, 1U}, decode);
    }

    void tune_chain() {
        const Seconds decode = [this]() -> Result<double> {
            double seconds = 0;
            for (int sequences : {1, kSequences, kManySequences})
                seconds += TRY(measures_.decode_seconds(sequences, kShortContext));
            return seconds;
        };
        choose("chained rows", tuning_.chained_rows, std::array{0U, 1U, 8U, 32U}, decode);
    }

    // A step of as many rows as the entry is for.
    Seconds rows_seconds(uint32_t max_rows) {
        constexpr uint32_t kMostSequences = 64;
        if (max_rows > kMostSequences) return [this] { return measures_.prompt_seconds(kPrompt); };
        return [this, max_rows] { return measures_.decode_seconds(static_cast<int>(max_rows), kShortContext); };
    }

    void tune_stream(StreamTuning& stream) {
        const Seconds seconds = rows_seconds(stream.max_rows);
        const auto name = [&](std::string_view value) {
            return fmt::format("products of {} rows and {} outputs: {}", up_to(stream.max_rows),
                               up_to(stream.max_outputs), value);
        };
        choose(name("tiles of outputs"), stream.col_tiles, std::array{2U, 4U}, seconds);
        choose(name("tiles of rows"), stream.row_tiles, std::array{1U, 2U, 4U, 8U}, seconds);
        choose(name("warps"), stream.warps, std::array{2U, 4U, 8U}, seconds);
        choose(name("warps along rows"), stream.row_warps, std::array{1U, 2U, 4U}, seconds);
        choose(name("warps along inputs"), stream.depth_warps, std::array{1U, 2U, 4U}, seconds);
        choose(name("groups"), stream.groups, per_unit({2, 3, 4, 8}), seconds);
    }

    void tune_matmul(MatmulTuning& matmul) {
        const Seconds seconds = rows_seconds(matmul.max_rows);
        const auto name = [&](std::string_view value) {
            return fmt::format("products of {} rows: {}", up_to(matmul.max_rows), value);
        };
        choose(name("tile_cols"), matmul.tile_cols, std::array{64U, 128U, 256U}, seconds);
        choose(name("warp_cols"), matmul.warp_cols, std::array{32U, 64U}, seconds);
        choose(name("depth"), matmul.depth, std::array{32U, 64U, 128U, 256U}, seconds);
        choose(name("stages"), matmul.stages, std::array{1U, 2U}, seconds);
        choose(name("groups"), matmul.groups, per_unit({1, 2, 4}), seconds);
    }

    void tune_attention() {
        const Seconds decode = [this]() -> Result<double> {
            const double alone = TRY(measures_.decode_seconds(1, kLongContext));
            const double together = TRY(measures_.decode_seconds(kSequences, kShortContext));
            return alone + together;
        };
        const Seconds prompt = [this] { return measures_.prompt_seconds(kPrompt); };
        AttentionTuning& attention = tuning_.attention;
        choose("attention.lanes", attention.lanes, std::array{64U, 128U, 256U}, decode);
        choose("attention.groups", attention.groups, per_unit({1, 2, 3, 4, 8}), decode);
        if (!tuning_.stream.empty()) {
            const Seconds many = [this] { return measures_.decode_seconds(kManySequences, kShortContext); };
            choose("attention.matrix_lanes", attention.matrix_lanes, std::array{0U, 32U, 64U, 96U, 128U}, many);
            choose("attention.matrix_groups", attention.matrix_groups, per_unit({2, 3, 4, 8}), many);
            choose("attention.wide_lanes", attention.wide_lanes, std::array{64U, 96U, 128U}, many);
            choose("attention.wide_groups", attention.wide_groups, per_unit({1, 2, 4}), many);
            choose("attention.lane_rows", attention.lane_rows, std::array{0U, 32U, 64U, 128U}, prompt);
            choose("attention.lane_positions", attention.lane_positions, std::array{16U, 32U, 64U}, prompt);
        }
        choose("attention.tile_rows", attention.tile_rows, std::array{16U, 32U, 64U, 128U}, prompt);
        choose("attention.tile_positions", attention.tile_positions, std::array{16U, 32U, 64U}, prompt);
        choose("attention.tile_warp", attention.tile_warp, std::array{32U, 64U}, prompt);
    }

    Tuning& tuning_;
    const DeviceInfo& info_;
    const std::filesystem::path& directory_;
    const TuneMeasures& measures_;
    std::vector<Choice> choices_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

Result<std::filesystem::path> tune(Tuning& tuning, const DeviceInfo& device, const std::filesystem::path& directory,
                                   const TuneMeasures& measures) {
    TRY(Search(tuning, device, directory, measures).run());
    return directory / tuning_file_name(device);
}

Result<std::filesystem::path> tune(SharedGpu& gpu, const std::filesystem::path& directory,
                                   const TuneMeasures& measures) {
    return tune(gpu.tuning(), gpu.info(), directory, measures);
}

}  // namespace tandem::vulkan
