#include "cli/json_input.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/standard_input.h"
#include "format/json.h"

namespace tandem::cli {

namespace {

constexpr size_t kMostBytes = size_t{64} << 20;

}  // namespace

Result<nlohmann::ordered_json> read_json(const std::string& path) {
    if (path == "-") {
        const std::string text = TRY(read_standard_input());
        return format::parse_ordered_json(text, "standard input", format::kFileJson);
    }
    const std::string text = TRY(read_text_file(path, kMostBytes));
    return format::parse_ordered_json(text, path, format::kFileJson);
}

}  // namespace tandem::cli
