#!/usr/bin/env python3
"""Fails where a file includes what layers.txt does not allow it, and on any cycle: in layers.txt,
or of headers that include each other. Argument: the tree's root (default: this one)."""

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"(?P<own>[^"]+)"|<(?P<outside>[^>]+)>)', re.MULTILINE)
SUFFIXES = {".h", ".cc", ".c", ".inc"}


class Layers:
    """What layers.txt says."""

    def __init__(self, text: str):
        self.modules: dict[str, set[str]] = {}  # What each may include.
        self.outside: dict[str, tuple[str, ...]] = {}  # Which files may include <...>.
        self.problems: list[str] = []
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            name, colon, allowed = (part.strip() for part in line.partition(":"))
            if not colon:
                self.problems.append(f"layers.txt:{number}: expected 'name: what it may include'")
            elif name.startswith("<"):
                self.outside[name.strip("<>")] = tuple(allowed.split())
            else:
                self.add_module(number, name, set(allowed.split()))

    def add_module(self, number: int, name: str, allowed: set[str]) -> None:
        if unknown := allowed - self.modules.keys():
            names = ", ".join(sorted(unknown))
            self.problems.append(f"layers.txt:{number}: {name}: not defined above it: {names}")
        self.modules[name] = allowed

    def module_of(self, path: str) -> str:
        """Of a file below src/penstock/, or from plugins/ on: the innermost folder that is a module."""
        folders = path.split("/")[:-1]
        for depth in range(len(folders), 0, -1):
            if (name := "/".join(folders[:depth])) in self.modules:
                return name
        return "plugins/*" if folders[:1] == ["plugins"] else "/".join(folders[:1])


def is_test(path: Path) -> bool:
    return path.stem.endswith(("_test", "_bench")) or path.stem.startswith(("test_", "fake_"))


def check_file(layers: Layers, path: Path, file: str) -> list[str]:
    """`file`: the path below src/penstock/, or from plugins/ or python/ on. Returns the problems."""
    parts = file.split("/")
    outside_src = parts[0] in ("plugins", "python")
    module = layers.module_of(file)
    shown = file if outside_src else f"src/penstock/{file}"
    spine = len(parts) == 1
    if not spine and module not in layers.modules:
        return [f"{shown}: '{module}' is not in layers.txt"]
    problems = []
    for found in INCLUDE.finditer(path.read_text(encoding="utf-8")):
        own, outside = found["own"] or "", found["outside"] or ""
        generated = own.endswith(".pb.h")  # Messages: as any outside library's.
        inner = own.startswith("penstock/") and own.count("/") > 1 and not generated
        used = layers.module_of(own.removeprefix("penstock/")) if inner else ""
        if used and not spine and used != module and used not in layers.modules[module]:
            problems.append(f"{shown}: {module} may not include {used}/ (layers.txt)")
        if own.startswith("penstock/") and not (used or generated or spine or is_test(path)):
            problems.append(f'{shown}: "{own}" is above the modules (layers.txt)')
        if own.startswith(tuple(layers.outside)):
            problems.append(f'{shown}: "{own}": headers of others take <>')
        elif own.startswith("tests/") and is_test(path):
            continue
        elif own.startswith(".") or (own and not outside_src and not own.startswith("penstock/")):
            problems.append(f'{shown}: "{own}": write the path from penstock/ on')
        if outside.startswith("penstock/"):
            problems.append(f"{shown}: <{outside}>: our own headers take quotes")
        for prefix, allowed in layers.outside.items():
            if outside.startswith(prefix) and not is_test(path) and not file.startswith(allowed):
                owners = " ".join(allowed) or "nobody"
                problems.append(f"{shown}: <{outside}> belongs to {owners} (layers.txt)")
    return problems


def find_cycle(includes: dict[str, list[str]]) -> list[str]:
    """A cycle of files that include each other, its first file repeated at the end; or nothing."""
    done: set[str] = set()

    def visit(file: str, path: list[str]) -> list[str]:
        if file in path:
            return [*path[path.index(file) :], file]
        if file in done:
            return []
        for used in includes.get(file, []):
            if cycle := visit(used, [*path, file]):
                return cycle
        done.add(file)
        return []

    for file in sorted(includes):
        if cycle := visit(file, []):
            return cycle
    return []


def check(root: Path) -> list[str]:
    layers = Layers((root / "layers.txt").read_text(encoding="utf-8"))
    problems = list(layers.problems)
    if problems:
        return problems
    includes: dict[str, list[str]] = {}
    source = root / "src/penstock"
    for top, start in ((source, source), (root / "plugins", root), (root / "python", root)):
        for path in sorted(top.rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            problems += check_file(layers, path, path.relative_to(start).as_posix())
            if top != start:
                continue
            text = path.read_text(encoding="utf-8")
            own = [found["own"] for found in INCLUDE.finditer(text) if found["own"]]
            includes[f"penstock/{path.relative_to(top).as_posix()}"] = own
    if cycle := find_cycle(includes):
        problems.append("headers include each other: " + " -> ".join(cycle))
    return problems


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
