"""penstock.connect(): a model of a server as a pipeline."""

import asyncio
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from built_program import find_program

import penstock


def frames(count: int) -> list[np.ndarray]:
    return [np.full((1, 4), i, np.float32) for i in range(count)]


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[penstock.Serving]:
    with penstock.serve({"m": model}, listen="127.0.0.1:0") as serving:
        yield serving


@pytest.fixture
def far(server: penstock.Serving) -> Iterator[penstock.Pipeline]:
    with penstock.connect(server.grpc, "m") as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
def expected(model: Path) -> list[list[np.ndarray]]:
    with penstock.split(model) as here:
        return [here(frame) for frame in frames(30)]


def same(found: list, expected: list) -> bool:
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


def test_its_inputs_and_outputs_are_the_models(far: penstock.Pipeline, model: Path) -> None:
    with penstock.split(model) as here:
        assert far.get_inputs() == here.get_inputs()
        assert far.get_outputs() == here.get_outputs()


def test_it_runs_streams_and_submits_as_every_pipeline(far: penstock.Pipeline, expected: list) -> None:
    name = far.get_inputs()[0].name
    assert same(far.run(None, {name: frames(2)[1]}), expected[1])
    assert all(same(list(frame.outputs), each) for frame, each in zip(far.stream(frames(30)), expected, strict=True))
    found = [far.submit(frame) for frame in frames(30)]
    assert all(same(list(future.result(60).outputs), each) for future, each in zip(found, expected, strict=True))


def test_a_sockets_file_may_be_the_server_and_goes_with_it(model: Path, tmp_path: Path, expected: list) -> None:
    address = f"unix:{tmp_path}/s.sock"
    with penstock.serve({"m": model}, listen=address) as server:
        assert server.grpc == address
        for named in ("m", ""):
            with penstock.connect(address, named) as far:
                name = far.get_inputs()[0].name
                assert same(far.run(None, {name: frames(2)[1]}), expected[1])
    assert not list(tmp_path.iterdir())
    with pytest.raises(penstock.Unavailable, match="nobody listens there: start it, or mend the path"):
        penstock.connect(address, "m")


