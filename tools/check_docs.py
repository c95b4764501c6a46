#!/usr/bin/env python3
"""Fails where README.md, ARCHITECTURE.md or CONTRIBUTING.md names a path that does not exist, or a page
(docs/*.md) a header or a name of C++ that is not installed, or ARCHITECTURE.md leaves out a header of the runtime,
or where a file of src/ does not begin with a line that stands alone.

A path is a word in backticks or a link's target that begins with a file or folder of the root.
Argument: the tree's root (default: this one)."""

import re
import sys
from pathlib import Path

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
TOPS = "src|plugins|tools|docs|tests|bench|cmake|examples|script|python|packaging|include"
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)")
HEADER = re.compile(r"(?<!src/)\bpenstock/(\w+/\w+\.h)\b")  # As a program includes it.
NAME = re.compile(r"\b(\w+)::(\w+)\b")  # Of C++, in a namespace.
IN_A_FOLDER = re.compile(rf"(?<![\w./-])(?:\./)?((?:{TOPS})/[\w./{{}},*-]*)")
SENTENCE = re.compile(r"(?://|/\*) \S.*[.?](?: \*/)?")
AT_THE_ROOT = re.compile(r"(?:\./)?([A-Z]\w*\.(?:md|txt|json)|[\w.]+\.txt|presubmit|LICENSE)")


def paths_of(text: str) -> set[str]:
    """The paths that `text` names; `a.{h,cc}` is two."""
    found = set(IN_A_FOLDER.findall(text))
    found |= {link for link in LINK.findall(text) if "://" not in link and ":" not in link}
    for code in CODE.findall(text):
        if name := AT_THE_ROOT.fullmatch(code):
            found.add(name[1])
    return {path for one in found for path in expand(one.rstrip(".,"))}


def expand(path: str) -> list[str]:
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    ends = braces[1].split(",")
    return [p for end in ends for p in expand(path[: braces.start()] + end + path[braces.end() :])]


def exists(root: Path, path: str) -> bool:
    return any(root.glob(path)) if "*" in path else (root / path).exists()


def installed_headers(root: Path) -> list[str]:
    return re.findall(r"[\w./]+\.h\b", (root / "cmake/penstock_install.cmake").read_text(encoding="utf-8"))


def names_not_installed(root: Path) -> list[tuple[str, str]]:
    """Page and name, of those that a page names with their folder of src/penstock/ as their namespace."""
    texts: dict[str, str] = {}
    bad = []
    for page in sorted((root / "docs").glob("*.md")):
        for folder, name in sorted(set(NAME.findall(page.read_text(encoding="utf-8")))):
            if not (root / "src/penstock" / folder).is_dir():
                continue
            if folder not in texts:
                files = [root / "src/penstock" / header for header in installed_headers(root)]
                texts[folder] = "".join(
                    file.read_text(encoding="utf-8") for file in files if file.parent.name == folder
                )
            if not re.search(rf"\b{name}\b", texts[folder]):
                bad.append((f"docs/{page.name}", f"{folder}::{name}"))
    return bad


def headers_not_installed(root: Path) -> list[tuple[str, str]]:
    """Page and header, of those that a page names as a program includes them."""
    named = [
        (f"docs/{page.name}", header)
        for page in sorted((root / "docs").glob("*.md"))
        for header in sorted(set(HEADER.findall(page.read_text(encoding="utf-8"))))
    ]
    if not named:
        return []
    installed = installed_headers(root)
    return [(page, header) for page, header in named if header not in installed]


def without_first_line(root: Path) -> list[str]:
    """The headers and sources of src/ whose first line is no whole sentence of a comment."""
    files = sorted(path for path in (root / "src").rglob("*") if path.suffix in {".h", ".cc", ".c"})
    return [
        str(path.relative_to(root))
        for path in files
        if not SENTENCE.fullmatch(path.read_text(encoding="utf-8").partition("\n")[0])
    ]


def headers_left_out(root: Path) -> list[str]:
    """Of the runtime, whose headers ARCHITECTURE.md explains one by one."""
    document = root / "ARCHITECTURE.md"
    text = document.read_text(encoding="utf-8") if document.exists() else ""
    headers = sorted((root / "src/penstock/pipeline").glob("*.h"))
    return [header.name for header in headers if f"`{header.name}`" not in text]


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    bad = 0
    for document in DOCUMENTS:
        if not (root / document).exists():
            continue
        for path in sorted(paths_of((root / document).read_text(encoding="utf-8"))):
            if not exists(root, path):
                print(f"{document} names '{path}', which does not exist")
                bad += 1
    for page, header in headers_not_installed(root):
        print(f"{page} offers 'penstock/{header}', which cmake/penstock_install.cmake does not install")
        bad += 1
    for page, name in names_not_installed(root):
        print(f"{page} offers '{name}', which no header declares that cmake/penstock_install.cmake installs")
        bad += 1
    for header in headers_left_out(root):
        print(f"ARCHITECTURE.md does not say what src/penstock/pipeline/{header} is")
        bad += 1
    for path in without_first_line(root):
        print(f"{path} does not begin with a comment of one line that says what one finds there")
        bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
