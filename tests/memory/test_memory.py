"""Peak memory beside one plain ONNX Runtime session, and models over protobuf's 2 GB."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

LIMIT = 1.5  # times what one ONNX Runtime session of the whole needs
BIG_NEEDS = 8 << 30  # of memory, and half as much on disk

PLAIN_SESSION = """
import sys
import numpy as np
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
session.run(None, {i.name: np.ones(i.shape, np.int64) for i in session.get_inputs()})
"""


def peak_bytes(*command: str | Path) -> int:
    """The largest resident size that a program reached, its mapped files included."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        said = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, said
    return usage.ru_maxrss * 1024


def free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.fixture(scope="module")
def bert(make_model: Callable[[str], Path]) -> Path:
    return make_model("bert_base")


@pytest.fixture(scope="module")
def plain_peak(bert: Path) -> int:
    pytest.importorskip("onnxruntime")
    return peak_bytes(sys.executable, "-c", PLAIN_SESSION, bert)


@pytest.mark.sweep(of=3)
def test_splitting_needs_little_more_memory_than_a_plain_session(
    penstock, bert: Path, plain_peak: int, tmp_path: Path
) -> None:
    cuts = ["--cut=130", "--cut=270"]
    peak = peak_bytes(penstock.program, "split", bert, "-o", tmp_path / "package", *cuts)
    assert peak <= LIMIT * plain_peak, f"{peak / plain_peak:.2f} times the memory of a plain session"


@pytest.mark.sweep(of=3)
def test_three_stages_need_little_more_memory_than_a_plain_session(
    penstock, bert: Path, plain_peak: int, tmp_path: Path
) -> None:
    penstock.split(bert, tmp_path / "package", 3)
    peak = peak_bytes(penstock.program, "run", tmp_path / "package", "--frames", "8")
    assert peak <= LIMIT * plain_peak, f"{peak / plain_peak:.2f} times the memory of a plain session"


def has_room_for_big() -> bool:
    return free_bytes() >= BIG_NEEDS and shutil.disk_usage(tempfile.gettempdir()).free >= BIG_NEEDS // 2


@pytest.mark.sweep(of=6)
@pytest.mark.skipif(not has_room_for_big(), reason="needs 8 GB of free memory and 4 GB of disk")
def test_a_model_over_two_gigabytes_is_split_and_runs(
    penstock, make_model: Callable[[str], Path], tmp_path: Path
) -> None:
    model = make_model("big")
    assert model.with_name("big.onnx.data").stat().st_size > 2 << 30
    penstock.split(model, tmp_path / "package", 2)
    report = penstock.json("verify", tmp_path / "package", "--model", model, "--frames", "3")
    assert (report["frames"], report["problems"]) == (3, [])
