"""What a client that may load models sends to `penstock serve` and `worker`: it has no say over their machine."""

import base64
import io
import json
import socket
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from servers import SECONDS, Server, save, split, value


class Loader:
    """Loads models over HTTP, as a client of the server's own machine."""

    def __init__(self, server: Server) -> None:
        self.address = server.http_address()
        self.status = 0  # Of the last answer.

    def post(self, path: str, body: object) -> str:
        """The answer, or the sentence of its error."""
        asked = urllib.request.Request(f"http://{self.address}{path}", json.dumps(body).encode())
        try:
            with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
                self.status = answer.status
                return answer.read().decode()
        except urllib.error.HTTPError as refused:
            self.status = refused.code
            return json.loads(refused.read())["error"]

    def load(self, main: str, files: dict[str, bytes]) -> str:
        """Empty: it was loaded."""
        sent: dict[str, str] = {f"file:1/{name}": base64.b64encode(content).decode() for name, content in files.items()}
        config = {} if main == "plan.json" else {"default_model_filename": main}
        return self.post("/v2/repository/models/sent/load", {"parameters": {"config": json.dumps(config), **sent}})

    def load_yaml(self, text: str, **more: bytes) -> str:
        return self.load("app.yaml", {"app.yaml": text.encode(), **more})


@pytest.fixture(scope="module", params=["serve", "worker"])
def loader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loader]:
    """One server for all that is refused, which ends in good order."""
    folder = tmp_path_factory.mktemp("server")
    model = save(folder / "own.onnx", [helper.make_node("Abs", ["x"], ["y"])], [value("x", [2])], [value("y", [2])])
    own = {"serve": [str(model), "--no-native-code"], "worker": ["--cache", str(folder / "cache")]}
    server = Server(*own[request.param], "--http", "127.0.0.1:0", command=request.param)
    yield Loader(server)
    assert server.end() == 0


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = x + s; twice it, `next`, is for a state."""
    nodes = [helper.make_node("Add", ["x", "s"], ["y"]), helper.make_node("Add", ["y", "y"], ["next"])]
    inputs, outputs = [value("x", [2]), value("s", [2])], [value("y", [2]), value("next", [2])]
    return save(tmp_path_factory.mktemp("network") / "net.onnx", nodes, inputs, outputs)


def application(node: str, more: str = "", reads: str = "{x: x}") -> str:
    """Of one node `n`, with these fields."""
    fields = "".join(f"    {line}\n" for line in [*node.splitlines(), f"inputs: {reads}"])
    head = 'penstock_app: 1\ninputs: {x: "f32[2]"}\nnodes:\n  n:\n'
    return f"{head}{fields}outputs: {{y: n.y}}\n{more}"


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_an_option_that_names_a_place_is_refused_before_anything_is_compiled(
    loader: Loader, network: Path, tmp_path: Path, backend: str
) -> None:
    place = tmp_path / "place"
    option = {"onnxruntime": "session.optimized_model_filepath", "openvino": "CACHE_DIR"}[backend]
    text = application(
        f"network: net.onnx\nconstants: {{s: [1, 1]}}\nbackend: {backend}\noptions: {{{option}: {place}}}"
    )
    error = loader.load_yaml(text, **{"net.onnx": network.read_bytes()})
    assert not place.exists()
    assert f"app.yaml:8: node 'n': option '{option}' names a place on the disk" in error


def with_weights_beside(network: Path, *tensors: str) -> bytes:
    """The model, with weights of its in w.bin."""
    model = onnx.load(network)
    for name in tensors:
        tensor = model.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=[2])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
    return model.SerializeToString()


APP = application("network: net.onnx\nconstants: {s: [1, 1]}").encode()


@pytest.mark.parametrize(
    ("main", "files", "sentence"),
    [
        ("model.onnx", {}, "file 'file:1/model.onnx': not an ONNX model (it is truncated"),
        ("model.onnx", {"model.onnx": b""}, "file 'file:1/model.onnx': not an ONNX model (it is empty)"),
        ("model.onnx", {"model.onnx": b"<html>"}, "file 'file:1/model.onnx': not an ONNX model: "),
        ("beside.onnx", {}, "file 'file:1/beside.onnx': tensor 'w': its external data file 'w.bin' is not in"),
        ("beside.onnx", {"w.bin": b"123"}, "file 'file:1/beside.onnx': tensor 'w': expected 8 bytes"),
        ("unfit.onnx", {}, "model 'file:1/unfit.onnx': "),
        ("plan.json", {"plan.json": b"{"}, "package 'file:1': plan.json: not JSON"),
        ("a.zip", {"a.zip": b"PK"}, "zip 'file:1/a.zip': "),
        ("app.yaml", {"app.yaml": b"penstock_app: 1\n\tx: y"}, ": file:1/app.yaml:2: not YAML"),
        ("app.yaml", {"app.yaml": APP, "net.onnx": b"?"}, ": file:1/app.yaml:5: node 'n': file 'file:1/net.onnx': "),
    ],
)
def test_what_is_broken_is_its_senders_mistake_and_has_its_senders_name(
    loader: Loader, network: Path, main: str, files: dict[str, bytes], sentence: str
) -> None:
    unfit = save(network.with_name("unfit.onnx"), [helper.make_node("MatMul", ["x", "s"], ["y"])],
                 [value("x", [3, 4]), value("s", [5, 4])], [value("y", [3, 4])])  # fmt: skip
    made = {
        "model.onnx": network.read_bytes()[:60],
        "beside.onnx": with_weights_beside(network, "w"),
        "unfit.onnx": unfit.read_bytes(),
    }
    error = loader.load(main, {main: made.get(main, b"")} | files)
    assert loader.status == 400, error
    assert sentence in error
    assert tempfile.gettempdir() not in error


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ('{"name": "sent", "platform": "penstock", "name": "sent"}', "'name': expected it once, found it twice"),
        ('{"max_batch_size": 0, "maxBatchSize": 0}', "'maxBatchSize': expected it once, found it twice"),
        ('{"input": [{"name": "x", "dims": [2], "dims": [3]}]}', "'dims': expected it once, found it twice"),
    ],
)
def test_a_configuration_that_has_a_field_twice_is_refused(loader: Loader, config: str, sentence: str) -> None:
    error = loader.post("/v2/repository/models/sent/load", {"parameters": {"config": config}})
    assert loader.status == 400, error
    assert "load parameter 'config': " + sentence in error


def test_values_of_a_configuration_go_by_small_letters_too(loader: Loader, network: Path) -> None:
    tensor = {"name": "x", "data_type": "type_int8", "format": "format_none"}
    sent = base64.b64encode(network.read_bytes()).decode()
    parameters = {"config": json.dumps({"input": [tensor]}), "file:1/model.onnx": sent}
    error = loader.post("/v2/repository/models/sent/load", {"parameters": parameters})
    assert loader.status == 400, error
    assert "the model has f32[2], the configuration TYPE_INT8" in error


def test_a_configuration_of_deep_brackets_is_refused(loader: Loader) -> None:
    config = '{"a":' * 1_000_000 + "1" + "}" * 1_000_000
    error = loader.post("/v2/repository/models/sent/load", {"parameters": {"config": config}})
    assert loader.status == 400, error
    assert "'config'" in error and "brackets inside one another" in error


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("backend: none", "backend 'none': there is none of that name; there are: "),
        ("devices: 'cpu:4095'", "device 'cpu:4095': CPU 4095 is not among those this process may use: "),
    ],
)
def test_what_the_server_lacks_is_not_its_senders_mistake(
    loader: Loader, network: Path, fields: str, sentence: str
) -> None:
    text = application(f"network: net.onnx\nconstants: {{s: [1, 1]}}\n{fields}")
    error = loader.load_yaml(text, **{"net.onnx": network.read_bytes()})
    assert loader.status == 404, error
    assert ": file:1/app.yaml:" in error
    assert sentence in error


def array(*numbers: float) -> bytes:
    content = io.BytesIO()
    np.save(content, np.array(numbers, np.float32))
    return content.getvalue()


OUTSIDE = {
    "network": application("network: {}\nconstants: {{s: [1, 1]}}".format("{place}.onnx")),
    "constant": application("network: net.onnx\nconstants: {s: {place}.npy}"),
    "custom_ops": application("network: net.onnx\ncustom_ops: [{place}.so]\nconstants: {s: [1, 1]}"),
    "state": application("network: net.onnx", "states: [{from: n.next, to: n.s, initial: {place}.npy}]\n"),
    "function": application("function: {place}.so"),
    "module": application("function: {place}.py"),
    "functions": "functions: {place}.py\n" + application("function: f"),
}


@pytest.mark.parametrize("what", OUTSIDE)
def test_no_file_of_the_server_is_read(loader: Loader, network: Path, tmp_path: Path, what: str) -> None:
    there = tmp_path / "there"
    for suffix, content in {"onnx": network.read_bytes(), "npy": array(5, 6), "so": b"", "py": b""}.items():
        there.with_suffix(f".{suffix}").write_bytes(content)
    up = "../" * 40
    errors = []
    for place in (there, tmp_path / "nowhere", f"{up}{there}", f"{up}{tmp_path}/nowhere", f"none/../{up}{there}"):
        error = loader.load_yaml(OUTSIDE[what].replace("{place}", str(place)), **{"net.onnx": network.read_bytes()})
        assert "expected a file that was sent with it, found '" in error
        errors.append(error.partition("/app.yaml")[2].partition(", found")[0])
    assert len(set(errors)) == 1, "what is there and what is not are told alike"


def test_its_own_files_are_read(loader: Loader, network: Path) -> None:
    node = "network: ./sub/../sub/net.onnx"
    text = application(node, "states: [{from: n.next, to: n.s, initial: first.npy}]\n")
    files = {"sub/net.onnx": network.read_bytes(), "first.npy": array(5, 6)}
    assert loader.load_yaml(text, **files) == ""
    tensor = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}
    answer = json.loads(loader.post("/v2/models/sent/infer", {"inputs": [tensor]}))
    assert answer["outputs"][0]["data"] == [6, 8]
    error = loader.load_yaml(application("network: missing.onnx"), **files)
    assert "expected a file that was sent with it, found 'missing.onnx'" in error


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    """A port that nobody is to connect to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()


