// Paste: a text that the terminal marks as pasted (bracketed paste), from the bytes it sends.
#pragma once

#include <string>
#include <string_view>

namespace tandem::cli {

// A terminal that was told so sends ESC[200~ before a pasted text and ESC[201~ after it.
inline constexpr std::string_view kPasteBegin = "\x1b[200~";
inline constexpr std::string_view kPasteEnd = "\x1b[201~";
inline constexpr std::string_view kPasteOn = "\x1b[?2004h";
inline constexpr std::string_view kPasteOff = "\x1b[?2004l";

class Paste {
  public:
    // The next byte after ESC[200~; true when the paste is complete.
    bool push(char byte);

    // What was pasted: lines end with \n, none at the end; valid UTF-8 without zero bytes.
    std::string text() const;

  private:
    std::string bytes_;
};

}  // namespace tandem::cli
