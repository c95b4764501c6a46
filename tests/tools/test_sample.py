"""The samples of long sweeps: tools/tree_hash.sh gives the seed, tests/support/sample.h and conftest.py take by it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the script, a file, and one that is ignored."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/tree_hash.sh", tmp_path / "tools")
    (tmp_path / "file").write_text("one")
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "build").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def hash_of(tree: Path) -> str:
    return subprocess.run([tree / "tools/tree_hash.sh"], capture_output=True, text=True, check=True).stdout.strip()


def test_a_tree_has_one_hash_before_and_after_a_commit(tree: Path) -> None:
    before = hash_of(tree)
    assert len(before) == 12
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    assert hash_of(tree) == before
    author = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *author, "commit", "-qm", "all"], cwd=tree, check=True)
    assert hash_of(tree) == before


def test_another_content_or_name_has_another_hash(tree: Path) -> None:
    before = hash_of(tree)
    (tree / "build/made").write_text("ignored")
    assert hash_of(tree) == before
    (tree / "file").write_text("two")
    changed = hash_of(tree)
    (tree / "file").write_text("one")
    (tree / "file").rename(tree / "other")
    assert len({before, changed, hash_of(tree)}) == 3


@pytest.fixture
def left_out(tmp_path: Path):
    """What a sweep of the planner's tests leaves out by a seed, or by none."""
    program = Path(os.environ.get("PENSTOCK_BIN", ROOT / "build/dev/bin/penstock")).resolve().parent / "planner_tests"
    if not program.exists():
        pytest.skip(f"no {program}: build it")

    def run(seed: str | None) -> str:
        told = tmp_path / "left_out"
        told.unlink(missing_ok=True)
        environment = os.environ | {"PENSTOCK_LEFT_OUT": str(told)}
        environment.pop("PENSTOCK_SAMPLE", None)
        if seed is not None:
            environment["PENSTOCK_SAMPLE"] = seed
        command = [program, "--gtest_filter=InstanceTest.OfRandomProblemsRespectsTheirOrder"]
        subprocess.run(command, env=environment, capture_output=True, check=True)
        return told.read_text() if told.exists() else ""

    return run


def test_a_seed_leaves_out_what_it_left_out_before(left_out) -> None:
    first = left_out("a")
    assert first.startswith("InstanceTest.OfRandomProblemsRespectsTheirOrder: ")
    assert left_out("a") == first != left_out("b")
    assert left_out(None) == ""


def numbers_in(line: str) -> set[int]:
    numbers: set[int] = set()
    for run in line.partition(":")[2].split():
        first, _, last = run.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def test_about_a_quarter_stays_and_each_number_in_some_sample(left_out) -> None:
    gone = [numbers_in(left_out(str(seed))) for seed in range(40)]
    assert all(120 <= len(numbers) <= 180 for numbers in gone), list(map(len, gone))
    assert not set.intersection(*gone)


def test_pytest_keeps_one_of_so_many_and_tells_the_others(tmp_path: Path) -> None:
    for file in ("conftest.py", "support/built_program.py"):
        shutil.copy(ROOT / "tests" / file, tmp_path)
    shutil.copy(ROOT / "tests/pytest.ini", tmp_path)
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.sweep(of=4)\n@pytest.mark.parametrize('n', range(200))\ndef test_one(n): pass\n"
        "def test_other(): pass\n"
    )

    def run(seed: str | None) -> str:
        environment = os.environ | {"PENSTOCK_LEFT_OUT": str(tmp_path / "told")}
        for name in ("PENSTOCK_SAMPLE", "PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
            environment.pop(name, None)
        if seed is not None:
            environment["PENSTOCK_SAMPLE"] = seed
        command = [ROOT / ".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path / "test_it.py"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert "201 passed" in run(None)
    assert not (tmp_path / "told").exists()
    text = run("a")
    told = (tmp_path / "told").read_text()
    gone = told.count("test_one[")
    assert told.startswith("test_it.py: ") and 110 <= gone <= 185
    assert f"{201 - gone} passed, {gone} deselected" in text


@pytest.mark.parametrize("arguments", [["--all"], ["--whole", "more"], [""]])
def test_wrong_words_to_the_test_command_are_refused(arguments: list[str]) -> None:
    done = subprocess.run([ROOT / "script/test", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and "expected nothing or --whole" in done.stderr
