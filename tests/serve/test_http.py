"""penstock serve over HTTP, as unchanged clients see it: clients/http_client.py in its own environment, and curl."""

import base64
import http.client
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from servers import SECONDS, find_program, run_client, save, value


def save_models(folder: Path) -> list[str]:
    """What each is for is said in clients/http_client.py."""
    nodes = [helper.make_node("Add", ["x", "one"], ["sum"]), helper.make_node("Mul", ["x", "three"], ["product"])]
    weights = {"one": np.array(1, np.float32), "three": np.array(3, np.float32)}
    outputs = [value("sum", [2, 4]), value("product", [2, 4])]
    save(folder / "add.onnx", nodes, [value("x", [2, 4])], outputs, **weights)
    same = [helper.make_node("Identity", ["x"], ["y"])]
    for name, dtype in {"text": TensorProto.STRING, "half": TensorProto.FLOAT16}.items():
        save(folder / f"{name}.onnx", same, [value("x", [3], dtype)], [value("y", [3], dtype)])
    save(folder / "open.onnx", same, [value("x", ["n", 2])], [value("y", ["n", 2])])
    weight = np.eye(1500, dtype=np.float32)
    chain = [helper.make_node("MatMul", [f"x{i}" if i else "x", "w"], [f"x{i + 1}"]) for i in range(8)]
    chain.append(helper.make_node("Identity", ["x8"], ["y"]))
    save(folder / "slow.onnx", chain, [value("x", [1500, 1500])], [value("y", [1500, 1500])], w=weight)
    running = [helper.make_node("Add", ["x", "before"], ["total"]), helper.make_node("Identity", ["total"], ["sum"])]
    outputs = [value("total", [2]), value("sum", [2])]
    save(folder / "running.onnx", running, [value("x", [2]), value("before", [2])], outputs)
    made = folder / "running.penstock"
    run = [find_program(), "split", folder / "running.onnx", "--state", "total=before", "-o", made]
    subprocess.run(run, check=True, capture_output=True)
    return [*(f"{folder / name}.onnx" for name in ("add", "text", "half", "open", "slow")), str(made)]


class Server:
    def __init__(self, *arguments: str, one_pipe: bool = False) -> None:
        addresses = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        self.errors = tempfile.TemporaryFile("w+")  # A pipe that nobody reads would lose what it says.
        command = ["env", "--default-signal=HUP", str(find_program()), "serve", *addresses, *arguments]
        stderr = subprocess.STDOUT if one_pipe else self.errors
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.address = self._address()

    def _address(self) -> str:
        for line in self.process.stdout:
            if found := re.fullmatch(r"penstock: gRPC on (\S+)\n", line):
                self.grpc = found[1]
            if found := re.fullmatch(r"penstock: HTTP on (\S+)\n", line):
                return found[1]
        raise AssertionError(self.said())

    def said(self) -> str:
        """What it wrote to the standard error."""
        self.errors.seek(0)
        return self.errors.read()

    def client(self, case: str, *arguments: str) -> None:
        """Runs the case, which must end well."""
        run_client("http_client.py", self.address, case, *arguments, case=case)

    def curl(self, path: str, *arguments: str, scheme: str = "http", data: str = "") -> tuple[int, str]:
        """The status and the body; 0 and what curl says where there was no answer. `-d @-` sends the data."""
        if shutil.which("curl") is None:
            pytest.skip("no curl")
        command = ["curl", "-sS", "-w", "\n%{http_code}", *arguments, f"{scheme}://{self.address}{path}"]
        done = subprocess.run(command, input=data, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode != 0:
            return 0, done.stderr
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=SECONDS)
        return self.process.returncode


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def server(models: list[str]) -> Iterator[Server]:
    server = Server(*models)
    yield server
    assert server.end() == 0


CASES = [
    "tells_of_itself",
    "infers",
    "infers_asynchronously",
    "carries_all_types",
    "reads_packed_bodies",
    "reads_bodies_of_bytes",
    "says_what_is_wrong",
    "has_sequences",
    "counts",
    "shares_memory",
    "loads",
]


@pytest.mark.parametrize("case", CASES)
def test_clients(server: Server, models: list[str], case: str) -> None:
    server.client(case, models[0])


