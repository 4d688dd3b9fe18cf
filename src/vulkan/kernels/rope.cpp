#include "vulkan/kernels/rope.h"

#include <cmath>
#include <numbers>

#include "vulkan/kernel.h"

namespace tandem::vulkan {

std::vector<uint64_t> turns_of(const std::vector<float>& inv_freq) {
    std::vector<uint64_t> turns;
    for (float radians : inv_freq) {
        const long double turn = static_cast<long double>(radians) / (2 * std::numbers::pi_v<long double>);
        turns.push_back(static_cast<uint64_t>(std::ldexp(turn - std::floor(turn), 64)));
    }
    return turns;
}

namespace {

// One invocation per pair that is turned and per element that stays.
Status record(Recorder& rec, const op::Rope& op, const Args& args) {
    const auto head_dim = static_cast<uint32_t>(op.head_dim);
    const auto pairs = static_cast<uint32_t>(op.inv_freq.size());
    const std::vector<uint64_t> angles = turns_of(op.inv_freq);
    const VkDeviceAddress turns = TRY(args.constant(std::as_bytes(std::span(angles))));
    const uint32_t items = args.out.cols / head_dim * (head_dim - pairs);
    return rec.dispatch(kernels::Rope{.params = {.x = args.in[0].address,
                                                 .positions = args.in[1].address,
                                                 .turns = turns,
                                                 .y = args.out.address,
                                                 .cols = args.out.cols,
                                                 .head_dim = head_dim,
                                                 .pairs = pairs,
                                                 .interleaved = op.layout == op::RopeLayout::interleaved ? 1U : 0U,
                                                 .magnitude = op.magnitude}},
                        {.reads = {args.in[0].access(), args.in[1].access()},
                         .writes = {args.out.access()},
                         .groups = {divide_up(items, kernels::Rope::workgroup_size()), args.out.rows, 1}});
}

const Registration<op::Rope> kRopeKernel{record};

}  // namespace

}  // namespace tandem::vulkan
