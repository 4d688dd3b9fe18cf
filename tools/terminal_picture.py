"""Draws a conversation with the embedded model, as a terminal shows it, as an SVG: what is in it was said by the program.

    python3 tools/terminal_picture.py build/tandem docs/pictures/terminal.svg
"""

import os
import re
import sys
import tempfile
from xml.sax.saxutils import escape

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))

import harness  # noqa: E402

COLUMNS = 110
QUESTIONS = ("What is the opposite of cold?", "Tell me a story about a fox and a lantern.")
LETTER, LINE, MARGIN = 8.43, 20, 18  # of a font of 14 pixels
STYLES = {"1": "bold", "22": "", "36": "code", "39": ""}


def conversation():
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "NO_COLOR": ""}
        terminal = harness.Terminal(["run", "--seed", "3", "--device", "cpu"], environment, home)
        terminal.resize(COLUMNS)
        terminal.expect(r">>> ")
        for question in QUESTIONS:
            terminal.line(question)
            terminal.expect(r"\[prompt [^\]]*\]")
            terminal.expect(r">>> ")
        terminal.line("/bye")
        terminal.end()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b[=>]|\r", "", terminal.raw.decode())
    return ["$ tandem run", *text.strip().split("\n")]


def spans(line):
    """[(class, text)] of a line with its colours."""
    style, parts = "", []
    for index, part in enumerate(re.split(r"\x1b\[([0-9;]*)m", line)):
        if index % 2:
            style = STYLES.get(part, "")
        elif part:
            parts.append((style, part))
    plain = "".join(part for _, part in parts)
    if plain.startswith(("$ ", ">>> ")):
        return [("typed", plain)]
    return [("note", plain)] if plain.startswith("[") else parts


def svg(lines):
    width, height = round(COLUMNS * LETTER + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'role="img" aria-label="tandem run at a terminal">')
    yield ("<style>text{font:14px 'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#eae7e2;white-space:pre}"
           ".typed{fill:#5ec9b8}.note{fill:#a8a299}.bold{font-weight:bold}.code{fill:#8fb0e6}</style>")
    yield f'<rect width="{width}" height="{height}" rx="10" fill="#171615"/>'
    for number, line in enumerate(lines):
        parts = "".join(f'<tspan class="{style}">{escape(text)}</tspan>' if style else escape(text)
                        for style, text in spans(line))
        yield f'<text x="{MARGIN}" y="{MARGIN + 14 + number * LINE}" xml:space="preserve">{parts}</text>'
    yield "</svg>"


def main():
    harness.BINARY = os.path.abspath(sys.argv[1])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join(svg(conversation())) + "\n")


if __name__ == "__main__":
    main()
