"""bench/steps.py: what of a gain belongs to which step."""

import math
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import steps  # noqa: E402

SIMPLE = {
    "onnxruntime": 100.0,
    "onnxruntime-per-core": 150.0,
    "openvino-latency": 120.0,
    "openvino-throughput": 140.0,
    "openvino-per-core": 180.0,
}


def built(chosen: str, **rates: float) -> dict:
    names = {name.replace("_", " "): rate for name, rate in rates.items()}
    ways = [{"name": name, "frames_per_second": rate, "failure": ""} for name, rate in names.items()]
    ways.append({"name": "onednn in 7 stages, plan 9", "frames_per_second": 0.0, "failure": "crash"})
    return {"chosen": chosen, "ways": ways}


def test_the_choice_of_an_engine_is_no_gain_of_partitioning():
    report = built("openvino on each device", onnxruntime_on_each_device=160, openvino_on_each_device=190)
    gains = steps.gains_of(report, SIMPLE, 180)
    assert gains["engine"] == pytest.approx(1.2)
    assert gains["per core"] == pytest.approx(1.5)
    rest = {step: gain for step, gain in gains.items() if step not in ("engine", "per core")}
    assert set(rest.values()) == {1.0}, rest


def test_the_steps_multiply_to_the_whole_gain():
    report = built(
        "onednn+openvino in 3 parts on each device, cover 4",
        **{
            "openvino on each device": 90,  # Of the contest's own moment: half as fast as now.
            "onednn on each device": 110,
            "onednn on each device, the file as it is": 100,
            "onednn+openvino in 3 parts on each device, cover 4": 120,
            "onednn in 2 stages, plan 5": 115,
        },
    )
    gains = steps.gains_of(report, SIMPLE, 240)
    assert gains["import"] == 1  # 180, as OpenVINO on each core makes of the file.
    assert gains["own backends"] == pytest.approx(220 / 180)
    assert gains["mixing"] == pytest.approx(240 / 220)
    assert gains["stages"] == 1
    assert math.prod(gains.values()) == pytest.approx(2.4)


def test_a_step_that_none_took_gives_nothing_and_batches_come_last():
    report = built("onnxruntime on each device", onnxruntime_on_each_device=100)
    gains = steps.gains_of(report, {"onnxruntime": 100.0}, 100, batched=130)
    assert gains == dict.fromkeys(steps.STEPS, 1.0) | {"batches": pytest.approx(1.3)}


def test_each_engine_on_the_clean_import_is_held_to_itself_on_the_file():
    report = built("openvino on each device", onnxruntime_on_each_device=180, openvino_on_each_device=200)
    assert steps.imports_of(report, SIMPLE, 200) == {"onnxruntime": 1.2, "openvino": pytest.approx(200 / 180)}
