#include "vulkan/tune.h"

#include <array>
#include <span>

#include "vulkan/kernels/matmul.h"
#include "vulkan/tunable.h"
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
    Search(device::Backend& backend, const TuneMeasures& measures)
        : tuning_(tuning_of(backend)), info_(info_of(backend)), measures_(measures) {}

    Status run() {
        for (GemvTuning& gemv : tuning_.gemv)
            TRY(tune_gemv(gemv, fmt::format("gemv of {} outputs and {} inputs", up_to(gemv.max_outputs),
                                            up_to(gemv.max_inputs))));
        TRY(tune_gemv(tuning_.gated, "gate and up"));
        TRY(tune_chain());
        for (StreamTuning& stream : tuning_.stream) TRY(tune_stream(stream));
        if (tuning_.stream.empty()) {
            for (MatmulTuning& matmul : tuning_.matmul) TRY(tune_matmul(matmul));
        }
        return tune_attention();
    }

  private:
    // Leaves `value`, a part of the tuning, at the candidate that is fastest, or as it was.
    Status choose(std::string_view name, uint32_t& value, std::span<const uint32_t> candidates,
                  const Seconds& seconds) {
        uint32_t best = value;
        double least = TRY(seconds());
        const double before = least;
        for (uint32_t candidate : candidates) {
            if (candidate == best) continue;
            value = candidate;
            if (!usable()) continue;
            const Result<double> took = seconds();
            if (!took || *took >= least * kWorthwhile) continue;
            least = *took;
            best = candidate;
        }
        value = best;
        measures_.note(fmt::format("{} {}: {:.3f} ms, {:.3f} ms before", name, best, least * 1e3, before * 1e3));
        return Ok{};
    }

    // By the same rules as a file that somebody wrote; tiles that would be shrunk to fit are other candidates' turn.
    bool usable() const {
        for (const MatmulTuning& matmul : tuning_.matmul) {
            const Result<MatmulTuning> fitted = fit_matmul(matmul, info_.capabilities);
            if (!fitted || (!info_.software() && !(*fitted == matmul))) return false;
        }
        return static_cast<bool>(tuning_from_json(tuning_to_json(tuning_, info_), info_));
    }

    static std::string up_to(uint32_t limit) {
        return limit == 0xffffffff ? std::string("any number of") : fmt::format("up to {}", limit);
    }

    Status tune_gemv(GemvTuning& gemv, const std::string& what) {
        const Seconds decode = [&] { return measures_.decode_seconds(1, kShortContext); };
        const auto name = [&](std::string_view value) { return fmt::format("{}: {}", what, value); };
        TRY(choose(name("lanes"), gemv.lanes, std::array{128U, 256U, 512U, 1024U}, decode));
        TRY(choose(name("lanes a row"), gemv.lanes_per_row, std::array{4U, 8U, 16U, 32U}, decode));
        TRY(choose(name("rows"), gemv.rows, std::array{1U, 2U, 4U}, decode));
        TRY(choose(name("unroll"), gemv.unroll, std::array{2U, 3U, 4U, 6U, 8U}, decode));
        TRY(choose(name("staged"), gemv.staged, std::array{0U, 1U}, decode));
        return choose(name("groups"), gemv.groups, std::array{132U, 264U, 528U, 1056U}, decode);
    }

    Status tune_chain() {
        const Seconds decode = [&]() -> Result<double> {
            double seconds = 0;
            for (int sequences : {1, kSequences, kManySequences})
                seconds += TRY(measures_.decode_seconds(sequences, kShortContext));
            return seconds;
        };
        return choose("chained rows", tuning_.chained_rows, std::array{0U, 1U, 8U, 32U}, decode);
    }

    // A step of as many rows as the entry is for.
    Seconds rows_seconds(uint32_t max_rows) {
        constexpr uint32_t kMostSequences = 64;
        if (max_rows > kMostSequences) return [this] { return measures_.prompt_seconds(kPrompt); };
        return [this, max_rows] { return measures_.decode_seconds(static_cast<int>(max_rows), kShortContext); };
    }

    Status tune_stream(StreamTuning& stream) {
        const Seconds seconds = rows_seconds(stream.max_rows);
        const auto name = [&](std::string_view value) {
            return fmt::format("products of {} rows and {} outputs: {}", up_to(stream.max_rows),
                               up_to(stream.max_outputs), value);
        };
        TRY(choose(name("tiles of outputs"), stream.col_tiles, std::array{2U, 4U}, seconds));
        TRY(choose(name("tiles of rows"), stream.row_tiles, std::array{1U, 2U, 4U, 8U}, seconds));
        TRY(choose(name("warps"), stream.warps, std::array{2U, 4U, 8U}, seconds));
        TRY(choose(name("warps along rows"), stream.row_warps, std::array{1U, 2U, 4U}, seconds));
        TRY(choose(name("warps along inputs"), stream.depth_warps, std::array{1U, 2U, 4U}, seconds));
        return choose(name("groups"), stream.groups, std::array{264U, 396U, 528U, 1056U}, seconds);
    }

    Status tune_matmul(MatmulTuning& matmul) {
        const Seconds seconds = rows_seconds(matmul.max_rows);
        const auto name = [&](std::string_view value) {
            return fmt::format("products of {} rows: {}", up_to(matmul.max_rows), value);
        };
        TRY(choose(name("tile_cols"), matmul.tile_cols, std::array{64U, 128U, 256U}, seconds));
        TRY(choose(name("warp_cols"), matmul.warp_cols, std::array{32U, 64U}, seconds));
        TRY(choose(name("depth"), matmul.depth, std::array{32U, 64U, 128U, 256U}, seconds));
        TRY(choose(name("stages"), matmul.stages, std::array{1U, 2U}, seconds));
        return choose(name("groups"), matmul.groups, std::array{132U, 264U, 528U}, seconds);
    }

    Status tune_attention() {
        const Seconds decode = [&]() -> Result<double> {
            const double alone = TRY(measures_.decode_seconds(1, kLongContext));
            const double together = TRY(measures_.decode_seconds(kSequences, kShortContext));
            return alone + together;
        };
        const Seconds prompt = [&] { return measures_.prompt_seconds(kPrompt); };
        AttentionTuning& attention = tuning_.attention;
        TRY(choose("attention.lanes", attention.lanes, std::array{64U, 128U, 256U}, decode));
        TRY(choose("attention.groups", attention.groups, std::array{132U, 264U, 396U, 528U, 1056U}, decode));
        if (!tuning_.stream.empty()) {
            const Seconds many = [&] { return measures_.decode_seconds(kManySequences, kShortContext); };
            TRY(choose("attention.matrix_lanes", attention.matrix_lanes, std::array{0U, 32U, 64U, 96U, 128U}, many));
            TRY(choose("attention.matrix_groups", attention.matrix_groups, std::array{264U, 396U, 528U, 1056U}, many));
            TRY(choose("attention.wide_lanes", attention.wide_lanes, std::array{64U, 96U, 128U}, many));
            TRY(choose("attention.wide_groups", attention.wide_groups, std::array{132U, 264U, 528U}, many));
            TRY(choose("attention.lane_rows", attention.lane_rows, std::array{0U, 32U, 64U, 128U}, prompt));
            TRY(choose("attention.lane_positions", attention.lane_positions, std::array{16U, 32U, 64U}, prompt));
        }
        TRY(choose("attention.tile_rows", attention.tile_rows, std::array{16U, 32U, 64U, 128U}, prompt));
        return choose("attention.tile_positions", attention.tile_positions, std::array{16U, 32U, 64U}, prompt);
    }

    Tuning& tuning_;
    const DeviceInfo& info_;
    const TuneMeasures& measures_;
};

}  // namespace

Result<std::filesystem::path> tune(device::Backend& backend, const std::filesystem::path& directory,
                                   const TuneMeasures& measures) {
    TRY(Search(backend, measures).run());
    TRY(save_tuning(directory, tuning_of(backend), info_of(backend)));
    return directory / tuning_file_name(info_of(backend));
}

}  // namespace tandem::vulkan
