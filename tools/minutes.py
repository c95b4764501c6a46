#!/usr/bin/env python3
"""Where the minutes of set-up, builds and tests go.

tools/minutes.py                      the last set-up, builds and tests of this tree, from their own logs
tools/minutes.py headers [PRESET]     what Clang spends on each header and template (default: dev; compiles anew)
tools/minutes.py race REVISION STEP…  times STEPs (setup demo install test ci) of this tree and of REVISION, each in a
                                      fresh clone with an empty ccache, and prints both and their ratio. Debian's
                                      packages stay installed: on a bare machine add what `apt` took there.
"""

import argparse
import collections
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOWN = 12

Rows = list[tuple[str, float]]


def print_rows(title: str, rows: Iterable[tuple[str, float]], shown: int = SHOWN) -> None:
    """Seconds and names, the longest first, and their sum."""
    ordered = sorted(rows, key=lambda row: -row[1])
    if not ordered:
        return
    print(f"\n{title}: {sum(seconds for _, seconds in ordered):.1f} s in {len(ordered)}")
    for name, seconds in ordered[:shown]:
        print(f"{seconds:9.1f}  {name}")


def setup_rows() -> tuple[Rows, Rows]:
    """Of each part of script/setup the last time that it was done: downloads, and the rest."""
    log = ROOT / ".prefix/.log/minutes.tsv"
    last = dict(line.split("\t") for line in (log.read_text().splitlines() if log.exists() else []))
    rows = [(name, float(value.removesuffix(" ms")) / 1000) for name, value in last.items()]
    return [row for row in rows if "download" in row[0]], [row for row in rows if "download" not in row[0]]


def ninja_rows(folder: Path) -> Rows:
    """Of each output of the last builds in a folder the seconds that one core took."""
    rows: dict[str, float] = {}
    for line in (folder / ".ninja_log").read_text().splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        rows[output] = (int(end) - int(start)) / 1000
    return [(name, seconds) for name, seconds in rows.items() if not Path(name).is_absolute()]


def by_module(rows: Rows) -> Rows:
    sums: dict[str, float] = collections.defaultdict(float)
    for name, seconds in rows:
        sums[name.partition("/CMakeFiles/")[0]] += seconds
    return list(sums.items())


def ctest_rows(folder: Path) -> Rows:
    log = folder / "Testing/Temporary/LastTest.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    pattern = re.compile(r"^\d+/\d+ Test: (\S+).*?^Test time = +([\d.]+) sec", re.MULTILINE | re.DOTALL)
    return [(name, float(seconds)) for name, seconds in pattern.findall(text)]


def pytest_rows() -> Rows:
    """Of the last script/test, which leaves build/pytest.xml; by file."""
    report = ROOT / "build/pytest.xml"
    sums: dict[str, float] = collections.defaultdict(float)
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            sums[case.get("classname", "")] += float(case.get("time", 0))
    return list(sums.items())


def show() -> None:
    downloads, others = setup_rows()
    print_rows("script/setup, downloads", downloads)
    print_rows("script/setup, the rest (some of it at the same time)", others)
    for log in sorted(ROOT.glob("build/*/.ninja_log")):
        rows = ninja_rows(log.parent)
        print_rows(f"{log.parent.relative_to(ROOT)}, seconds of one core by module", by_module(rows))
        print_rows(f"{log.parent.relative_to(ROOT)}, by file", rows)
        print_rows(f"{log.parent.relative_to(ROOT)}, its tests", ctest_rows(log.parent))
    print_rows("Python tests by file, seconds of one worker", pytest_rows())


def traced(command: str, folder: str, trace: Path) -> list[dict[str, object]]:
    """Compiles once more, with a trace beside the object, which is thrown away."""
    arguments = shlex.split(command)
    while not Path(arguments[0]).name.startswith("clang"):  # Launchers, and what they are told.
        del arguments[0]
    arguments[arguments.index("-o") + 1] = str(trace.with_suffix(".o"))
    subprocess.run([*arguments, "-ftime-trace", "-w"], cwd=folder, check=True)
    return json.loads(trace.read_text())["traceEvents"]


def show_headers(preset: str) -> None:
    commands = json.loads((ROOT / "build" / preset / "compile_commands.json").read_text())
    sums: dict[str, dict[str, float]] = collections.defaultdict(lambda: collections.defaultdict(float))
    with tempfile.TemporaryDirectory() as folder:
        for entry in commands:
            if "clang" not in entry["command"] or not entry["file"].endswith((".cc", ".cxx")):
                continue
            if "cmake_pch" in entry["file"]:
                continue
            for event in traced(entry["command"], entry["directory"], Path(folder) / "trace.json"):
                if event.get("name") in ("Source", "InstantiateClass", "InstantiateFunction", "OptFunction"):
                    detail = str(event["args"]["detail"])[:110]
                    sums[str(event["name"])][detail] += float(str(event["dur"])) / 1e6
    for name, rows in sums.items():
        print_rows(f"{name} (with what is inside)", rows.items(), 25)


STEPS = {
    "setup": "script/setup",
    "demo": "script/demo",
    "install": "{python} -m pip install .",
    "test": "script/test",
    "ci": "bash .ci/run",
}


def race(revision: str, steps: list[str]) -> None:
    """Alternates between the two trees, so that a machine that slows down does so for both."""
    with tempfile.TemporaryDirectory(dir=ROOT.parent) as folder:  # Tests look for ../shared.
        trees = {"this tree": Path(folder) / "new", revision: Path(folder) / "old"}
        seconds: dict[tuple[str, str], float] = {}
        for tree in trees.values():
            subprocess.run(["git", "clone", "--quiet", ROOT, tree], check=True)
            at = "HEAD" if tree.name == "new" else revision
            subprocess.run(["git", "checkout", "--quiet", "--detach", at], cwd=tree, check=True)
            subprocess.run([sys.executable, "-m", "venv", tree / "build/user"], check=True)
            shared = ROOT.parent / "shared"
            if shared.is_dir() and not (Path(folder) / "shared").exists():
                (Path(folder) / "shared").symlink_to(shared)
        for step in steps:
            for name, tree in trees.items():
                command = STEPS[step].format(python=tree / "build/user/bin/python")
                environment = os.environ | {"CCACHE_DIR": str(tree / "build/ccache")}
                begin = time.monotonic()
                with open(tree / f"build/{step}.log", "w") as log:
                    done = subprocess.run(
                        command.split(), cwd=tree, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
                    )
                seconds[step, name] = time.monotonic() - begin
                if done.returncode != 0:
                    print(f"{step} of {name} ended with {done.returncode}: {Path(log.name).read_text()[-2000:]}")
            new, old = (seconds[step, name] for name in trees)
            print(f"{step:8} {new:8.0f} s here {old:8.0f} s at {revision} {new / old:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    headers = commands.add_parser("headers")
    headers.add_argument("preset", nargs="?", default="dev")
    racing = commands.add_parser("race")
    racing.add_argument("revision")
    racing.add_argument("steps", nargs="+", choices=STEPS)
    arguments = parser.parse_args()
    if arguments.command == "headers":
        show_headers(arguments.preset)
    elif arguments.command == "race":
        race(arguments.revision, arguments.steps)
    else:
        show()


if __name__ == "__main__":
    main()
