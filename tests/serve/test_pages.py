"""What pages of strangers make a browser send to `penstock serve` and `worker` over HTTP, and what programs send."""

import http.client
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from onnx import helper
from servers import SECONDS, Server, find_program, save, value

INFER = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [-1, 2]}]}
LOAD, UNLOAD = (f"/v2/repository/models/abs/{verb}" for verb in ("load", "unload"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    node = helper.make_node("Abs", ["x"], ["y"])
    return str(save(tmp_path_factory.mktemp("model") / "abs.onnx", [node], [value("x", [2])], [value("y", [2])]))


class Asking:
    """Sends what a page may send without asking first, besides the headers that are given."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.address = server.http_address()
        self.port = self.address.rpartition(":")[2]

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", int(self.port), timeout=SECONDS)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "text/plain", **headers})
        answer = connection.getresponse()
        told = answer.status, answer.read().decode()
        connection.close()
        return told


@pytest.fixture(scope="module", params=["serve", "worker"])
def server(request: pytest.FixtureRequest, model: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    cache = ["--cache", str(tmp_path_factory.mktemp("cache"))]
    given = {"serve": [model], "worker": cache}[request.param]
    started = Server(*given, "--http", "127.0.0.1:0", command=request.param)
    yield Asking(started)
    assert started.end() == 0


def test_a_page_of_a_stranger_changes_nothing(server: Asking) -> None:
    for origin in ("http://evil.example", "null", f"http://evil.example:{server.port}", "http://127.0.0.1:1"):
        for path in (LOAD, UNLOAD, "/v2/models/abs/infer", "/v2/repository/index"):
            status, error = server.ask("POST", path, {}, Origin=origin)
            assert status == 403, (origin, path, error)
            assert f"found one of a page of '{origin}'" in json.loads(error)["error"]
    assert server.ask("GET", "/v2", Origin="http://evil.example")[0] == 200  # Which the page may not read.


def test_a_name_that_was_made_to_lead_here_is_refused(server: Asking) -> None:
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "unix:80"):
        for method, path in (("POST", UNLOAD), ("GET", "/v2"), ("GET", "/metrics")):
            status, error = server.ask(method, path, {} if method == "POST" else None, Host=host)
            assert status == 403, (host, path, error)
            assert f"found one for '{host}'" in json.loads(error)["error"]
    assert server.ask("GET", "/v2/health/live", Host="evil.example")[0] == 200


def test_programs_of_this_machine_are_answered(server: Asking) -> None:
    names = [f"{name}:{server.port}" for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]")]
    for host in [*names, "localhost"]:
        assert server.ask("POST", "/v2/repository/index", {}, Host=host)[0] == 200
        assert server.ask("POST", "/v2/repository/index", {}, Host=host, Origin=f"http://{host}")[0] == 200


def test_who_shows_a_token_may_come_from_a_page(model: str, tmp_path: Path) -> None:
    command = [str(find_program()), "token", "me", "--rights", "infer,load"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    (tmp_path / "tokens").write_text(made.stdout)
    shown = "Bearer " + made.stderr.removeprefix("token: ").strip()
    started = Server(model, "--tokens", str(tmp_path / "tokens"), "--http", "127.0.0.1:0")
    server = Asking(started)
    page = {"Host": "models.example", "Origin": "https://models.example"}
    assert server.ask("POST", LOAD, {}, Authorization=shown, **page)[0] == 200
    assert server.ask("POST", "/v2/models/abs/infer", INFER, Authorization=shown, **page)[0] == 200
    assert server.ask("POST", LOAD, {}, Authorization="Bearer guessed", **page)[0] == 401
    assert server.ask("POST", LOAD, {}, **page)[0] == 403
    assert started.end() == 0


def test_a_server_of_other_machines_too_is_asked_by_its_name(model: str) -> None:
    started = Server(model, "--http", "0.0.0.0:0", "--insecure", listen="0.0.0.0:0")
    server = Asking(started)
    host = f"machine.example:{server.port}"
    assert server.ask("POST", "/v2/models/abs/infer", INFER, Host=host)[0] == 200
    assert server.ask("POST", UNLOAD, {}, Host=host, Origin="http://evil.example")[0] == 403
    # Its own name, or one that was made to lead here: nobody can tell.
    assert server.ask("POST", UNLOAD, {}, Host=host, Origin=f"http://{host}")[0] == 403
    assert server.ask("POST", "/v2/models/abs/infer", INFER, Host=host)[0] == 200
    assert started.end() == 0
