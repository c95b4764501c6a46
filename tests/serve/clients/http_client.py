"""What unchanged clients of the Open Inference Protocol do with a server over HTTP: ADDRESS CASE [MODEL.onnx].

Runs with .clients/bin/python. The server has the models of test_http.py: add (two outputs), text and half (the input
again), open (any number of rows), slow, and running, whose states are the sum of what it was given.
"""

import asyncio
import gzip
import http.client
import json
import sys
from pathlib import Path

import numpy as np
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException, shared_memory

X = np.arange(8, dtype=np.float32).reshape(2, 4)


class Client:
    def __init__(self, address: str, model: str) -> None:
        self.address = address
        self.model = model
        self.triton = triton.InferenceServerClient(address, concurrency=8)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str):
        """The status, the headers and the body."""
        connection = http.client.HTTPConnection(self.address, timeout=120)
        connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, response.headers, content

    def refused(self, status: int, text: str, *asked, **headers: str) -> None:
        found, _, content = self.ask(*asked, **headers)
        assert found == status, (found, content)
        assert text in json.loads(content)["error"], content


def inputs(array: np.ndarray = X, name: str = "x", datatype: str = "FP32", binary: bool = True, of=triton) -> list:
    tensor = of.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=binary)
    return [tensor]


def fails(text: str, call, *arguments, **named) -> None:
    try:
        call(*arguments, **named)
    except InferenceServerException as error:
        assert text in error.message(), error
        return
    raise AssertionError(f"no error: {text}")


def tells_of_itself(client: Client) -> None:
    assert client.triton.is_server_live()
    assert client.triton.is_server_ready()
    assert client.triton.is_model_ready("add")
    assert not client.triton.is_model_ready("none")
    assert not client.triton.is_model_ready("add", "9")
    metadata = client.triton.get_server_metadata()
    assert metadata["name"] == "penstock"
    assert "binary_tensor_data" in metadata["extensions"]
    model = client.triton.get_model_metadata("add")
    assert model["versions"] == ["1"], model
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [2, 4]}]
    assert client.triton.get_model_metadata("open")["inputs"][0]["shape"] == [-1, 2]
    config = client.triton.get_model_config("add", "1")
    assert config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [2, 4]}]
    assert "sequence_batching" in client.triton.get_model_config("running")
    off = {"trace_file": "", "trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1", "log_frequency": "0"}
    assert client.triton.get_trace_settings() == client.triton.get_trace_settings("add") == off
    client.refused(404, "unknown model: 'none'", "GET", "/v2/models/none/trace/setting")
    assert client.triton.get_log_settings()["log_info"] is True
    fails("unknown model", client.triton.get_model_metadata, "none")
    # KServe's client reads what Triton's leaves.
    assert client.ask("GET", "/v2/health/live")[2] == b'{"live":true}'
    assert client.ask("GET", "/v2/health/ready")[2] == b'{"ready":true}'
    for path in ("/v2/models/add/ready", "/v2/models/add/versions/1/ready"):
        assert client.ask("GET", path)[2] == b'{"name":"add","ready":true}'


def infers(client: Client) -> None:
    for binary_in in (True, False):
        for binary_out in (True, False):
            wanted = [triton.InferRequestedOutput(name, binary_data=binary_out) for name in ("product", "sum")]
            result = client.triton.infer("add", inputs(binary=binary_in), outputs=wanted, request_id="me")
            assert np.array_equal(result.as_numpy("sum"), X + 1)
            assert np.array_equal(result.as_numpy("product"), X * 3)
            assert result.get_response()["id"] == "me"
            assert result.get_response()["model_version"] == "1"
    assert np.array_equal(client.triton.infer("add", inputs()).as_numpy("sum"), X + 1)
    waiting = [client.triton.async_infer("add", inputs(X * i)) for i in range(20)]
    for i, one in enumerate(waiting):
        assert np.array_equal(one.get_result().as_numpy("sum"), X * i + 1)


def infers_asynchronously(client: Client) -> None:
    async def ask() -> None:
        async with triton_aio.InferenceServerClient(client.address) as asking:
            tensors = [inputs(X * i, of=triton_aio) for i in range(20)]
            results = await asyncio.gather(*(asking.infer("add", tensor) for tensor in tensors))
            for i, result in enumerate(results):
                assert np.array_equal(result.as_numpy("sum"), X * i + 1)

    asyncio.run(ask())


