#include "npu/designs/use_kernel.h"

#include "base/check.h"
#include "npu/kernels.h"

namespace tandem::npu {

KernelUse use_kernel(std::string_view symbol, const std::vector<ObjectType>& buffers) {
    const Kernel* kernel = find_kernel(symbol);
    CHECK(kernel != nullptr, symbol);
    KernelUse use{.symbol = std::string(symbol),
                  .source = std::string(kernel->source),
                  .arguments = {},
                  .mmul = std::string(kernel->mmul)};
    size_t used = 0;
    for (const KernelParameter& parameter : kernel->parameters) {
        const bool number = parameter.kind == ArgumentKind::number;
        CHECK(number || used < buffers.size(), symbol);
        use.arguments.push_back({.number = number, .buffer = number ? ObjectType{} : buffers[used++]});
    }
    CHECK(used == buffers.size(), symbol);
    return use;
}

}  // namespace tandem::npu
