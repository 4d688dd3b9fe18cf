"""Checks what the compiler does not: include directions between folders, and slips that a reviewer would have to find.

The arrows are read from the table in docs/architecture.md, so the page and the code cannot part.
Usage: check.py [ROOT]; prints one line per finding and exits 1 when there is any.
"""

import re
import sys
from pathlib import Path

MAX_LINES = 800
SKIPPED = {".git", "build", "node_modules", "__pycache__", "data", "corpus", "assets"}
TEXT = {".h", ".hpp", ".cpp", ".cc", ".py", ".sh", ".md", ".txt", ".mjs", ".json", ".cmake", ".comp", ".yml", ".ts",
        ".css", ".html", ""}
CODE = {".h", ".hpp", ".cpp", ".cc", ".py", ".sh", ".mjs", ".cmake", ".comp", ".ts", ".css"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SYSTEM_HEADERS = {"vulkan": "vulkan", "xrt": "npu"}  # the headers <key/...> belong to the folder src/value
SLIPS = [
    (re.compile(r"(?<![\w.~$}])/(work|home|root|Users|mnt)/"), "an absolute path of somebody's machine"),
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b"), "a note to self: open an issue instead"),
    (re.compile(r"^(<{7}|={7}|>{7})( |$)"), "a merge conflict"),
]


def read_arrows(architecture):
    """{folder: folders it may include}, from lines like "src/text/  tokenizers ...  -> base, format"."""
    arrows = {}
    for folder, targets in re.findall(r"^src/(\w+)/[^>]*?->([^\n]*)", architecture, re.MULTILINE):
        targets = set(re.findall(r"\w+", targets))
        unknown = targets - set(arrows) - {"std", "fmt", "everything"}
        if unknown:
            raise ValueError(f"docs/architecture.md: {folder} -> {unknown.pop()}, which is not above it")
        arrows[folder] = set(arrows) if "everything" in targets else targets & set(arrows)
    if not arrows:
        raise ValueError("docs/architecture.md has no table of folders")
    return arrows


def check_include(folder, quote, target, arrows):
    """Why a file of src/folder may not include target, or None."""
    head = target.split("/")[0]
    owner = SYSTEM_HEADERS.get(head)
    if quote == "<":
        return f"<{target}> stays in src/{owner}" if owner and owner != folder else None
    if "/" not in target or head not in arrows:
        return f'"{target}" is not written as "folder/file.h" from src/'
    if head != folder and head not in arrows[folder]:
        return f'{folder} must not include "{target}": docs/architecture.md has no arrow {folder} -> {head}'
    return None


def check_source(path, lines, arrows):
    folder = path.parts[1]
    if folder not in arrows:
        yield 1, f"src/{folder} is not in the table of docs/architecture.md"
        return
    for number, line in enumerate(lines, 1):
        include = INCLUDE.match(line)
        problem = include and check_include(folder, include[1], include[2], arrows)
        if problem:
            yield number, problem


def check_text(path, lines):
    if path.suffix in CODE and len(lines) > MAX_LINES:
        yield len(lines), f"{len(lines)} lines: split by idea what passes {MAX_LINES}"
    if path.suffix in {".h", ".hpp"} and not (lines and lines[0].startswith("// ")):
        yield 1, "a header opens with a comment that says its purpose"
    for number, line in enumerate(lines, 1):
        for pattern, problem in SLIPS:
            if pattern.search(line):
                yield number, problem


def check_cmake(lines, arrows):
    """The libraries must not link what their folders may not include."""
    for number, line in enumerate(lines, 1):
        library = re.match(r"tandem_library\((\w+)(.*)", line)
        for target in re.findall(r"\btandem_(\w+)", library[2]) if library else []:
            if target not in arrows.get(library[1], ()):
                yield number, f"docs/architecture.md has no arrow {library[1]} -> {target}"


def text_files(root):
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and path.suffix in TEXT and not SKIPPED & set(relative.parts):
            yield relative


def check_tree(root):
    arrows = read_arrows((root / "docs/architecture.md").read_text())
    findings = []
    for path in text_files(root):
        lines = (root / path).read_text(errors="replace").splitlines()
        found = list(check_text(path, lines))
        if path.parts[0] == "src" and path.suffix in {".h", ".hpp", ".cpp", ".cc"}:
            found += check_source(path, lines, arrows)
        if path == Path("src/CMakeLists.txt"):
            found += check_cmake(lines, arrows)
        findings += [f"{path}:{number}: {problem}" for number, problem in found]
    return findings


if __name__ == "__main__":
    problems = check_tree(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]))
    print("\n".join(problems) or "the tree is as docs/architecture.md says")
    sys.exit(1 if problems else 0)
