// Reads any bytes as what a server or another program says about models, and checks what must hold of the result.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "hub/library.h"
#include "hub/partial_file.h"
#include "hub/reference.h"
#include "hub/repository.h"
#include "hub/selection.h"

namespace tandem::hub {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto files = parse_tree(text, "fuzz")) {
        std::vector<FileEntry> entries;
        for (const RemoteFile& file : *files) {
            CHECK(is_inner_path(file.path) && (is_hex(file.etag, 40) || is_hex(file.etag, 64)));
            entries.push_back({file.path, file.size_bytes});
        }
        for (const Variant& variant : find_variants(entries)) CHECK(!variant.files.empty() && !variant.label.empty());
        static_cast<void>(select_variant(entries, "", "fuzz"));
    }
    if (const auto commit = parse_commit(text, "fuzz")) CHECK(is_hex(*commit, 40));
    if (const auto digest = parse_manifest(text, "fuzz")) CHECK(is_hex(digest->substr(7), 64));
    if (const auto journal = parse_journal(text)) CHECK(to_bytes(*journal) == text);
    const auto reference = parse_reference(text, "http://localhost");
    if (reference && *reference && !(*reference)->repo.empty()) CHECK(is_repo_name((*reference)->repo));
    CHECK(name_of_file(file_name_of(text)) == text);
    CHECK(file_name_of(text).find('/') == std::string::npos);
    static_cast<void>(next_page(text));
    return 0;
}

}  // namespace tandem::hub
