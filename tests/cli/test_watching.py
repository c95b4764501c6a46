"""Pipelines that others look at while they run: --metrics, --page, --record and top."""

import http.server
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def started(program: Path, *arguments: str):
    """`penstock ARGUMENTS`, and what it says on standard error until it tells where it is to be seen."""
    process = subprocess.Popen(
        [program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address_of(process: subprocess.Popen, what: str) -> str:
    for line in process.stderr:
        if found := re.search(rf"{what} at (http://\S+)", line):
            return found[1]
    raise AssertionError(f"it ended with {process.wait()}, and told no address")


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


@pytest.fixture
def line_package(well, chain, tmp_path):
    """Two stages."""
    well("split", chain, "--cut", "relu1", "-o", "line.penstock")
    return tmp_path / "line.penstock"


@pytest.fixture
def endless(program, line_package):
    """A pipeline that runs until the test ends, with its figures at the address."""
    with started(
        program, "run", line_package, "--frames", "100000000", "--rate", "200", "--metrics", "127.0.0.1:0"
    ) as process:
        yield address_of(process, "metrics")


def test_figures_of_a_running_pipeline(endless):
    names = {line.split("{")[0].split(" ")[0] for line in read(endless).splitlines() if not line.startswith("#")}
    assert {"penstock_frames", "penstock_stage_frames", "penstock_edge_depth", "process_cpu_seconds_total"} <= names
    before = re.search(r"penstock_pushed_frames\{.*\} (\d+)", read(endless))[1]
    while re.search(r"penstock_pushed_frames\{.*\} (\d+)", read(endless))[1] == before:
        pass


def test_each_expression_of_the_dashboard_names_figures_that_are_exported(endless):
    text = read(endless)
    labels: dict[str, set[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition("{")
            labels.setdefault(name.split(" ")[0], set()).update(re.findall(r'(\w+)="', rest))
    board = json.loads((ROOT / "packaging/grafana.json").read_text())
    targets = [target for panel in board["panels"] for target in panel["targets"]]
    assert len(targets) > 8
    for target in targets:
        used = re.findall(r"\b((?:penstock|process)_\w+)(?:\{([^}]*)\})?", target["expr"])
        assert used, target
        for name, matchers in used:
            assert name in labels, target["expr"]
            assert set(re.findall(r'(\w+)(?:=~|!=|=)"', matchers)) <= labels[name], target["expr"]
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) - {"instance"}
            assert shown <= labels[name], target
    variable = next(one for one in board["templating"]["list"] if one["name"] == "model")
    name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
    assert label in labels[name]


def test_nothing_leaves_this_machine_unasked(penstock, line_package):
    refused = penstock("run", line_package, "--metrics", "0.0.0.0:0")
    assert refused.code == 1
    assert "--metrics" in refused.error and "--insecure" in refused.error


def test_an_address_that_is_taken_is_told(program, penstock, line_package, endless):
    taken = endless.removeprefix("http://").removesuffix("/metrics")
    refused = penstock("bench", line_package, "--seconds", "1", "--metrics", taken)
    assert refused.code == 1
    assert taken in refused.error


def test_a_page_and_figures_at_one_address_are_refused(penstock, line_package):
    refused = penstock("run", line_package, "--page", "127.0.0.1:8076", "--metrics", "127.0.0.1:8076")
    told = "--metrics: --page serves them already, at http://127.0.0.1:8076/metrics: leave --metrics out, or give"
    assert refused.error.startswith(told)


def test_bench_has_figures_too(program, line_package):
    with started(program, "bench", line_package, "--seconds", "20", "--metrics", "127.0.0.1:0") as process:
        assert "penstock_stage_frames{" in read(address_of(process, "metrics"))


def test_strangers_are_refused(endless):
    request = urllib.request.Request(endless, headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 403


@pytest.fixture
def shown(program, line_package):
    """A pipeline that runs until the test ends, with its page at the address."""
    arguments = ["--frames", "100000000", "--rate", "200", "--page", "127.0.0.1:0"]
    with started(program, "run", line_package, *arguments) as process:
        yield process, address_of(process, "page")


def test_the_page_is_served(shown):
    page = read(shown[1])
    assert '<script id="program">' in page and '"live":true' in page
    assert "penstock_frames" in read(shown[1] + "metrics")


def test_an_address_behind_page_is_optional_and_nothing_else(penstock, line_package):
    refused = penstock("run", "--page", line_package, "--frames", "1")
    assert refused.code == 2
    assert "HOST:PORT" in refused.error and "--page behind all else" in refused.error


def test_top_prints_one_snapshot_without_a_terminal(shown, well):
    _, address = shown
    while "frames a second" not in (text := well("top", address, "--once").out):
        assert "nothing was seen yet" in text
    for expected in ["frames a second", "stage0", "input -> stage0", "processors in use", "cpu "]:
        assert expected in text
    snapshot = well("top", address, "--once", "--json").json
    assert [stage["name"] for stage in snapshot["about"]["stages"]] == ["stage0", "stage1"]
    assert snapshot["sample"] is None or snapshot["sample"]["errors"] == 0


def test_top_goes_on_until_the_end(shown, program):
    process, address = shown
    with started(program, "top", address, "--json", "--interval", "0.1") as top:
        counts = [json.loads(top.stdout.readline())["sample"] for _ in range(3)]
        assert all(sample is None or sample["n"] > 0 for sample in counts)
        process.send_signal(signal.SIGINT)
        assert top.wait(60) == 0
        assert "it has ended" in top.stderr.read()


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_top_ends_where_nobody_reads_on(shown, program, form):
    """Also where its parent has it ignore the signal for that."""
    shell = ["sh", "-c", 'trap "" PIPE; "$@" | head -c 10', "sh"]
    command = [*shell, program, "top", shown[1], "--interval", "0.1", *form]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert len(done.stdout) == 10
    assert done.stderr == "penstock: error: standard output: cannot be written: Broken pipe\n"


def test_top_tells_a_loss_from_an_end(shown, program):
    process, address = shown
    with started(program, "top", address, "--json", "--interval", "0.1") as top:
        top.stdout.readline()
        process.kill()
        assert top.wait(60) == 1
        assert "the connection was lost" in top.stderr.read()


def test_top_hears_of_an_end_that_comes_while_it_reads_a_snapshot(program):
    """A server that ends when it is asked for the second one."""
    at_end = threading.Event()
    snapshots = []

    class Ending(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/snapshot":
                snapshots.append(self.path)
                if len(snapshots) > 1:
                    at_end.set()
                    return
            self.send_response(200)
            self.end_headers()
            if self.path == "/snapshot":
                self.wfile.write(b'{"about": {}, "sample": {"closed": null}}')
                return
            self.wfile.write(b"retry: 1000\n\n")
            assert at_end.wait(60)
            self.wfile.write(b"event: end\ndata: {}\n\n")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ending) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with started(program, "top", f"127.0.0.1:{server.server_address[1]}", "--json", "--interval", "0.1") as top:
                _, error = top.communicate(timeout=60)
        finally:
            at_end.set()
            server.shutdown()
    assert top.returncode == 0 and "it has ended" in error


def test_top_says_that_too_many_look_on(shown, penstock):
    host, port = shown[1].removeprefix("http://").strip("/").split(":")
    with ExitStack() as onlookers:
        for _ in range(64):
            onlooker = onlookers.enter_context(socket.create_connection((host, int(port)), timeout=60))
            onlooker.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert onlooker.recv(15) == b"HTTP/1.1 200 OK"
        outcome = penstock("top", f"{host}:{port}", "--once")
    assert outcome.code == 1 and "too many connections are open" in outcome.error


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, {"about": {}, "sample": {}}, "expected what a pipeline of this version shows"),
        (200, {"about": {"predicted": 1}, "sample": {"fps": "many"}}, "expected what a pipeline of this version shows"),
        (200, [], "expected a pipeline that runs with --page"),
        (403, {"error": 5}, "refused"),
    ],
)
def test_top_where_the_answer_has_another_form(penstock, status, body, told):
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        outcome = penstock("top", f"127.0.0.1:{server.server_address[1]}", "--once")
        server.shutdown()
    assert outcome.code == 1 and told in outcome.err


def test_top_where_nothing_runs_or_something_else(penstock, endless):
    address = endless.removesuffix("/metrics")
    other = penstock("top", address, "--once")
    assert other.code == 1 and "--page" in other.error
    nobody = penstock("top", "127.0.0.1:1", "--once")
    assert nobody.code == 1 and "127.0.0.1:1" in nobody.error


def test_a_token_opens_the_page(program, line_package, penstock, well, tmp_path):
    made = well("token", "me", "--rights", "admin")
    (tmp_path / "tokens").write_text(made.out)
    (tmp_path / "secret").write_text(re.search(r"token: (\S+)", made.err)[1])
    arguments = ["--frames", "100000000", "--rate", "50", "--page", "127.0.0.1:0", "--tokens", tmp_path / "tokens"]
    with started(program, "run", line_package, *arguments) as process:
        address = address_of(process, "page")
        refused = penstock("top", address, "--once")
        assert refused.code == 1 and "token" in refused.error
        well("top", address, "--once", "--token", "secret")


def test_a_recording_of_a_run(well, line_package, tmp_path):
    well("run", line_package, "--frames", "20", "--record", "run.html")
    text = (tmp_path / "run.html").read_text()
    data = json.loads(text.split('id="live">')[1].split("</script>")[0])
    last = data["samples"][-1]
    assert last["ok"] == 20 and data["about"]["cpus"]
    assert last["closed"] and last["stopped"] is False


@pytest.mark.parametrize("command", [["run", "--frames", "2"], ["bench", "--seconds", "1"]])
def test_a_recording_replaces_no_device(well, line_package, tmp_path, command):
    device, kept = tmp_path / "null", tmp_path / "null.part"
    try:
        os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))  # As /dev/null is.
        device.read_bytes()
    except OSError as error:
        pytest.skip(f"no device can be made here: {error}")
    kept.write_text("of somebody else")
    name, *options = command
    well(name, line_package, *options, "--record", "null")
    assert device.is_char_device() and kept.read_text() == "of somebody else"


