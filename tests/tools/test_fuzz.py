"""script/fuzz: the account it keeps, with programs in the place of fuzzers."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fuzz(tmp_path: Path):
    """fuzz(*arguments) -> what script/fuzz did, over the fuzzers in tmp_path/bin."""
    (tmp_path / "bin").mkdir()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [ROOT / "script/fuzz", "--folder", tmp_path / "kept", *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True)

    return run


def fuzzer(folder: Path, name: str, text: str, code: int = 0) -> None:
    """A program that says `text`, after its arguments, and leaves what it found in its corpus."""
    program = folder / f"bin/{name}_fuzz"
    program.write_text(
        '#!/bin/sh\necho "$@"\nfor last; do case $last in */kept/corpus/*) touch "$last/new"; esac; done\n'
    )
    with program.open("a") as file:
        file.write(f"printf '%s\\n' {' '.join(repr(line) for line in text.splitlines())}\nexit {code}\n")
    program.chmod(0o755)


def rows(text: str) -> dict[str, list[str]]:
    return {row[0]: list(row[1:]) for row in re.findall(r"^(\w+) +([\d.]+) +(\d+) +(\d+) +(\d+)$", text, re.MULTILINE)}


DONE = "Done 700 runs in 60 second(s)\nstat::number_of_executed_units: 700"


def test_the_time_of_all_runs_adds_up(fuzz, tmp_path: Path):
    fuzzer(tmp_path, "one", DONE)
    fuzzer(tmp_path, "two", DONE)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/ledger.txt").write_text("2026-01-02 one 1800.5 5 passed\n2026-01-03 one 1799.5 6 passed\n")
    built = ("--built", str(tmp_path / "bin"))
    assert fuzz(*built).returncode == 0
    assert fuzz(*built, "one").returncode == 0
    done = fuzz("--table")
    assert done.returncode == 0
    found = rows(done.stdout)
    assert found["one"] == ["1.000", "1411", "4", "0"]  # The programs computed for milliseconds.
    assert found["two"][1:] == ["700", "1", "0"]
    assert (tmp_path / "kept/corpus/one/new").exists()


def test_more_than_five_minutes_are_several_runs(fuzz, tmp_path: Path):
    fuzzer(tmp_path, "one", DONE)
    assert rows(fuzz("--built", str(tmp_path / "bin"), "--seconds", "700").stdout)["one"][2] == "3"
    assert "-max_total_time=100" in (tmp_path / "kept/one.log").read_text()


def test_a_finding_stays_in_the_account(fuzz, tmp_path: Path):
    fuzzer(tmp_path, "bad", "ERROR: AddressSanitizer", 77)
    done = fuzz("--built", str(tmp_path / "bin"), "--seconds", "900")
    assert done.returncode == 1
    assert "ERROR: AddressSanitizer" in done.stdout
    assert rows(done.stdout)["bad"][2:] == ["1", "1"]  # Nothing goes on behind it.
    assert fuzz("--table").returncode == 1


def test_an_unknown_target_is_refused_with_those_there_are(fuzz, tmp_path: Path):
    fuzzer(tmp_path, "one", DONE)
    done = fuzz("--built", str(tmp_path / "bin"), "two")
    assert done.returncode == 2
    assert "no target 'two'; there are: one" in done.stderr
