"""What a person sees on a terminal: bars that fit it and stand apart from lines, and `top` at any width."""

import contextlib
import fcntl
import http.server
import json
import os
import pty
import re
import struct
import subprocess
import termios
import threading

import pytest

WIDTHS = [20, 40, 59, 80, 200]


class Screen:
    """What stands on a terminal after some output. A line that is longer than the terminal is an error."""

    def __init__(self, columns: int):
        self.columns, self.lines, self.at = columns, [""], 0

    def take(self, told: str) -> list[str]:
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[^\x1b]", told):
            if part == "\r":
                self.at = 0
            elif part == "\n":
                self.lines.append("")
            elif part == "\x1b[K":
                self.lines[-1] = self.lines[-1][: self.at]
            elif part == "\x1b[2J":
                self.lines, self.at = [""], 0
            elif part != "\x1b[H":
                assert self.at < self.columns, f"wraps at {self.columns}: {self.lines[-1]!r}"
                self.lines[-1] = self.lines[-1][: self.at] + part + self.lines[-1][self.at + 1 :]
                self.at += 1
        return self.lines


@pytest.fixture
def on_terminal(program, tmp_path):
    """Runs the program on a terminal of so many columns, until it ends or has told what `until` looks for."""

    def run(columns, *arguments, rows=100, kind="xterm", output=True, until=None) -> str:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        out = theirs if output else subprocess.DEVNULL
        command = [str(program), *map(str, arguments)]
        env = os.environ | {"TERM": kind}
        with subprocess.Popen(command, stdout=out, stderr=theirs, cwd=tmp_path, env=env) as process:
            os.close(theirs)
            told = b""
            with contextlib.suppress(OSError):  # The terminal's end.
                while (part := os.read(ours, 4096)) and not (until and until(told.decode(errors="replace"))):
                    told += part
            if until:
                process.kill()
        os.close(ours)
        assert until or process.returncode == 0, told
        return told.decode()

    return run


@pytest.fixture
def plate(well, chain, tmp_path):
    well("split", chain, "--cut", "1", "-o", "p.penstock")
    return tmp_path / "p.penstock"


@pytest.mark.parametrize(
    ("columns", "command"),
    [
        (20, ["run", "--rate", 100, "--frames", 30]),
        (59, ["run", "--rate", 100, "--frames", 30]),
        (20, ["bench", "--seconds", 0.3]),
        (20, ["verify"]),
    ],
    ids=["run-20", "run-59", "bench", "verify"],
)
def test_no_bar_wraps(on_terminal, plate, columns, command):
    told = on_terminal(columns, command[0], plate, *command[1:], output=False)
    assert f"\r{command[0]}  " in told
    assert Screen(columns).take(told)[-1] == ""  # It is wiped.


def test_a_bar_is_as_long_as_there_is_room(on_terminal, plate):
    bars = {}
    for columns in WIDTHS:
        told = on_terminal(columns, "run", plate, "--rate", 100, "--frames", 20, output=False)
        bars[columns] = max(map(len, re.findall(r"\[[= ]*\]", told)), default=0)
        assert "/20 frames" in told or columns == 20
    assert bars == {20: 0, 40: 21, 59: 32, 80: 32, 200: 32}


def test_lines_of_frames_stand_apart_from_the_bar(on_terminal, plate):
    told = on_terminal(1000, "run", plate, "--rate", 100, "--frames", 30, "--output", "-")
    assert "\rrun  [" in told
    lines = Screen(100_000).take(told)
    frames = [json.loads(line) for line in lines if '"frame"' in line]
    assert [frame["frame"] for frame in frames] == list(range(30))
    assert not any("run  [" in line for line in lines)


@pytest.mark.sweep(of=6)
@pytest.mark.usefixtures("own_costs")
def test_what_is_said_meanwhile_and_at_the_end_stands_apart_from_the_bar(on_terminal, chain):
    told = on_terminal(40, "build", chain, "--budget", 1, "-o", "built.penstock", "-v")
    assert max(map(len, re.findall(r"\r(build  .*?)\x1b", told))) < 40
    lines = Screen(100_000).take(told)  # A sentence may be longer than a line.
    assert not any("build  " in line for line in lines)
    assert any(line.startswith("written to 'built.penstock'") for line in lines)


@pytest.mark.parametrize(
    "command", [["run", "--rate", 100, "--frames", 30, "--output", "-"], ["bench", "--seconds", 0.3]]
)
def test_a_dumb_terminal_gets_no_escape_codes(on_terminal, plate, command):
    told = on_terminal(80, command[0], plate, *command[1:], kind="dumb")
    assert told and "\x1b" not in told
    assert "\r" not in told.replace("\r\n", "\n")


@pytest.fixture
def shown_at():
    """The address of a page of a pipeline with names that are long and as wide as can be."""
    stage = {"load": 0.5, "frames": 123456789, "errors": 3, "drops": 4, "queue_us": [1.5, 2.5],
             "infer_us": [3.5, 4.5], "drift": [1.43, True]}  # fmt: skip
    about = {
        "model": "a model with a name of several words.onnx",
        "predicted": {"period_seconds": 0.001},
        "stages": [{"name": name, "backend": "onnxruntime", "devices": ["cpu:0", "cpu:1"]} for name in ("検出", "two")],
        "edges": [{"name": "input -> a_stage_with_a_name_without_spaces", "capacity": 8, "policy": "wait"}],
        "cpus": [0, 1],
    }
    sample = {
        "fps": 412.3, "latency_us": [1.5, 2.5, 3.5, 4.5], "ok": 1, "errors": 2, "drops": 3, "cancelled": 4,
        "in_flight": 5, "rss": 1 << 30, "cpu": 1.5, "closed": "it was closed by its user", "stages": [stage, stage],
        "edges": [{"depth": 4, "drops": 2}], "cpus": [0.5, 1.0],
    }  # fmt: skip
    answer = {"about": about, "sample": sample, "failures": [{"message": "stage 'two': frame 7: " + "cannot be " * 9}]}

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def twice(told: str) -> bool:
    return told.count("\x1b[2J") > 2


def looks(told: str) -> list[str]:
    """What `top` wrote each time it began in the corner again; the last one may be a part."""
    return told.split("\x1b[H\x1b[2J")[1:-1]


@pytest.mark.parametrize("columns", WIDTHS)
def test_top_fits_the_terminal(on_terminal, shown_at, columns):
    look = looks(on_terminal(columns, "top", shown_at, "--interval", 0.05, until=twice))[0]
    lines = Screen(columns).take(look)
    words = " ".join(" ".join(lines).split())
    for expected in ["412.3 frames a", "検出", "123456789", "beyond the", "of 8", "cpu 1", "100 %"]:
        assert expected in words
    assert Screen(columns).take(on_terminal(columns, "top", shown_at, "--once")) == lines


@pytest.mark.parametrize("rows", [3, 10, 24])
def test_top_stays_in_its_place_on_a_low_terminal(on_terminal, shown_at, rows):
    look = looks(on_terminal(40, "top", shown_at, "--interval", 0.05, rows=rows, until=twice))[0]
    assert look.count("\n") == rows - 1
    assert look.startswith("model 'a model")
    assert re.search(r"\(\d+ more lines\)\r\n$", look)


def test_top_on_a_dumb_terminal_writes_one_look_behind_the_other(on_terminal, shown_at):
    told = on_terminal(80, "top", shown_at, "--interval", 0.05, kind="dumb", until=lambda t: t.count("cpu 1") > 2)
    assert "\x1b" not in told