def save_counter(folder: Path) -> Path:
    """total = before + x * gain: a state, and an input that never changes; names that hold ':'."""
    nodes = [helper.make_node("Mul", ["x", "gain:0"], ["scaled"]), helper.make_node("Add", ["scaled", "h:0"], ["h:1"])]
    nodes.append(helper.make_node("Identity", ["h:1"], ["sum"]))
    inputs = [value(name, [2]) for name in ("x", "gain:0", "h:0")]
    return save(folder / "counter.onnx", nodes, inputs, [value("h:1", [2]), value("sum", [2])])


def test_a_model_is_served_with_bound_inputs_and_states(tmp_path: Path) -> None:
    model = save_counter(tmp_path)
    np.save(tmp_path / "gain.npy", np.array([2, 2], np.float32))
    np.save(tmp_path / "first.npy", np.array([100, 100], np.float32))
    settings = [
        *("--constant", f"a:gain:0={tmp_path / 'gain.npy'}", "--state", f"a:h:1=h:0:{tmp_path / 'first.npy'}"),
        *("--constant", "b:2:gain:0=[3,3]", "--state", "b:h:1=h:0", "--constant", "b:1:gain:0=[4,4]"),
    ]
    server = Server(f"a={model}", f"b:1={model}", f"b:2={model}", *settings)

    def count(path: str, start: bool) -> list[float]:
        tensor = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}
        asked = {"inputs": [tensor], "parameters": {"sequence_id": 7, "sequence_start": start}}
        status, body = server.curl(f"/v2/models/{path}/infer", "-d", "@-", data=json.dumps(asked))
        assert status == 200, body
        return json.loads(body)["outputs"][0]["data"]

    try:
        assert [count("a", start) for start in (True, False, True)] == [[102, 104], [104, 108], [102, 104]]
        assert [count("b", start) for start in (True, False)] == [[3, 6], [6, 12]]
        assert count("b/versions/1", True) == [4, 8]
    finally:
        assert server.end() == 0


@pytest.mark.parametrize("prefix", ["", "one:", "one:1:"])
def test_one_model_alone_may_be_named_before_what_is_bound(tmp_path: Path, prefix: str) -> None:
    model = save_counter(tmp_path)
    server = Server(f"one={model}", "--constant", f"{prefix}gain:0=[3,3]", "--state", f"{prefix}h:1=h:0")
    try:
        status, body = server.curl("/v2/models/one")
        assert (status, [each["name"] for each in json.loads(body)["inputs"]]) == (200, ["x"])
    finally:
        assert server.end() == 0


def test_names_that_begin_alike_before_an_equals_sign_are_parted(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "a=b"], ["sum"]), helper.make_node("Mul", ["sum", "a=c=d"], ["y"])]
    model = save(tmp_path / "m.onnx", nodes, [value(name, [1]) for name in ("x", "a=b", "a=c=d")], [value("y", [1])])
    server = Server(f"m={model}", *("--constant", "m:a=b=[2]"), *("--constant", "a=c=d=[5]"))
    try:
        tensor = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}
        status, body = server.curl("/v2/models/m/infer", "-d", "@-", data=json.dumps({"inputs": [tensor]}))
        assert (status, json.loads(body)["outputs"][0]["data"]) == (200, [15])
    finally:
        assert server.end() == 0


