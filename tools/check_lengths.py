#!/usr/bin/env python3
"""Fails where 95 % of all functions, headers or sources of the library are no longer as short as they were.

    tools/check_lengths.py [TREE] [--most FUNCTION HEADER SOURCE]

Counts lines in src/ and plugins/, tests left out: of functions from their first line to the closing
brace, of files as they are. Where one of the three is over what it may be, the longest are named. It reads the text
alone, as clang-format leaves it; lambdas belong to the function that they stand in.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("src", "plugins")
MOST = {"functions": 26, "headers": 123, "sources": 442}
PERCENT = 95
NAMED = 5  # Of the longest.

# What braces in it mean nothing: comments, raw strings, strings, characters (but no separator of digits), directives.
TEXT = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)\"|\"(?:\\.|[^\"\\\n])*\""
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
TYPE = re.compile(r"\b(?:class|struct|union|enum)\b(?![^<]*>\s*\w+\s*\()")
SCOPE = re.compile(r"(?:inline\s+)?\bnamespace\b|\bextern\s*$")


class Length(NamedTuple):
    lines: int
    where: str


def without_text(source: str) -> str:
    """The source with blanks for what TEXT finds: lines stay where they are."""
    return TEXT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)


def kind_of(head: str) -> str:
    """What a brace opens behind `head`, the words since the last statement: a scope, a type, a function, or values."""
    if SCOPE.search(head):
        return "scope"
    if re.search(r"[\w>]$", head):  # A member that is set up: before a body there is a space.
        return "values"
    if re.search(r"\boperator\s*\S+\s*\(", head):
        return "function"
    if re.search(r"=\s*$|\breturn\s*$", head) or re.search(r"[^=!<>]=[^=]", head.partition("(")[0]):
        return "values"
    if TYPE.search(head.partition("(")[0]) and not head.rstrip().endswith(")"):
        return "scope"
    return "function" if "(" in head else "values"


def functions_of(source: str) -> Iterator[tuple[int, int]]:
    """The first line and the number of lines of each function that is defined."""
    text = without_text(source)
    kinds: list[str] = []
    starts: list[int] = []
    since = 0  # Where the statement began.
    for found in re.finditer(r"[{};]|\b(?:public|private|protected)\s*:", text):
        inside = "function" in kinds or "values" in kinds
        if found[0] == "{":
            kind = "values" if inside else kind_of(text[since : found.start()])
            kinds.append(kind)
            starts.append(since + len(text[since:]) - len(text[since:].lstrip()))
        elif found[0] == "}":
            if not kinds:
                return
            kind, start = kinds.pop(), starts.pop()
            if kind == "function":
                yield text.count("\n", 0, start) + 1, text.count("\n", start, found.start()) + 1
            if kind == "values" and "function" not in kinds and "values" not in kinds:
                continue  # The statement goes on: members are set up, and the body comes.
        if not ("function" in kinds or "values" in kinds):
            since = found.end()
    return


def lengths_of(root: Path) -> dict[str, list[Length]]:
    """All lengths, the longest first."""
    found: dict[str, list[Length]] = {kind: [] for kind in MOST}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc") or is_test(path.name):
                continue
            source, name = path.read_text(encoding="utf-8"), str(path.relative_to(root))
            kind = "headers" if path.suffix == ".h" else "sources"
            found[kind].append(Length(source.count("\n"), name))
            found["functions"] += [Length(lines, f"{name}:{at}") for at, lines in functions_of(source)]
    return {kind: sorted(lengths, reverse=True) for kind, lengths in found.items()}


def is_test(name: str) -> bool:
    return bool(re.search(r"_test\.cc$|^test_.*\.(h|cc)$", name))


def percentile(lengths: list[Length]) -> int:
    """The length that PERCENT of them do not pass. `lengths`: the longest first."""
    return lengths[len(lengths) - ceil(len(lengths) * PERCENT / 100)].lines if lengths else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path, nargs="?", default=Path(__file__).resolve().parent.parent)
    parser.add_argument(
        "--most", type=int, nargs=3, default=list(MOST.values()), metavar=("FUNCTION", "HEADER", "SOURCE")
    )
    arguments = parser.parse_args()
    failed = False
    for (kind, lengths), most in zip(lengths_of(arguments.tree).items(), arguments.most, strict=True):
        lines = percentile(lengths)
        print(f"{kind}: {PERCENT} % of {len(lengths)} have at most {lines} lines (allowed: {most})")
        if lines <= most:
            continue
        failed = True
        print(f"  make the longest shorter: {', '.join(f'{where} ({long})' for long, where in lengths[:NAMED])}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
