#include "server/page.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "base/embed.h"

EMBED(tandem_page_index, TANDEM_PAGE "/index.html");
EMBED(tandem_page_script, TANDEM_PAGE "/app.js");
EMBED(tandem_page_style, TANDEM_PAGE "/app.css");
EMBED(tandem_page_icon, TANDEM_PAGE "/icon.svg");

namespace tandem::server {

namespace {

// FNV-1a: an etag tells two builds of a file apart, it guards nothing.
std::string etag_of(std::string_view bytes) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3U;
    return fmt::format("\"{:016x}\"", hash);
}

std::vector<PageFile> all_page_files() {
    const auto text = [](const std::byte* begin, const std::byte* end) {
        return std::string_view(reinterpret_cast<const char*>(begin), static_cast<size_t>(end - begin));
    };
    std::vector<PageFile> files = {
        {"/", "text/html; charset=utf-8", text(tandem_page_index_begin, tandem_page_index_end), {}},
        {"/app.js", "text/javascript; charset=utf-8", text(tandem_page_script_begin, tandem_page_script_end), {}},
        {"/app.css", "text/css; charset=utf-8", text(tandem_page_style_begin, tandem_page_style_end), {}},
        {"/icon.svg", "image/svg+xml", text(tandem_page_icon_begin, tandem_page_icon_end), {}},
    };
    std::erase_if(files, [](const PageFile& file) { return file.bytes.empty(); });  // those a notice does without
    for (PageFile& file : files) file.etag = etag_of(file.bytes);
    return files;
}

}  // namespace

const PageFile* find_page_file(std::string_view path) {
    static const std::vector<PageFile> files = all_page_files();
    if (path == "/index.html") path = "/";
    for (const PageFile& file : files) {
        if (file.path == path) return &file;
    }
    return nullptr;
}

std::span<const PageHeader> page_headers() {
    static const PageHeader headers[] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
         "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
         "require-trusted-types-for 'script'; trusted-types dompurify"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Permissions-Policy", "camera=(), geolocation=(), microphone=()"},
        {"Cache-Control", "no-cache"},  // kept, but asked for by its etag each time
    };
    return headers;
}

}  // namespace tandem::server