ELSEWHERE = {
    "oip": application("model: oip://{host}/m\nshapes: {x: 2}"),
    "servers": application("model: oip://{host}/m\ndevices: oip://{host}\nshapes: {x: 2}"),
    "devices": application("network: net.onnx\nconstants: {s: [1, 1]}\ndevices: {host}/cpu:0"),
    "standby": application("network: net.onnx\nconstants: {s: [1, 1]}\ndevices: cpu:0\nstandby: {host}/cpu:0"),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_an_application_connects_to_no_other_machine(
    loader: Loader, network: Path, elsewhere: socket.socket, what: str
) -> None:
    host = f"127.0.0.1:{elsewhere.getsockname()[1]}"
    error = loader.load_yaml(ELSEWHERE[what].replace("{host}", host), **{"net.onnx": network.read_bytes()})
    assert "is of another machine" in error
    assert "node 'n'" in error


@pytest.mark.parametrize("what", ["devices", "standby", "model"])
@pytest.mark.parametrize("within", [False, True])
def test_a_package_connects_to_no_other_machine(
    loader: Loader, tmp_path: Path, elsewhere: socket.socket, what: str, within: bool
) -> None:
    host = f"127.0.0.1:{elsewhere.getsockname()[1]}"
    node = [helper.make_node("Abs", ["x"], ["y"])]
    package = split(save(tmp_path / "abs.onnx", node, [value("x", [2])], [value("y", [2])]), "--devices", "cpu:0")
    plan = json.loads((package / "plan.json").read_text())
    stage = plan["stages"][0]
    if what == "model":
        stage["devices"] = [f"oip://{host}"]
        stage["partitions"][0] |= {"model": f"oip://{host}/m", "backend": "remote"}
    else:
        stage[what] = [f"{host}/cpu:0"]
    files = {str(file.relative_to(package)): file.read_bytes() for file in package.rglob("*") if file.is_file()}
    files["plan.json"] = json.dumps(plan).encode()
    if within:
        inner = {f"inner/{name}": content for name, content in files.items()}
        error = loader.load_yaml(application("network: inner"), **inner)
    else:
        error = loader.load("plan.json", files)
    assert ("a server has a part of it" if within and what == "model" else "is of another machine") in error


def test_who_trusts_what_is_uploaded_lets_it_connect(tmp_path: Path) -> None:
    node = [helper.make_node("Abs", ["x"], ["y"])]
    model = save(tmp_path / "m.onnx", node, [value("x", [2])], [value("y", [2])])
    far = Server(str(model))
    near = Server(str(model), "--http", "127.0.0.1:0", "--allow-native-code")
    loader = Loader(near)
    assert loader.load_yaml(application(f"model: oip://{far.address}/m")) == ""
    answer = json.loads(
        loader.post(
            "/v2/models/sent/infer", {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [-1, 2]}]}
        )
    )
    assert answer["outputs"][0]["data"] == [1, 2]
    assert near.end() == 0
    assert far.end() == 0
