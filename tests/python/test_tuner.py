"""Pipelines that are kept at the plan that is the best now."""

import time
from pathlib import Path

import numpy as np
import pytest
from line import expected
from line import frame as feed

import penstock


def test_it_watches_until_closed(pipeline: penstock.Pipeline) -> None:
    with penstock.Tuner(pipeline) as tuner:
        for number in range(100):
            np.testing.assert_array_equal(pipeline(feed(number))[0], expected(number))
        report = tuner.report
        assert report["running"] == "as it is" and report["ended"] == ""
        assert "as it is" in repr(tuner)
    assert "closed" in repr(tuner)
    tuner.close()
    np.testing.assert_array_equal(pipeline(feed(1))[0], expected(1))  # It goes on.


def test_it_ends_with_the_pipeline(pipeline: penstock.Pipeline) -> None:
    tuner = penstock.Tuner(pipeline)
    pipeline.shut_down()
    deadline = time.monotonic() + 60
    while not tuner.report["ended"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert tuner.report["ended"]
    with pytest.raises(penstock.Cancelled):
        penstock.Tuner(pipeline)


def test_a_second_one_is_refused_while_the_first_lasts(pipeline: penstock.Pipeline) -> None:
    with penstock.Tuner(pipeline):
        with pytest.raises(penstock.FailedPrecondition, match=r"has a tuner already: .*; end that first \(close\(\)\)"):
            penstock.Tuner(pipeline)
    with penstock.Tuner(pipeline) as another:
        assert another.report["ended"] == ""


def test_what_does_not_tell_its_times_is_refused(pipeline: penstock.Pipeline, model: Path, tmp_path: Path) -> None:
    penstock.split(model, output=tmp_path / "other.penstock").shut_down()
    with pytest.raises(penstock.InvalidArgument, match=r"other\.penstock.*predicted_seconds"):
        penstock.Tuner(pipeline, packages=[tmp_path / "other.penstock"])
    with pytest.raises(penstock.InvalidArgument, match="share"):
        penstock.Tuner(pipeline, share=2)
    with pytest.raises(penstock.NotFound):
        penstock.Tuner(pipeline, packages=tmp_path / "nothing.penstock")


def test_statistics_have_the_drift(model: Path) -> None:
    with penstock.plan(model) as planned:
        assert planned.plan["stages"][0]["predicted_seconds"] > 0
        for _ in range(20):
            planned(feed(1))
        time.sleep(1.1)  # The least time that is looked at.
        for stage in planned.stats()["stages"]:
            assert stage["drift"] is not None
            assert stage["drift"]["ratio"] > 0 and stage["drift"]["predicted_us"] > 0
            assert not stage["drift"]["beyond_noise"]
