"""Options of the wrong type are told by their name, numpy's numbers are numbers, and sentences are Python's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from line import frame

import penstock


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda model, pipeline: penstock.plan(model, deadline="x"), "deadline: expected a number of seconds"),
        (lambda model, pipeline: penstock.plan(model, deadline=None), "deadline: expected a number of seconds"),
        (lambda model, pipeline: penstock.Tuner(pipeline, share="x"), "share: expected a share of the machine's time"),
        (lambda model, pipeline: penstock.Tuner(3), "pipeline: expected a pipeline, .*found int 3"),
        (lambda model, pipeline: pipeline.set_parameters({"a": 1}, stage=None), "stage: expected a name"),
        (
            lambda model, pipeline: pipeline.stream([], feed=3),
            "feed: expected None or what makes a frame of an item, .*found int 3",
        ),
        (
            lambda model, pipeline: pipeline.astream([], feed=3),
            "feed: expected None or what makes a frame of an item, .*found int 3",
        ),
        (lambda model, pipeline: penstock.split(model, evict="no"), "evict: expected True or False, found str 'no'"),
        (lambda model, pipeline: penstock.split(model, trace="no"), "trace: expected True or False, found str 'no'"),
        (lambda model, pipeline: penstock.split(model, as_is=None), "as_is: expected True or False, found NoneType"),
        (lambda model, pipeline: penstock.plan(model, may_replicate=1), "may_replicate: expected True or False"),
        (lambda model, pipeline: penstock.build(model, refresh="no"), "refresh: expected True or False"),
        (lambda model, pipeline: penstock.build(model, seed=-1), "seed: expected a number from 0 to .*found int -1"),
        (lambda model, pipeline: penstock.serve(model, insecure="no"), "insecure: expected True or False"),
        (lambda model, pipeline: pipeline.push(frame(1), in_order=3), "in_order: expected True or False"),
        (lambda model, pipeline: penstock.App.read(model.parent).start(), "expected a file, found a folder"),
    ],
)
def test_an_option_of_another_type_is_named(
    call: Callable[[Path, penstock.Pipeline], Any], said: str, model: Path, pipeline: penstock.Pipeline
) -> None:
    with pytest.raises(penstock.InvalidArgument, match=said):
        call(model, pipeline)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda model, deep: penstock.split(model, cuts=deep), "cuts: "),
        (lambda model, deep: penstock.split(model, shapes={"x": deep}), r"shapes\['x'\]: "),
        (
            lambda model, deep: penstock.split(model, backend_options={"a": {"b": deep}}),
            r"backend_options\['a'\]\['b'\]",
        ),
        (lambda model, deep: penstock.App("a").function("f", "./f.so", options={"n": deep}), r"options\['n'\]: "),
        (lambda model, deep: penstock.ready.resize(size=deep), "size: "),
    ],
    ids=["cuts", "shapes", "backend options", "options", "ready"],
)
def test_lists_in_lists_without_an_end_are_refused(call: Callable[[Path, Any], Any], said: str, model: Path) -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(penstock.InvalidArgument, match=f"{said}.*expected a number or a text, such as 1, found list"):
        call(model, deep)


def test_numpys_numbers_are_numbers(model: Path, pipeline: penstock.Pipeline) -> None:
    given: Any = {"timeout": np.float32(9), "deadline": np.int64(60), "stream": np.uint8(0)}
    number = pipeline.push(frame(1), **given)
    found = pipeline.pop(timeout=np.int64(60))  # type: ignore[arg-type]
    assert found is not None and (found.number, found.ok) == (number, True)
    pipeline.drain(np.float64(1))
    numbers: Any = {"capacity": np.int64(2), "max_age_ms": np.float32(60000), "streams": np.int32(1)}
    numbers |= {"replicas": np.int64(1), "batch": np.int64(2), "lanes": {"stage0": np.int8(1)}}
    with penstock.split(model, **numbers) as two:
        assert two.plan["stages"][0]["partitions"][0]["batched"]
    with penstock.plan(model, deadline=np.float32(1)) as planned:
        planned.shut_down(np.float32(5))
    for none in (True, np.bool_(True), np.ones(2)):
        with pytest.raises(penstock.InvalidArgument, match="timeout: expected a number of seconds"):
            pipeline.push(frame(1), timeout=none)  # type: ignore[arg-type]
        with pytest.raises(penstock.InvalidArgument, match="batch: expected a number of frames"):
            penstock.split(model, batch=none)  # type: ignore[arg-type]


def test_what_ended_may_be_closed_and_cancelled_again(model: Path) -> None:
    pipeline = penstock.split(model)
    pipeline.shut_down()
    for _ in range(2):
        pipeline.close()
        pipeline.cancel()
        pipeline.shut_down()
    assert not pipeline.alive


def test_sentences_name_what_python_has(pipeline: penstock.Pipeline) -> None:
    with pytest.raises(penstock.NotFound, match=r"^stream_of\(n\)\.save\(\): stream 3: it is not known"):
        pipeline.stream_of(3).save()
    with pytest.raises(penstock.InvalidArgument, match=r"^stream_of\(n\)\.restore\(\): stream 3: no state 'q'"):
        pipeline.stream_of(3).restore({"q": 1})
    pipeline.push(frame(1))
    with pytest.raises(penstock.ResourceExhausted, match="which is stream 0; allow more in the plan"):
        pipeline.push(frame(1), stream=5)
    with pytest.raises(penstock.NotFound, match="parameter 'a'; there are none: name them by parameters="):
        pipeline.set_parameters({"a": 1})


def test_advice_names_keywords_and_leaves_the_users_words(model: Path, tmp_path: Path) -> None:
    with pytest.raises(penstock.NotFound, match=r"^.*constants: the model has no input '--shape'"):
        penstock.split(model, constants={"--shape": 1})
    name = "a' --shape (--state) --constant.onnx"
    with pytest.raises(penstock.NotFound) as missing:
        penstock.split(tmp_path / name)
    assert name in str(missing.value)