def test_a_name_behind_a_sockets_file_is_told(model: Path, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s.sock"
    with (
        penstock.serve({"m": model}, listen=address),
        pytest.raises(penstock.Unavailable, match="its path goes on behind a file: give the path of the socket's file"),
    ):
        penstock.connect(f"{address}/m")


def test_it_runs_asynchronously(far: penstock.Pipeline, expected: list) -> None:
    async def run() -> list:
        return [list(frame.outputs) async for frame in far.astream(frames(30))]

    assert all(map(same, asyncio.run(run()), expected))


def test_the_only_model_needs_no_name(server: penstock.Serving, expected: list) -> None:
    with penstock.connect(server.grpc) as far:
        assert same(far(frames(4)[3]), expected[3])


def test_several_models_need_one(model: Path) -> None:
    with penstock.serve({"a": model, "b": model}, listen="127.0.0.1:0") as server:
        with pytest.raises(penstock.InvalidArgument, match="2 models, 'a', 'b': name one"):
            penstock.connect(server.grpc)
        with pytest.raises(penstock.NotFound, match="c"):
            penstock.connect(server.grpc, "c")


def test_an_address_at_which_nobody_listens_is_told_and_no_more() -> None:
    with pytest.raises(penstock.Unavailable, match=r"nobody listens there: start it, .* \(connection refused\)$"):
        penstock.connect("127.0.0.1:1")


def test_a_version_may_be_named(model: Path, expected: list) -> None:
    with (
        penstock.serve({"m": model, "m:2": model}, listen="127.0.0.1:0") as server,
        penstock.connect(server.grpc, "m", version="2") as far,
    ):
        assert same(far(frames(1)[0]), expected[0])


def test_one_that_stands_by_takes_over(model: Path, expected: list) -> None:
    with (
        penstock.serve({"m": model}, listen="127.0.0.1:0") as second,
        penstock.serve({"m": model}, listen="127.0.0.1:0") as first,
        penstock.connect(first.grpc, "m", standby=second.grpc, idempotent=True) as far,
    ):
        assert same(far(frames(1)[0]), expected[0])
        first.close()
        assert same(far(frames(2)[1]), expected[1])


def test_one_that_leaves_while_it_is_asked_loses_no_frame(model: Path) -> None:
    """It goes on answering that it leaves, in a stream that stays open."""
    with (
        penstock.serve({"m": model}, listen="127.0.0.1:0") as second,
        penstock.serve({"m": model}, listen="127.0.0.1:0") as first,
        penstock.connect(first.grpc, "m", standby=second.grpc, idempotent=True) as far,
    ):
        far(frames(1)[0])
        leaving = threading.Thread(target=first.close)
        leaving.start()
        while leaving.is_alive():
            far(frames(1)[0])
        leaving.join()


def test_it_says_where_nobody_listens() -> None:
    with pytest.raises(penstock.Unavailable, match="127.0.0.1:1"):
        penstock.connect("127.0.0.1:1", "m")


def test_what_makes_no_sense_is_refused(server: penstock.Serving) -> None:
    with pytest.raises(penstock.InvalidArgument, match="host:port"):
        penstock.connect("nowhere", "m")
    with pytest.raises(penstock.InvalidArgument, match="speed"):
        penstock.connect(server.grpc, "m", options={"speed": "high"})


def test_files_of_the_way_there_are_this_sides_own(model: Path, tmp_path: Path, expected: list) -> None:
    line = [find_program(), "token", "robot", "--rights", "infer"]
    made = subprocess.run(line, capture_output=True, text=True, check=True)
    (tmp_path / "tokens").write_text(made.stdout)
    (tmp_path / "token").write_text(re.search(r"[A-Za-z0-9_-]{40,}", made.stderr)[0] + "\n")
    (tmp_path / "unknown").write_text("unknown\n")
    with penstock.serve({"m": model}, listen="127.0.0.1:0", tokens=tmp_path / "tokens") as asks:
        with penstock.connect(asks.grpc, "m", options={"token_file": tmp_path / "token"}) as far:
            assert same(far(frames(1)[0]), expected[0])
        for options in {"token_file": tmp_path / "unknown"}, {}:
            with pytest.raises(penstock.PenstockError, match="token"):
                penstock.connect(asks.grpc, "m", options=options)
    with pytest.raises(penstock.NotFound, match="nowhere"):
        penstock.connect(asks.grpc, "m", options={"token_file": tmp_path / "nowhere"})


def test_what_lies_in_the_current_folder_is_no_part_of_its_package(
    far: penstock.Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    (here / "private").mkdir(parents=True)
    (here / "private" / "notes.txt").write_text("mine")
    monkeypatch.chdir(here)
    far.save(tmp_path / "far.penstock")
    assert [file.name for file in (tmp_path / "far.penstock").iterdir()] == ["plan.json"]
    far.save("far.zip")
    assert sorted(file.name for file in here.iterdir()) == ["far.zip", "private"]
    assert far.verify(frames=2)["verdict"] == "right"
    with penstock.load(tmp_path / "far.penstock") as again:
        assert again.get_inputs() == far.get_inputs()


def test_a_package_is_not_saved_into_itself(model: Path, tmp_path: Path) -> None:
    package = tmp_path / "line.penstock"
    penstock.split(model, output=package).shut_down()
    with penstock.load(package) as pipeline:
        with pytest.raises(penstock.InvalidArgument, match=r"inner\.penstock': lies inside the package"):
            pipeline.save(package / "inner.penstock")
        (package / "notes.txt").write_text("not of the package")
        pipeline.save(tmp_path / "copy.penstock")
        with pytest.raises(penstock.AlreadyExists, match=r"has 'notes\.txt', which is no file of the package"):
            pipeline.save(package)
        (package / "notes.txt").unlink()
        pipeline.save(package)
    assert not (tmp_path / "copy.penstock" / "notes.txt").exists()
    for saved in (package, tmp_path / "copy.penstock"):
        penstock.load(saved).shut_down()
