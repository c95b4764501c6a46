"""What the Python tests share: the program under test and generated networks."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from built_program import built_package, find_program

ROOT = Path(__file__).resolve().parents[1]

# Here and not in tests/python: the process that leads those of --numprocesses reads this file alone, and must know
# the classes of the warnings that they hand to it.
PACKAGE = built_package()
if PACKAGE is not None:
    sys.path.insert(0, str(PACKAGE))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))


def pytest_configure() -> None:
    # Who is started in the background has Ctrl-C ignored, and so would have all that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """PENSTOCK_SAMPLE, a seed, leaves about one of N tests marked sweep(of=N), as tests/support/sample.h does."""
    seed = os.environ.get("PENSTOCK_SAMPLE")
    if seed is None:
        return
    gone = []
    for item in items:
        mark = item.get_closest_marker("sweep")
        number = int.from_bytes(hashlib.sha256(f"{seed} {item.nodeid}".encode()).digest()[:8])
        if mark is not None and number % mark.kwargs["of"] != 0:
            gone.append(item)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=gone)
    told = os.environ.get("PENSTOCK_LEFT_OUT")
    if gone and told and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        with open(told, "a") as file:
            file.write(f"{gone[0].nodeid.partition('::')[0]}: {' '.join(item.name for item in gone)}\n")


@pytest.fixture(scope="session", autouse=True)
def costs_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither reads nor writes the user's database; a test that must know nothing has one of its own."""
    os.environ["PENSTOCK_COSTS"] = os.fspath(tmp_path_factory.mktemp("costs") / "costs.db")


class Penstock:
    """The command line program, its results as values."""

    def __init__(self, program: Path) -> None:
        self.program = program

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False)

    def json(self, *arguments: str | Path) -> Any:
        """What `penstock ... --json` prints; fails with what it complains about."""
        result = self.run(*arguments, "--json")
        assert result.returncode == 0, f"penstock {' '.join(map(str, arguments))}: {result.stderr or result.stdout}"
        return json.loads(result.stdout)

    def split(self, model: Path, package: Path, stages: int, *options: str) -> Any:
        """Cuts a model into stages of about as many nodes each."""
        count = len(self.json("show", model, *options)["nodes"])
        cuts = [f"--cut={count * i // stages - 1}" for i in range(1, stages)]
        plan = self.json("split", model, "-o", package, *cuts, *options)
        assert len(plan["stages"]) == stages
        return plan


@pytest.fixture(scope="session")
def penstock() -> Penstock:
    return Penstock(find_program())


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Writes a network of our own generator, once; gives the file."""
    folder = tmp_path_factory.mktemp("generated")

    def make(name: str) -> Path:
        path = folder / f"{name}.onnx"
        if not path.exists():
            command = [sys.executable, ROOT / "tools/make_models.py", "--out", folder, name]
            subprocess.run(command, capture_output=True, check=True)
        return path

    yield make
    shutil.rmtree(folder)
