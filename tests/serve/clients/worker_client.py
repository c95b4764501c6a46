"""A caller of penstock.worker, with messages made from worker.proto: worker_client.py DESCRIPTORS CASE ADDRESS..."""

import hashlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import numpy as np
import tritonclient.grpc as triton
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

POOL = descriptor_pool.DescriptorPool()
for file in descriptor_pb2.FileDescriptorSet.FromString(Path(sys.argv[1]).read_bytes()).file:
    POOL.Add(file)
SERVICE = POOL.FindServiceByName("penstock.worker.Worker")
PROTOCOL = 2
X = np.arange(8, dtype=np.float32).reshape(2, 4)


def message(name: str) -> Any:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"penstock.worker.{name}"))


class Stream:
    """Requests are written one by one; the answers are read as they come."""

    def __init__(self, method: Callable) -> None:
        self.requests: SimpleQueue = SimpleQueue()
        self.answers = method(iter(self.requests.get, None))

    def ask(self, request: Any) -> Any:
        self.requests.put(request)
        return next(self.answers)

    def close(self) -> None:
        self.requests.put(None)
        for _ in self.answers:
            pass


class Caller:
    def __init__(
        self, address: str, peers: tuple[str, ...] = (), folder: Path | None = None, lease_s: float = 60
    ) -> None:
        self.address = address
        self.channel = secure_channel(address, folder) if folder else grpc.insecure_channel(address)
        self.session = b""
        self.beats = Stream(self.method("Session"))
        opening = message("SessionRequest")()
        opening.open.protocol = PROTOCOL
        opening.open.caller = "test"
        opening.open.lease_ns = int(lease_s * 1e9)
        opening.open.peers.extend(peers)
        self.session = self.beats.ask(opening).session

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Keeps the session."""
        over = threading.Event()

        def beat() -> None:
            for number in count(1):
                request = message("SessionRequest")()
                request.beat.number = number
                self.beats.ask(request)
                if over.wait(0.1):
                    return

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def method(self, name: str) -> Callable:
        found = SERVICE.FindMethodByName(name)
        kinds = {(False, False): "unary_unary", (True, False): "stream_unary", (False, True): "unary_stream"}
        kind = kinds.get((found.client_streaming, found.server_streaming), "stream_stream")
        answers = message_factory.GetMessageClass(found.output_type)
        make = getattr(self.channel, kind)
        return make(
            f"/{SERVICE.full_name}/{name}",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=answers.FromString,
        )

    def missing(self, content: bytes) -> bool:
        request = message("MissingContentsRequest")(session=self.session, sha256=[sha256(content)])
        return len(self.method("MissingContents")(request).sha256) > 0

    def put(self, content: bytes) -> str:
        if self.missing(content):
            self.method("PutContent")(self.pieces(content, sha256(content)))
        return sha256(content)

    def pieces(self, content: bytes, digest: str) -> Iterator[Any]:
        make = message("PutContentRequest")
        head = make()
        head.head.session = self.session
        head.head.sha256 = digest
        head.head.bytes = len(content)
        yield head
        for begin in range(0, len(content), 100):
            yield make(piece=content[begin : begin + 100])

    def open(self, model: bytes, **more: Any) -> Any:
        request = message("OpenStageRequest")(session=self.session, name="head", backend="onnxruntime", pinned=True)
        request.device = f"cpu:{min(os.sched_getaffinity(0))}"
        for name, wanted in more.items():
            setattr(request, name, wanted)
        request.files.add(path="head.onnx", sha256=self.put(model))
        return self.method("OpenStage")(request)

    def run(self) -> Stream:
        stream = Stream(self.method("Run"))
        opening = message("RunRequest")()
        opening.open.session = self.session
        assert stream.ask(opening).opened.most_calls > 0
        return stream


def secure_channel(address: str, folder: Path) -> grpc.Channel:
    read = [(folder / name).read_bytes() for name in ("ca.pem", "client.key", "client.pem")]
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(*read))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def call(number: int, stage: int, value: np.ndarray | None = None, ticket: Any = None, keep: list | None = None) -> Any:
    request = message("RunRequest")()
    request.call.number = number
    request.call.stage = stage
    given = request.call.inputs.add(dtype=1, dims=X.shape)
    if ticket is not None:
        given.ticket.CopyFrom(ticket)
    else:
        given.raw = 0
        request.raw.append(value.tobytes())
    for pulls in keep or []:
        request.call.outputs.add(drop=pulls > 0, pulls=pulls)
    return request


def values_of(response: Any) -> list[np.ndarray]:
    assert not response.answer.HasField("error"), response.answer.error
    return [
        np.frombuffer(response.raw[output.raw - 1], np.float32).reshape(output.dims)
        for output in response.answer.outputs
        if output.raw
    ]


def fails(code: str, ask: Callable, *arguments: Any) -> str:
    try:
        ask(*arguments)
    except grpc.RpcError as error:
        assert error.code().name == code, error
        return error.details()
    raise AssertionError(f"expected {code}")


# What each case is given: the model (sum = x + 1, product = 3 x), then what test_worker.py says.


def runs_a_stage(model: bytes, address: str) -> None:
    caller = Caller(address)
    stage = caller.open(model)
    assert [port.name for port in stage.outputs] == ["sum", "product"]
    assert stage.engine_version
    stream = caller.run()
    total, product = values_of(stream.ask(call(1, stage.stage, X)))
    assert np.array_equal(total, X + 1)
    assert np.array_equal(product, 3 * X)
    stream.close()
    caller.beats.close()


def describes(model: bytes, address: str) -> None:
    told = Caller(address).method("Describe")(message("DescribeRequest")())
    assert {cpu.number for cpu in told.cpus} == {min(os.sched_getaffinity(0))}, told.cpus
    assert not told.native_code
    engines = {backend.name: backend for backend in told.backends}
    assert engines["onnxruntime"].engine_version
    assert engines["onnxruntime"].rules


def passes_tensors_directly(model: bytes, first: str, second: str, folder: str = "") -> None:
    where = Path(folder) if folder else None
    one, two = Caller(first, folder=where), Caller(second, peers=(first,), folder=where)
    stages = one.open(model).stage, two.open(model).stage
    runs = one.run(), two.run()
    for number in range(20):
        kept = runs[0].ask(call(number, stages[0], X + number, keep=[1, 0])).answer.outputs
        ticket = message("Ticket")(id=kept[0].ticket, address=first)
        assert kept[0].raw == 0
        done = values_of(runs[1].ask(call(number, stages[1], ticket=ticket)))
        assert np.array_equal(done[0], X + number + 2)
    again = runs[1].ask(call(99, stages[1], ticket=ticket))
    assert again.answer.error.code == grpc.StatusCode.NOT_FOUND.value[0], again


def measures(model: bytes, address: str) -> None:
    caller = Caller(address)
    request = message("MeasureRequest")(session=caller.session)
    request.files.add(path="stage.onnx", sha256=caller.put(model))
    cpu = min(os.sched_getaffinity(0))
    model_of_job = {"name": "m", "file": "stage.onnx", "backend": "onnxruntime", "precision": "f32", "optimize": True}
    job = {"id": 1, "models": [{**model_of_job, "options": {}, "custom_ops": []}], "cpus": [cpu], "link_to": []}
    job |= {"threads": 1, "flush_denormals": False, "neighbours": [], "shapes": {}, "values": {}, "seeds": []}
    job |= {"min_seconds": 0.01, "max_seconds": 0.05, "write_outputs": "", "reference": "", "peaks": False}
    request.job = json.dumps({**job, "relative": 1e-3, "absolute": 1e-5, "steps": 1})
    measured = caller.method("Measure")(request)
    assert '"done"' in measured.report, measured
    request.job = request.job.replace("stage.onnx", "/etc/passwd")
    assert "none of those" in fails("INVALID_ARGUMENT", caller.method("Measure"), request)


def is_known_again(model: bytes, address: str) -> None:
    assert not Caller(address).missing(model)


def brings_no_native_code(model: bytes, address: str) -> None:
    caller = Caller(address)
    request = message("OpenStageRequest")(session=caller.session, backend="onnxruntime", device="cpu:0")
    request.files.add(path="head.onnx", sha256=caller.put(model))
    request.custom_ops.add(path="ops.so", sha256=caller.put(model))
    fails("PERMISSION_DENIED", caller.method("OpenStage"), request)
    del request.custom_ops[:]
    request.options["session.model_external_initializers_file_folder_path"] = "/etc"
    fails("PERMISSION_DENIED", caller.method("OpenStage"), request)


def sends_rubbish(model: bytes, address: str) -> None:
    caller = Caller(address)
    fails("DATA_LOSS", caller.method("PutContent"), caller.pieces(model, "0" * 64))
    fails("INVALID_ARGUMENT", caller.open, b"no model at all")
    stage, stream = caller.open(model), caller.run()
    wrong = call(1, stage.stage, X)
    wrong.call.inputs[0].dims[0] = 1 << 40
    assert stream.ask(wrong).answer.error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    raw = caller.channel.stream_stream(f"/{SERVICE.full_name}/Run")
    generator = np.random.default_rng(1)
    for _ in range(200):
        try:
            list(raw(iter([generator.bytes(int(generator.integers(1, 200)))]), timeout=60))
        except grpc.RpcError as error:
            assert error.code() != grpc.StatusCode.UNAVAILABLE, error
    assert np.array_equal(values_of(stream.ask(call(2, stage.stage, X)))[0], X + 1)


def is_killed(model: bytes, address: str) -> None:
    caller = Caller(address, lease_s=15)
    with caller.beating():  # However long the worker takes to open the stage.
        caller.open(model)
    print("opened", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def loads_over_the_open_protocol(model: bytes, address: str) -> None:
    client = triton.InferenceServerClient(address)
    client.load_model("head", config="{}", files={"file:1/model.onnx": model})
    given = triton.InferInput("x", X.shape, "FP32")
    given.set_data_from_numpy(X)
    assert np.array_equal(client.infer("head", [given]).as_numpy("sum"), X + 1)
    client.unload_model("head")
    client.close()


def is_answered_at_the_end(model: bytes, address: str) -> None:
    caller = Caller(address)
    stage, stream = caller.open(model), caller.run()
    for number in range(50):
        stream.requests.put(call(number, stage.stage, X))
    print("asked", flush=True)
    answered = {next(stream.answers).answer.number for _ in range(50)}
    assert answered == set(range(50))


def main() -> None:
    _, case, model, *more = sys.argv[1:]
    globals()[case](Path(model).read_bytes(), *more)
    print(f"done: {case}", flush=True)


try:
    main()
except BaseException:
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)  # Threads of an open stream would wait for it.
os._exit(0)
