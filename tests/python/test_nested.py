"""Networks of nested control flow compute what ONNX Runtime makes of their files, wherever they are cut."""

import os
import random
from typing import Any

import numpy as np
import onnxruntime
import pytest
from nested import network

import penstock

SEEDS = range(int(os.environ.get("PENSTOCK_NESTED", "12")))


def frame(random_values: np.random.Generator, flag: bool, count: int) -> dict[str, Any]:
    return {
        "x": random_values.normal(size=3).astype(np.float32),
        "x2": random_values.normal(size=3).astype(np.float32),
        "rows": random_values.normal(size=(4, 3)).astype(np.float32),
        "flag": np.array(flag),
        "count": np.array(count, np.int64),
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_cut_anywhere_they_compute_the_same(seed: int) -> None:
    model = network(seed).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options)
    values = {"bound_flag": bool(seed % 2), "bound_integer": seed % 3}
    sent = {name: np.array(value) for name, value in values.items()}
    frames = [frame(np.random.default_rng(seed), flag, count) for flag, count in ((True, 2), (False, 0), (True, 1))]
    expected = [session.run(None, given | sent) for given in frames]
    one = {"bound_integer": seed % 3}
    for constants, more in ((values, {}), (one, {"bound_flag": sent["bound_flag"]}), ({}, sent)):
        with penstock.split(model, constants=constants) as pipeline:
            nodes = sum(len(stage["nodes"]) for stage in pipeline.plan["stages"])
        cuts = sorted(random.Random(seed).sample(range(max(nodes - 1, 0)), min(2, max(nodes - 1, 0))))
        for chosen in (cuts, []):
            with split(model, chosen, constants) as pipeline:
                for given, outputs in zip(frames, expected, strict=True):
                    for ours, theirs in zip(pipeline.run(None, given | more), outputs, strict=True):
                        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def split(model: bytes, cuts: list[int], constants: dict[str, Any]) -> penstock.Pipeline:
    """Less cuts where the last leaves nothing behind it."""
    try:
        return penstock.split(model, cuts=cuts, constants=constants)
    except penstock.InvalidArgument as error:
        if not cuts or "nothing" not in str(error):
            raise
        return split(model, cuts[:-1], constants)
