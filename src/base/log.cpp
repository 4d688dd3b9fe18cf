#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace tandem::log {

void init(spdlog::level::level_enum level) {
    auto logger = std::make_shared<spdlog::logger>("tandem", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    logger->set_pattern("%^%l%$ %v");
    logger->set_level(level);
    spdlog::set_default_logger(std::move(logger));
}

}  // namespace tandem::log
