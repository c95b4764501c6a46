"""What workers of a pipeline wait for, as its trace tells."""

from pathlib import Path

import numpy as np
import perfetto

import penstock


def frame() -> np.ndarray:
    return np.ones((1, 4), np.float32)


def trace_of(pipeline: penstock.Pipeline, folder: Path) -> perfetto.Trace:
    pipeline.trace(folder / "trace.json")
    trace = perfetto.read(folder / "trace.json")
    perfetto.check(trace)
    return trace


def waits(trace: perfetto.Trace, stage: str) -> list[perfetto.Slice]:
    (thread,) = [name for name in trace.threads.values() if name.startswith(f"{stage}/")]
    return [one for one in trace.of_thread(thread) if one.category == "wait"]


def test_workers_wait_for_input_where_frames_come_one_by_one(model: Path, tmp_path: Path) -> None:
    with penstock.split(model, cuts=["increment"], trace=True) as pipeline:
        for _ in range(5):
            pipeline(frame())
        trace = trace_of(pipeline, tmp_path)
    for stage in ("stage0", "stage1"):
        names = [one.name for one in waits(trace, stage)]
        assert names.count("waits for input") == 4
        assert "waits for room" not in names