@pytest.mark.parametrize("command", [["run", "--frames", "2"], ["bench", "--seconds", "1"]])
def test_a_recording_that_has_no_place_is_told_before_the_run(penstock, line_package, command):
    name, *options = command
    outcome = penstock(name, line_package, *options, "--record", "nowhere/run.html")
    assert outcome.code == 1
    assert "--record 'nowhere/run.html': cannot be written: No such file or directory; make the" in outcome.error
    assert not outcome.out


@pytest.mark.parametrize("guard", ["--tokens=none", "--insecure"])
def test_what_guards_a_page_is_refused_without_one(penstock, line_package, guard):
    outcome = penstock("run", line_package, "--frames", "2", guard)
    assert outcome.code == 1
    assert outcome.error == f"{guard.partition('=')[0]}: is for --page or --metrics, found neither"


@pytest.mark.sweep(of=3)
@pytest.mark.parametrize("command", ["run", "bench"])
def test_a_recording_that_fails_at_the_end_loses_nothing_else(program, line_package, tmp_path, command):
    """Its folder is taken away while frames run."""
    (tmp_path / "gone").mkdir()
    options = {
        "run": ["--frames", "400", "--rate", "50", "--output", tmp_path / "out.npz"],
        "bench": ["--seconds", "8"],
    }
    traced = ["--trace", tmp_path / "trace.json"] if command == "run" else []
    record = ["--record", tmp_path / "gone/run.html", "--page", "127.0.0.1:0"]
    with started(program, command, line_package, *options[command], *traced, *record) as process:
        address_of(process, "page")
        shutil.rmtree(tmp_path / "gone")
        out, error = process.communicate(timeout=300)
    assert process.returncode == 1 and "gone/run.html" in error
    assert "frames/s" in out or "frames a second" in out
    if command == "run":
        assert (tmp_path / "out.npz").exists() and (tmp_path / "trace.json").exists()


def test_random_frames_with_a_page_run_until_they_are_interrupted(program, line_package):
    with started(program, "run", line_package, "--rate", "2000", "--page", "127.0.0.1:0") as process:
        address = address_of(process, "page")
        while (sample := json.loads(read(address + "snapshot"))["sample"]) is None or sample["ok"] < 300:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 130 and "(interrupted)" in out