def test_a_load_binds_inputs_and_keeps_states(tmp_path: Path) -> None:
    model = save_counter(tmp_path)
    (tmp_path / "first.npy").unlink(missing_ok=True)
    array = io.BytesIO()
    np.save(array, np.array([100, 100], np.float32))
    server = Server(f"own={model}", "--constant", "gain:0=1", "--state", "h:1=h:0")

    def load(name: str, **parameters: object) -> str:
        path = f"/v2/repository/models/{name}/load"
        status, body = server.curl(path, "-d", "@-", data=json.dumps({"parameters": parameters}))
        return "" if status == 200 else json.loads(body)["error"]

    def count(path: str, start: bool = True) -> list[float]:
        tensor = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}
        asked = {"inputs": [tensor], "parameters": {"sequence_id": 7, "sequence_start": start}}
        status, body = server.curl(f"/v2/models/{path}/infer", "-d", "@-", data=json.dumps(asked))
        assert status == 200, body
        return json.loads(body)["outputs"][0]["data"]

    def base64_of(content: bytes) -> str:
        return base64.b64encode(content).decode()

    files = {"config": "{}"} | {f"file:{version}/model.onnx": base64_of(model.read_bytes()) for version in (1, 2)}
    arrays = {f"file:{version}/first.npy": base64_of(array.getvalue()) for version in (1, 2)}
    try:
        states = {"constant:gain:0": [3, 3], "state:h:1": "h:0:first.npy"}
        assert load("new", **files, **arrays, **states) == ""
        assert [count(f"new/versions/{version}") for version in (1, 2)] == [[103, 106]] * 2
        assert count("new", start=False) == [106, 112]
        # Of a model that the server has: those of the load, and without any those of the start again.
        assert count("own") == [1, 2]
        assert load("own", **{"constant:gain:0": 5, "state:h:1": "h:0"}) == ""
        assert [count("own", start) for start in (True, False)] == [[5, 10], [10, 20]]
        assert load("own") == ""
        assert count("own") == [1, 2]
        assert "input 'sr'" in load("other", **files, **{"constant:sr": 1})
        assert "'first.npy' is none of the files" in load("other", **files, **{"state:h:1": "h:0:first.npy"})
        assert "'/etc/hostname.npy' is a file, which has to come with its model" in load(
            "own", **{"constant:gain:0": "/etc/hostname.npy"}
        )
        assert count("own") == [1, 2]
    finally:
        assert server.end() == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a={}", "b={}", "--constant", "gain:0=1"], "expected MODEL:NAME=..., as in a:gain:0=1"),
        (["a={}", "b={}", "--state", "h:1=h:0"], "--state: of several models ('a', 'b') it names the one"),
        (["a={}", "--constant", "sr=1"], "input 'sr'"),
        (["a={}", "--constant", "acc:gain:0=1"], "no input 'acc:gain:0'; its inputs are 'x', 'gain:0', 'h:0'"),
        (["a={}", "--state", "acc:h:1=h:0"], "no output 'acc:h:1'"),
        (["a={}", "--constant", "x=1", "--constant", "x=2"], "model 'a': --constant: input 'x' is given twice"),
        (["a={}", "--state", "sum=x:none.npy"], "initial value 'none.npy' cannot be copied"),
    ],
)
def test_what_a_served_model_cannot_be_bound_to_is_refused(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    model = str(save_counter(tmp_path))
    with pytest.raises(AssertionError) as refused:
        Server(*(argument.replace("{}", model) for argument in arguments)).end()
    assert sentence in str(refused.value)


def test_requests_of_open_shapes_may_share_a_call(tmp_path: Path) -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=0)]
    save(tmp_path / "model.onnx", nodes, [value("x", ["n", "s"])], [value("y", ["n", "s"])])
    package = tmp_path / "rows.penstock"
    shapes = ["--shape", "x=1..4x1..9", "--replicas", "1", "--batch", "3:50"]
    split = [find_program(), "split", tmp_path / "model.onnx", *shapes, "-o", package]
    subprocess.run(split, check=True, capture_output=True)
    server = Server(str(package))
    random = np.random.default_rng(1)
    asked = [random.random((1 + i % 2, 4 + i % 3), np.float32) for i in range(24)]

    def ask(x: np.ndarray) -> np.ndarray:
        tensor = {"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.flatten().tolist()}
        status, body = server.curl("/v2/models/rows/infer", "-d", "@-", data=json.dumps({"inputs": [tensor]}))
        assert status == 200, body
        (output,) = json.loads(body)["outputs"]
        return np.reshape(output["data"], output["shape"])

    try:
        with ThreadPoolExecutor(8) as clients:
            for x, y in zip(asked, clients.map(ask, asked), strict=True):
                np.testing.assert_allclose(y, np.exp(x) / np.exp(x).sum(axis=0), rtol=1e-5)
    finally:
        assert server.end() == 0


REQUEST = json.dumps({"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": list(range(8))}]})


def test_curl_infers(server: Server) -> None:
    status, body = server.curl("/v2/models/add/infer", "-d", REQUEST)
    assert status == 200, body
    outputs = {output["name"]: output["data"] for output in json.loads(body)["outputs"]}
    assert outputs["sum"] == [x + 1 for x in range(8)]


def test_large_json_bodies_are_read(server: Server) -> None:
    rows = {"name": "x", "shape": [50000, 2], "datatype": "FP32", "data": [0.5] * 100000}
    status, body = server.curl("/v2/models/open/infer", "-d", "@-", data=json.dumps({"inputs": [rows]}))
    assert status == 200, body
    assert json.loads(body)["outputs"][0]["data"] == rows["data"]


