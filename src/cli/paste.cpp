#include "cli/paste.h"

#include "text/utf8.h"

namespace tandem::cli {

bool Paste::push(char byte) {
    bytes_ += byte;
    if (!bytes_.ends_with(kPasteEnd)) return false;
    bytes_.resize(bytes_.size() - kPasteEnd.size());
    return true;
}

std::string Paste::text() const {
    std::string text;
    for (size_t i = 0; i < bytes_.size(); ++i) {
        const char byte = bytes_[i];
        if (byte == '\r') {  // what terminals send for the end of a line, as the Enter key does
            text += '\n';
            if (i + 1 < bytes_.size() && bytes_[i + 1] == '\n') ++i;
        } else if (byte != '\0') {
            text += byte;
        }
    }
    while (text.ends_with('\n')) text.pop_back();
    return text::to_valid_utf8(text);
}

}  // namespace tandem::cli
