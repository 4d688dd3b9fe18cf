// The page that a browser gets: files of web/, built and embedded in the program.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tandem::server {

struct PageFile {
    std::string_view path;  // "/", "/app.js"
    std::string_view content_type;
    std::string_view bytes;
    std::string etag;  // of the bytes, with its quotes
};

// Null when the page has no such file.
const PageFile* find_page_file(std::string_view path);

struct PageHeader {
    std::string_view name;
    std::string_view value;
};

// What goes out with every file of the page: nothing but its own files runs, shows or is talked to.
std::span<const PageHeader> page_headers();

}  // namespace tandem::server