def carries_all_types(client: Client) -> None:
    words = np.array(["a", "b\u00e9", ""], dtype=np.object_)
    for binary in (True, False):
        out = [triton.InferRequestedOutput("y", binary_data=binary)]
        result = client.triton.infer("text", inputs(words, datatype="BYTES", binary=binary), outputs=out)
        assert [word if isinstance(word, str) else word.decode() for word in result.as_numpy("y")] == list(words)
    half = np.array([1, 2.5, -3], np.float16)
    assert np.array_equal(client.triton.infer("half", inputs(half, datatype="FP16")).as_numpy("y"), half)
    in_json = [triton.InferRequestedOutput("y", binary_data=False)]
    fails("output 'y': is FP16", client.triton.infer, "half", inputs(half, datatype="FP16"), outputs=in_json)
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    assert np.array_equal(client.triton.infer("open", inputs(rows)).as_numpy("y"), rows)


def reads_packed_bodies(client: Client) -> None:
    for packing in ("gzip", "deflate"):
        result = client.triton.infer(
            "add", inputs(), request_compression_algorithm=packing, response_compression_algorithm=packing
        )
        assert np.array_equal(result.as_numpy("sum"), X + 1), packing
    asked = gzip.compress(
        json.dumps({"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": [0] * 8}]}).encode()
    )
    in_capitals = {"Content_Encoding": "GZip", "Accept_Encoding": "GZIP"}
    assert gzip.decompress(client.ask("POST", "/v2/models/add/infer", asked, **in_capitals)[2]).startswith(b"{")
    bomb = gzip.compress(b"[" * (300 << 20))
    client.refused(413, "unpacks to more than", "POST", "/v2/models/add/infer", bomb, Content_Encoding="gzip")
    client.refused(501, "Unsupported compression", "POST", "/v2/models/add/infer", b"x", Content_Encoding="br")


def reads_bodies_of_bytes(client: Client) -> None:
    header = {"Inference_Header_Content_Length": "0"}
    status, headers, body = client.ask("POST", "/v2/models/add/infer", X.tobytes(), **header)
    assert status == 200, body
    behind = body[int(headers["Inference-Header-Content-Length"]) :]
    assert np.array_equal(np.frombuffer(behind, np.float32), np.concatenate([(X + 1).ravel(), (X * 3).ravel()]))
    client.refused(400, "expected 32 bytes", "POST", "/v2/models/add/infer", b"1234", **header)


