#include "server/sse.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"

namespace tandem::server {

std::string event(const nlohmann::ordered_json& json) {
    return "data: " + dump(json) + "\n\n";
}

std::string event(std::string_view name, const nlohmann::ordered_json& json) {
    return fmt::format("event: {}\ndata: {}\n\n", name, dump(json));
}

std::string random_id(int length) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";  // 32: no letter is likelier
    std::vector<unsigned char> bytes(static_cast<size_t>(length));
    CHECK(RAND_bytes(bytes.data(), length) == 1, "the system has no random numbers");
    std::string id(bytes.size(), ' ');
    for (size_t i = 0; i < bytes.size(); ++i) id[i] = kLetters[bytes[i] % kLetters.size()];
    return id;
}

}  // namespace tandem::server
