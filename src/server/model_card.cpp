#include "server/model_card.h"

namespace tandem::server {

std::string_view name(ModelState state) {
    switch (state) {
        case ModelState::unloaded:
            return "unloaded";
        case ModelState::loading:
            return "loading";
        case ModelState::ready:
            return "ready";
        case ModelState::failed:
            return "failed";
    }
    return "failed";
}

}  // namespace tandem::server
