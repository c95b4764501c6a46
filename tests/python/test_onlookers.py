"""Pipelines that others look at while they run."""

import json
import os
import shutil
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import penstock


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def events(url: str) -> Iterator[tuple[str, dict]]:
    """Server-sent events as they come."""
    with urllib.request.urlopen(url, timeout=60) as stream:
        kind = ""
        for line in stream:
            name, _, value = line.decode().strip().partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)


def frame() -> np.ndarray:
    return np.ones((1, 4), np.float32)


def test_metrics_until_closed(pipeline: penstock.Pipeline) -> None:
    with pipeline.serve_metrics() as watching:
        pipeline(frame())
        text = read(f"{watching.url}metrics")
        assert 'outcome="ok"} 1' in text and "penstock_latency_seconds_count" in text
        assert watching.address in repr(watching)
        with pytest.raises(urllib.error.HTTPError):
            read(watching.url)  # There is no page.
    assert "closed" in repr(watching)
    with pytest.raises(urllib.error.URLError):
        read(f"{watching.url}metrics")
    watching.close()
    pipeline(frame())  # It goes on.


def test_the_page_tells_what_comes(pipeline: penstock.Pipeline) -> None:
    with pipeline.serve_page() as watching:
        assert '<script id="program">' in read(watching.url)
        snapshot = json.loads(read(f"{watching.url}snapshot"))
        assert [stage["name"] for stage in snapshot["about"]["stages"]] == ["stage0", "stage1"]
        pipeline(frame())
        told = events(f"{watching.url}events")
        kind, about = next(told)
        assert kind == "about" and about["generation"] == 1
        sample = next(data for kind, data in told if kind == "sample" and data["ok"] == 1)
        assert (
            sample["closed"] is None
            and not sample["stopped"]
            and len(sample["stages"]) == 2
            and len(sample["edges"]) == 3
        )
        assert all(0 <= stage["load"] <= 1 for stage in sample["stages"])
        assert sample["rss"] > 1e6
        pipeline.shut_down()
        assert next(data for kind, data in told if kind == "sample" and data["closed"])["ok"] == 1
        watching.close()
        assert [kind for kind, _ in told][-1] == "end"


def test_a_page_that_comes_back_gets_what_it_missed(pipeline: penstock.Pipeline) -> None:
    with pipeline.serve_page() as watching:
        told = (data for kind, data in events(f"{watching.url}events") if kind == "sample")
        first = next(told)["n"]
        last = next(data for data in told if data["n"] >= first + 2)["n"]
        again = (data for kind, data in events(f"{watching.url}events?after={first}") if kind == "sample")
        assert [next(again)["n"] for _ in range(last - first)] == list(range(first + 1, last + 1))


def test_failures_name_stage_and_frame() -> None:
    def refuse(x: np.ndarray) -> np.ndarray:
        if x[0, 0] == 7:
            raise ValueError("seven is <not> liked")
        return x

    app = penstock.App()
    app.input("x")
    app.function("refuse", refuse, {"x": "f32[1,4]"}, {"y": "f32[1,4]"})
    app.connect("x", "refuse.x")
    app.output("y", "refuse.y")
    with app.start() as running, running.serve_page() as watching:
        running(frame())
        with pytest.raises(penstock.PenstockError):
            running(7 * frame())
        failure = next(
            data["failures"][0]
            for kind, data in events(f"{watching.url}events")
            if kind == "sample" and data["failures"]
        )
        assert failure["frame"] == 1 and "seven is <not> liked" in failure["message"] and failure["stage"]
        (kept,) = json.loads(read(f"{watching.url}snapshot"))["failures"]
        assert kept == failure


def test_another_plan_begins_anew(pipeline: penstock.Pipeline, model: Path, tmp_path: Path) -> None:
    with penstock.split(model) as other:
        other.save(tmp_path / "other.penstock")
    with pipeline.serve_page() as watching:
        told = events(f"{watching.url}events")
        assert next(told)[1]["generation"] == 1
        pipeline.replace(tmp_path / "other.penstock")
        assert next(data for kind, data in told if kind == "about")["generation"] == 2
        assert len(next(data for kind, data in told if kind == "sample")["stages"]) == 1


def test_a_page_without_an_address_needs_a_recording(pipeline: penstock.Pipeline) -> None:
    with pytest.raises(penstock.InvalidArgument, match="address=None: expected HOST:PORT, or record="):
        pipeline.serve_page(None)


def test_a_recording_is_a_page(pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    with pipeline.serve_page(None, record=file):
        pipeline(frame())
    text = file.read_text()
    begin = text.index('id="live">') + len('id="live">')
    data = json.loads(text[begin : text.index("</script>", begin)])
    assert data["live"] is False and data["samples"][-1]["ok"] == 1
    assert list(tmp_path.glob("*.part")) == []


def test_a_recording_that_cannot_be_written_is_an_error(pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere/run.html': cannot be written: No such file or directory"):
        pipeline.serve_page(None, record=tmp_path / "nowhere" / "run.html")
    (tmp_path / "gone").mkdir()
    watching = pipeline.serve_page(None, record=tmp_path / "gone" / "run.html")
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(penstock.NotFound, match="gone"):
        watching.close()


def test_a_recording_goes_where_a_link_leads(pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    link, target = tmp_path / "link.html", tmp_path / "target.html"
    target.write_text("<!doctype html>old")
    link.symlink_to("target.html")
    watching = pipeline.serve_page(None, record=link)
    assert target.read_text() == "<!doctype html>old"
    watching.close()
    assert link.is_symlink() and 'id="live">' in target.read_text()
    assert sorted(tmp_path.iterdir()) == [link, target]


def test_a_recording_into_a_pipe_is_read_from_it(pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    watching = pipeline.serve_page(None, record=pipe)  # It does not wait for a reader.
    reader.start()
    watching.close()
    reader.join(60)
    assert 'id="live">' in heard[0]
    assert list(tmp_path.iterdir()) == [pipe] and pipe.is_fifo()


def test_a_recording_does_not_replace_a_socket(pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(penstock.PermissionDenied, match="socket': cannot be written: it is a socket"):
            pipeline.serve_page(None, record=tmp_path / "socket")
    assert (tmp_path / "socket").is_socket()


def test_only_this_machine_may_look_unless_told(pipeline: penstock.Pipeline) -> None:
    with pytest.raises(penstock.PermissionDenied, match="insecure=True"):
        pipeline.serve_page("0.0.0.0:0")
    pipeline.serve_page("0.0.0.0:0", insecure=True).close()
    with pytest.raises(penstock.InvalidArgument, match="HOST:PORT"):
        pipeline.serve_metrics("here")
