"""What a client that may load models sends to `penstock serve` and `worker`: it has no say over their machine."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from onnx import helper
from servers import SECONDS, Server, save, value


class Loader:
    """Loads models over HTTP, as a client of the server's own machine."""

    def __init__(self, server: Server) -> None:
        self.address = server.http_address()

    def post(self, path: str, body: object) -> str:
        """The answer, or the sentence of its error."""
        asked = urllib.request.Request(f"http://{self.address}{path}", json.dumps(body).encode())
        try:
            with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as refused:
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
