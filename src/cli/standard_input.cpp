#include "cli/standard_input.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/units.h"

namespace tandem::cli {

Result<std::string> read_standard_input() {
    constexpr size_t kMostBytes = size_t{256} << 20;
    std::string text;
    std::array<char, 65536> buffer{};
    for (;;) {
        const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EBADF) return text;
        if (count < 0) return fail("cannot read standard input: {}", std::strerror(errno));
        if (count == 0) return text;
        text.append(buffer.data(), static_cast<size_t>(count));
        if (text.size() > kMostBytes)
            return fail("standard input has more than the {} allowed", format_bytes(kMostBytes));
    }
}

}  // namespace tandem::cli