def says_what_is_wrong(client: Client) -> None:
    infer = "/v2/models/add/infer"
    fails("unknown model: 'none'", client.triton.infer, "none", inputs())
    fails("'add' version 7", client.triton.infer, "add", inputs(), model_version="7")
    fails("[request id: me]", client.triton.infer, "add", inputs(X[:1]), request_id="me")
    wrong = {"id": "me", "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0, 0, 0, 0]}]}
    assert client.ask("POST", infer, json.dumps(wrong).encode())[2].count(b"[request id: me]") == 1
    fails("'z'", client.triton.infer, "add", inputs(name="z"))
    fails("'w'", client.triton.infer, "add", inputs(), outputs=[triton.InferRequestedOutput("w")])
    client.refused(404, "Not Found", "GET", "/v2/none")
    client.refused(405, "expected POST", "GET", infer)
    client.refused(400, "found nothing", "POST", infer)
    client.refused(400, "brackets", "POST", infer, b"[" * 100000 + b"]" * 100000)
    client.refused(400, "Content-Length' is 99", "POST", infer, b"{}", Inference_Header_Content_Length="99")
    client.refused(400, "number of bytes", "POST", infer, b"{}", Inference_Header_Content_Length="-1")
    client.refused(501, "repository_name", "POST", "/v2/repository/other/index")
    client.refused(
        400, "unrecognized load parameter", "POST", "/v2/repository/models/a/load", b'{"parameters":{"x":1}}'
    )
    assert np.array_equal(client.triton.infer("add", inputs()).as_numpy("sum"), X + 1)


def has_sequences(client: Client) -> None:
    ones = np.ones(2, np.float32)
    for sequence in (5, "five"):
        for i in range(4):
            result = client.triton.infer(
                "running", inputs(ones), sequence_id=sequence, sequence_start=i == 0, sequence_end=i == 3
            )
            assert np.array_equal(result.as_numpy("sum"), ones * (i + 1)), (sequence, i)


def counts(client: Client) -> None:
    for _ in range(2):  # The time that a call takes to give its outputs is counted behind its answer.
        client.triton.infer("add", inputs())
    before = client.triton.get_inference_statistics("add")["model_stats"][0]
    client.triton.infer("add", inputs())
    after = client.triton.get_inference_statistics("add", "1")["model_stats"][0]
    assert after["inference_count"] == before["inference_count"] + 1
    for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert after["inference_stats"][name]["count"] == before["inference_stats"][name]["count"] + 1, name
    (batch,) = after["batch_stats"]
    for name in ("compute_input", "compute_infer", "compute_output"):
        assert batch[name]["count"] == after["execution_count"] and batch[name]["ns"] > 0, name
    assert len(client.triton.get_inference_statistics()["model_stats"]) == 6
    status, headers, text = client.ask("GET", "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    success = after["inference_stats"]["success"]["count"]
    assert f'nv_inference_request_success{{model="add",version="1"}} {success}\n' in text.decode()


def shares_memory(client: Client) -> None:
    key = f"/penstock_http_test_{client.address.rpartition(':')[2]}"
    region = shared_memory.create_shared_memory_region("mine", key, 128)
    try:
        shared_memory.set_shared_memory_region(region, [X])
        client.triton.register_system_shared_memory("mine", key, 128)
        assert client.triton.get_system_shared_memory_status()[0]["key"] == key
        tensor = triton.InferInput("x", [2, 4], "FP32")
        tensor.set_shared_memory("mine", 32)
        output = triton.InferRequestedOutput("sum")
        output.set_shared_memory("mine", 32, offset=64)
        answered = client.triton.infer("add", [tensor], outputs=[output]).get_response()
        assert "parameters" not in answered["outputs"][0], "Triton's client in C++ takes them for those of bytes"
        assert np.array_equal(shared_memory.get_contents_as_numpy(region, np.float32, [2, 4], 64), X + 1)
        output.set_shared_memory("mine", 32, offset=100)
        fails("'mine'", client.triton.infer, "add", [tensor], outputs=[output])
        client.triton.unregister_system_shared_memory()
        assert client.triton.get_system_shared_memory_status() == []
        fails("", client.triton.infer, "add", [tensor])
    finally:
        shared_memory.destroy_shared_memory_region(region)
    assert client.triton.get_cuda_shared_memory_status() == []
    client.refused(404, "Unable to find cuda shared memory region: 'r'", "GET", "/v2/cudasharedmemory/region/r/status")
    client.triton.unregister_cuda_shared_memory()


def loads(client: Client) -> None:
    content = Path(client.model).read_bytes()
    client.triton.load_model("new", config=json.dumps({"backend": "onnxruntime"}), files={"file:1/model.onnx": content})
    assert client.triton.is_model_ready("new")
    assert np.array_equal(client.triton.infer("new", inputs()).as_numpy("sum"), X + 1)
    index = client.triton.get_model_repository_index()
    assert {"name": "new", "version": "1", "state": "READY", "reason": ""} in index, "MLServer's types demand a reason"
    states = {entry["name"]: entry.get("state") for entry in index}
    assert states["new"] == "READY", states
    client.triton.unload_model("new")
    assert not client.triton.is_model_ready("new")
    fails("", client.triton.load_model, "bad", config="{}", files={"file:1/model.onnx": b"no model"})
    fails("", client.triton.load_model, "bad", config="{}", files={"file:../../evil.onnx": content})


def may_only_infer(client: Client) -> None:
    """The server's file of tokens gives this client's token the right to infer alone."""
    client.refused(401, "expected a token", "GET", "/v2/models/add")
    client.refused(401, "not known", "GET", "/v2/models/add", Authorization="Bearer wrong")
    token = {"Authorization": f"Bearer {client.model}"}
    assert client.ask("GET", "/v2/models/add", **token)[0] == 200
    client.refused(403, "may not load", "POST", "/v2/repository/models/add/unload", **token)
    client.refused(403, "may not see metrics", "GET", "/metrics", **token)
    assert client.triton.is_server_live()
    result = client.triton.infer("add", inputs(), headers={"authorization": token["Authorization"]})
    assert np.array_equal(result.as_numpy("sum"), X + 1)


def main() -> None:
    address, case, *model = sys.argv[1:]
    globals()[case](Client(address, *model or [""]))
    print(f"done: {case}")


main()
