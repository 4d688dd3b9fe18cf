#include "hub/digest.h"

#include <openssl/evp.h>

#include <fmt/format.h>

#include "base/check.h"

namespace tandem::hub {

namespace {

EVP_MD_CTX* as_context(const std::shared_ptr<void>& context) {
    return static_cast<EVP_MD_CTX*>(context.get());
}

}  // namespace

Digest::Digest(std::string_view etag, uint64_t size_bytes)
    : context_(EVP_MD_CTX_new(), [](void* context) { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context)); }) {
    const bool is_git = etag.size() == 40;
    CHECK(EVP_DigestInit_ex(as_context(context_), is_git ? EVP_sha1() : EVP_sha256(), nullptr) == 1);
    if (!is_git) return;
    std::string head = fmt::format("blob {}", size_bytes);
    head.push_back('\0');
    add(std::as_bytes(std::span(head)));
}

void Digest::add(std::span<const std::byte> bytes) {
    CHECK(EVP_DigestUpdate(as_context(context_), bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
    unsigned char value[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    CHECK(EVP_DigestFinal_ex(as_context(context_), value, &size) == 1);
    std::string text;
    for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", value[i]);
    return text;
}

}  // namespace tandem::hub