def test_a_client_that_leaves_cancels_its_request(server: Server) -> None:
    host, _, port = server.address.rpartition(":")
    body = np.ones([1500, 1500], np.float32).tobytes()
    length = f"Inference-Header-Content-Length: 0\r\nContent-Length: {len(body)}\r\n"
    head = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\n{length}\r\n"
    cancelled = re.compile(r'nv_inference_request_failure\{model="slow",version="1",reason="CANCELED"\} ([0-9.e+]+)')
    sockets = []
    for _ in range(8):
        one = socket.create_connection((host, int(port)))
        one.sendall(head.encode() + body)
        sockets.append(one)
    for one in sockets:
        one.close()
    deadline = time.monotonic() + SECONDS
    while float(cancelled.search(server.curl("/metrics")[1])[1]) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_rights_are_those_of_the_token(models: list[str], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    command = [str(find_program()), "token", "me", "--rights", "infer"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    tokens.write_text(made.stdout)
    token = made.stderr.removeprefix("token: ").strip()
    assert token not in made.stdout
    server = Server(models[0], "--tokens", str(tokens))
    try:
        server.client("may_only_infer", token)
    finally:
        assert server.end() == 0


def test_the_access_log_has_a_line_for_each_request(models: list[str], tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    server = Server(models[0], "--access-log", str(log))
    try:
        trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        assert server.curl("/v2/models/add/infer", "-d", REQUEST, "-H", trace)[0] == 200
        assert server.curl("/v2/models/none/infer", "-d", REQUEST)[0] == 404
    finally:
        assert server.end() == 0
    first, second = sorted(map(json.loads, log.read_text().splitlines()), key=lambda line: line["status"])
    assert (first["status"], first["model"], first["request_bytes"]) == (200, "add", len(REQUEST))
    assert first["traceparent"] == trace.split()[1]
    assert (second["status"], second["target"]) == (404, "/v2/models/none/infer")
    assert "unknown model" in second["error"]


def get(server: Server, path: str) -> int:
    host, port = server.address.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


@pytest.mark.parametrize("one_pipe", [False, True], ids=["alone", "with-standard-error"])
def test_a_reader_of_the_access_log_that_stalls_holds_up_nobody(models: list[str], one_pipe: bool) -> None:
    server = Server(models[0], "--access-log", "-", one_pipe=one_pipe)
    try:
        for _ in range(60):  # A line of 4040 bytes leaves no room for a warning in its page of the pipe.
            assert get(server, "/v2/models/add?" + "a" * 3849) == 200
        assert get(server, "/v2/health/live") == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    finally:
        server.process.kill()
    lost = "penstock: warning: access log '-': lines are lost: nobody reads on\n"
    ends = r"penstock: warning: access log '-': ends; lines lost: \d+\n"
    assert re.fullmatch("" if one_pipe else re.escape(lost) + ends, server.said())


def test_a_reader_of_the_access_log_that_leaves_ends_nothing(models: list[str]) -> None:
    server = Server(models[0], "--access-log", "-")
    try:
        assert get(server, "/v2/models/add") == 200
        assert "/v2/models/add" in next(server.process.stdout)  # Written behind the answer.
        server.process.stdout.close()
        assert [get(server, "/v2/models/add") for _ in range(3)] == [200] * 3
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    finally:
        server.process.kill()
    told = "penstock: warning: access log '-': "
    assert server.said() == f"{told}lines are lost: Broken pipe\n{told}ends; lines lost: 3\n"


def test_an_access_log_that_is_a_fifo_without_a_reader_is_refused(models: list[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    command = [find_program(), "serve", models[0], "--listen", "127.0.0.1:0", "--access-log", tmp_path / "pipe"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "start its reader first" in done.stderr


def test_sigterm_ends_it_well_while_models_load(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "slow.py").write_text(
        f"import pathlib\nimport time\n\nimport penstock\n\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(1)\n"
        "same = penstock.Function('same', lambda x: x, {'x': 'f32[1]'}, {'y': 'f32[1]'})\n"
    )
    app = tmp_path / "app.yaml"
    app.write_text(
        "penstock_app: 1\nfunctions: slow.py\ninputs: {x: 'f32[1]'}\n"
        "nodes:\n  n: {function: same, inputs: {x: x}}\noutputs: {y: n.y}\n"
    )
    command = [find_program(), "serve", app, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not begun.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "penstock: ended before its models were loaded\n", "")


def test_a_trace_has_requests_and_what_stages_did_for_them(models: list[str], tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    server = Server(models[0], "--trace", str(file))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert server.curl("/v2/models/add/infer", "-d", REQUEST, "-H", f"traceparent: {parent}")[0] == 200
    assert server.curl("/v2/models/add/infer", "-d", REQUEST, "-H", "traceparent: nonsense")[0] == 200
    assert server.curl("/v2/models/add/infer", "-d", '{"inputs": []}')[0] == 400
    assert server.end() == 0
    trace = json.loads(file.read_text())
    assert set(trace["otherData"]) == {"steady_ns", "unix_ns"}
    events = trace["traceEvents"]
    groups = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert groups == {"requests", "add version 1"}
    first, second, failed = [event["args"] for event in events if event["name"] == "request add" and event["ph"] == "b"]
    assert (first["trace_id"], first["parent_id"]) == (parent.split("-")[1], parent.split("-")[2])
    assert "trace_id" not in second and failed["error"] == "invalid_argument"
    frames = {event["args"]["frame"] for event in events if event["ph"] == "X" and "frame" in event["args"]}
    assert {first["frame"], second["frame"]} == frames
    phases = [event["name"] for event in events if event["ph"] == "b" and event["id"] == 1]
    assert phases == ["request add", "compute_input", "queue", "compute_infer", "compute_output"]


def test_a_trace_has_what_stages_did_before_their_model_was_read_again(models: list[str], tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    server = Server(models[0], "--trace", str(file))
    assert server.curl("/v2/models/add/infer", "-d", REQUEST)[0] == 200
    assert server.curl("/v2/repository/models/add/load", "-d", "{}")[0] == 200
    assert server.curl("/v2/models/add/infer", "-d", REQUEST)[0] == 200
    assert server.end() == 0
    events = json.loads(file.read_text())["traceEvents"]
    groups = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert groups == {"requests", "add version 1", "add version 1, replaced plan 1 of 1"}
    asked = {event["args"]["frame"] for event in events if event["name"] == "request add" and event["ph"] == "b"}
    done = {event["args"]["frame"] for event in events if event["ph"] == "X" and "frame" in event["args"]}
    assert len(asked) == 2 and asked == done


def make_certificates(folder: Path) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    ca = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    openssl("req", *ca, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(
        *("req", *ca, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", "server.key", "-out", "server.pem"),
    )
    openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=edge-7", "-keyout", "client.key", "-out", "client.csr"
    )
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
    openssl("x509", "-req", "-in", "client.csr", *signing, "-out", "client.pem")


def test_tls_asks_for_client_certificates_and_reads_changed_ones_again(models: list[str], tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    make_certificates(tmp_path)
    tokens = tmp_path / "tokens"
    tokens.write_text("edge-7 certificate infer\n")
    files = ["--tls-certificate", "server.pem", "--tls-key", "server.key", "--tls-client-authority", "ca.pem"]
    files = [name if name.startswith("--") else str(tmp_path / name) for name in files]
    server = Server(models[0], *files, "--tokens", str(tokens))
    own = ["--cert", str(tmp_path / "client.pem"), "--key", str(tmp_path / "client.key")]
    try:
        trusted = ["--cacert", str(tmp_path / "server.pem")]
        status, body = server.curl("/v2/models/add/infer", *trusted, *own, "-d", REQUEST, scheme="https")
        assert status == 200, body
        assert server.curl("/v2/repository/models/add/unload", *trusted, *own, "-d", "", scheme="https")[0] == 403
        assert server.curl("/v2", *trusted, scheme="https")[0] == 0, "a client without a certificate got in"
        status, body = server.curl("/v2")
        assert (status, json.loads(body)) == (400, {"error": "this port takes HTTPS alone: begin with https://"})
        old = tmp_path / "old.pem"
        shutil.copy(tmp_path / "server.pem", old)
        make_certificates(tmp_path)  # Another key and another authority.
        while server.curl("/v2", *trusted, *own, scheme="https")[0] != 200:
            pass
        assert server.curl("/v2", "--cacert", str(old), *own, scheme="https")[0] == 0
    finally:
        assert server.end() == 0


def test_plain_text_stays_on_this_machine_unless_allowed(models: list[str]) -> None:
    command = [str(find_program()), "serve", models[0], "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1
    assert "plain text would leave this machine at '0.0.0.0:0'" in done.stderr
