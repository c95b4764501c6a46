"""Whole networks: what 2, 3 and 5 stages make of each frame equals what ONNX Runtime makes of the model.

PENSTOCK_TEST_MODELS: a folder of networks, NAME/model.onnx; those tests are skipped without it.
"""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime")

STAGES = (2, 3, 5)
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
# Networks that ONNX Runtime's own optimisation takes out of the tolerance: compared with its optimised run.
UNSTEADY = {"mp_selfie_segmentation"}


def frames_of(name: str) -> int:
    return 20 if name in SLOW else 200


def given_networks() -> list[str]:
    folder = os.environ.get("PENSTOCK_TEST_MODELS")
    return sorted(path.parent.name for path in Path(folder).glob("*/model.onnx")) if folder else []


def random_frames(model: Path, count: int, scale: float) -> list[dict[str, np.ndarray]]:
    """Different values for each frame; integers are taken for a sampling rate."""
    random = np.random.default_rng(0)
    shapes = {"input": (1, 576), "state": (2, 1, 128)} if model.parent.name.startswith("silero_vad") else {}
    inputs, frames = plain_session(model).get_inputs(), []
    for _ in range(count):
        frame = {}
        for value in inputs:
            if value.type == "tensor(float)":
                shape = shapes.get(value.name, value.shape)
                frame[value.name] = scale * random.standard_normal(shape, np.float32)
            else:
                frame[value.name] = np.array(16000, np.int64)
        frames.append(frame)
    return frames


def write_frames(file: Path, frames: list[dict[str, np.ndarray]]) -> Path:
    np.savez(file, **{f"{i}/{name}": array for i, frame in enumerate(frames) for name, array in frame.items()})
    return file


def plain_session(model: Path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def check(penstock, name: str, model: Path, stages: int, folder: Path) -> None:
    package, frames = folder / "package", frames_of(name)
    penstock.split(model, package, stages, *[f"--shape={shape}" for shape in SHAPES.get(name, [])])
    inputs = ["--optimised"] if name in UNSTEADY else []
    if name.startswith("silero_vad"):  # its `sr` has one legal value, and speech is of small numbers
        inputs = ["--inputs", write_frames(folder / "frames.npz", random_frames(model, frames, 0.1))]
    report = penstock.json("verify", package, "--model", model, "--frames", str(frames), *inputs)
    assert report["frames"] == frames
    assert report["problems"] == []
    assert report["warnings"] == []
    assert all(output["values"] > 0 for output in report["outputs"])


@pytest.mark.skipif(not given_networks(), reason="needs PENSTOCK_TEST_MODELS, a folder of NAME/model.onnx")
@pytest.mark.sweep(of=6)
@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("name", given_networks() or ["none"])
def test_a_given_network_computes_the_same_in_stages(penstock, tmp_path: Path, name: str, stages: int) -> None:
    check(penstock, name, Path(os.environ["PENSTOCK_TEST_MODELS"]) / name / "model.onnx", stages, tmp_path)


@pytest.mark.sweep(of=6)
@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_network_computes_the_same_in_stages(
    penstock, make_model: Callable[[str], Path], tmp_path: Path, name: str, stages: int
) -> None:
    check(penstock, name, make_model(name), stages, tmp_path)


@pytest.mark.skipif("mp_selfie_segmentation" not in given_networks(), reason="needs PENSTOCK_TEST_MODELS")
def test_what_an_engine_differs_from_itself_by_is_allowed(penstock, tmp_path: Path) -> None:
    model = Path(os.environ["PENSTOCK_TEST_MODELS"]) / "mp_selfie_segmentation/model.onnx"
    penstock.split(model, tmp_path / "package", 2)
    done = penstock.run("verify", tmp_path / "package", "--model", model, "--frames", "20", "--seed", "1")
    assert done.returncode == 0, done.stderr
    assert "times the reference's own rounding of " in done.stdout


@pytest.mark.sweep(of=6)
@pytest.mark.skipif("super_resolution_10" not in given_networks(), reason="needs PENSTOCK_TEST_MODELS")
@pytest.mark.parametrize("shape", ["input=?x1x224x224", "input=1..2x1x224x224"])
def test_an_open_batch_flows_through_the_stages(penstock, tmp_path: Path, shape: str) -> None:
    model = Path(os.environ["PENSTOCK_TEST_MODELS"]) / "super_resolution_10/model.onnx"
    penstock.split(model, tmp_path / "package", 3, f"--shape={shape}")
    frames = [{"input": np.full((1 + i % 2, 1, 224, 224), i / 4, np.float32)} for i in range(4)]
    archive = write_frames(tmp_path / "frames.npz", frames)
    report = penstock.json("verify", tmp_path / "package", "--model", model, "--inputs", archive)
    assert (report["frames"], report["problems"]) == (4, [])


def test_random_words_and_masks_are_such_as_the_network_takes(penstock, make_model, tmp_path):
    plan = penstock.split(make_model("bert_tiny"), tmp_path / "package", 2)
    assert [info.get("values") for info in plan["inputs"]] == [[0, 999], [0, 1], [0, 1]]
