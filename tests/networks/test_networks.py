"""Whole networks: what 1, 2, 3 and 5 stages make of each frame equals what ONNX Runtime makes of the model.

PENSTOCK_TEST_MODELS: a folder of networks, NAME/model.onnx; those tests are skipped without it.
"""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

STAGES = (1, 2, 3, 5)
GENERATED = (
    "resnet50",
    "mobilenetv2",
    "bert_base",
    "bert_tiny",
    "lstm",
    "nasnet",
    "yolo_like",
    "diamond",
    "resnet_tiny",
)

# What must be known of inputs with open dimensions.
SHAPES = {
    "basic_pitch": ["serving_default_input_2:0=1x43844x1"],
    "silero_vad_16k_op15": ["input=1x576", "state=2x1x128"],
    "super_resolution_10": ["input=1x1x224x224"],
}
# Networks that take more than 20 ms a frame on one core.
SLOW = {"basic_pitch", "sinet_seg", "super_resolution_10", "resnet50", "bert_base", "nasnet"}


def frames_of(name: str) -> int:
    return 20 if name in SLOW else 200


def given_networks() -> list[str]:
    folder = os.environ.get("PENSTOCK_TEST_MODELS")
    return sorted(path.parent.name for path in Path(folder).glob("*/model.onnx")) if folder else []


def write_silero_frames(file: Path, count: int) -> list[str]:
    """Its `sr` has one legal value, so its frames are made here."""
    random, arrays = np.random.default_rng(0), {}
    for frame in range(count):
        arrays[f"{frame}/input"] = random.standard_normal((1, 576), np.float32)
        arrays[f"{frame}/state"] = random.standard_normal((2, 1, 128), np.float32)
        arrays[f"{frame}/sr"] = np.array(16000, np.int64)
    np.savez(file, **arrays)
    return ["--inputs", str(file)]


def check(penstock, name: str, model: Path, stages: int, folder: Path) -> None:
    options = [f"--shape={shape}" for shape in SHAPES.get(name, [])]
    penstock.split(model, folder / "package", stages, *options)
    frames = frames_of(name)
    inputs = write_silero_frames(folder / "frames.npz", frames) if name.startswith("silero_vad") else []
    report = penstock.json("verify", folder / "package", "--model", model, "--frames", str(frames), *inputs)
    assert report["frames"] == frames
    assert report["problems"] == []
    assert report["warnings"] == []
    assert all(output["values"] > 0 for output in report["outputs"])


@pytest.mark.skipif(not given_networks(), reason="needs PENSTOCK_TEST_MODELS, a folder of NAME/model.onnx")
@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("name", given_networks() or ["none"])
def test_a_given_network_computes_the_same_in_stages(penstock, tmp_path: Path, name: str, stages: int) -> None:
    check(penstock, name, Path(os.environ["PENSTOCK_TEST_MODELS"]) / name / "model.onnx", stages, tmp_path)


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_network_computes_the_same_in_stages(
    penstock, make_model: Callable[[str], Path], tmp_path: Path, name: str, stages: int
) -> None:
    check(penstock, name, make_model(name), stages, tmp_path)


@pytest.mark.skipif("super_resolution_10" not in given_networks(), reason="needs PENSTOCK_TEST_MODELS")
@pytest.mark.parametrize("shape", ["input=?x1x224x224", "input=1..2x1x224x224"])
def test_an_open_batch_flows_through_the_stages(penstock, tmp_path: Path, shape: str) -> None:
    model = Path(os.environ["PENSTOCK_TEST_MODELS"]) / "super_resolution_10/model.onnx"
    penstock.split(model, tmp_path / "package", 3, f"--shape={shape}")
    batches = {f"{i}/input": np.full((1 + i % 2, 1, 224, 224), i / 4, np.float32) for i in range(4)}
    np.savez(tmp_path / "frames.npz", **batches)
    report = penstock.json("verify", tmp_path / "package", "--model", model, "--inputs", tmp_path / "frames.npz")
    assert (report["frames"], report["problems"]) == (4, [])
