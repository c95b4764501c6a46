"""What unchanged clients of the Open Inference Protocol do with a server: ADDRESS CASE [MODEL.onnx].

Runs with .clients/bin/python. The server has the models of test_grpc.py: add (two outputs, versions 1 and 3), text,
int8 and half (the input again), open (any number of rows), slow, and running, which sums what its sequence was given.
"""

import asyncio
import os
import queue
import socket
import sys
import threading
import time
import traceback
from pathlib import Path

import grpc
import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
import tritonclient.http as triton_http
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, shared_memory

SECONDS = 120
X = np.arange(8, dtype=np.float32).reshape(2, 4)


class Client:
    def __init__(self, address: str, model: str) -> None:
        self.triton = triton.InferenceServerClient(address)
        self.channel = grpc.insecure_channel(address)
        self.raw = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)
        self.model = model

    def statistics(self, model: str = "add", version: str = "3"):
        return self.triton.get_inference_statistics(model, version).model_stats[0]


def inputs(array: np.ndarray = X, name: str = "x", datatype: str = "FP32") -> list:
    tensor = triton.InferInput(name, array.shape, datatype)
    tensor.set_data_from_numpy(array)
    return [tensor]


def raw_request(**changes) -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name="add", id="me")
    request.inputs.add(name="x", datatype="FP32", shape=[2, 4])
    request.raw_input_contents.append(X.tobytes())
    for name, change in changes.items():
        setattr(request, name, change)
    return request


def fails(code: str, text: str, call, *arguments, **named) -> None:
    """Whatever the client calls an error, its code and words."""
    try:
        call(*arguments, **named)
    except InferenceServerException as error:
        assert error.status() == f"StatusCode.{code}", error
        assert text in error.message(), error
    except grpc.RpcError as error:
        assert error.code().name == code, error
        assert text in error.details(), error
    else:
        raise AssertionError(f"expected {code}: {text}")


def until(holds) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.01)


def tells_of_itself(client: Client) -> None:
    it = client.triton
    assert it.is_server_live() and it.is_server_ready() and it.is_model_ready("add") and it.is_model_ready("add", "3")
    about = it.get_server_metadata()
    assert (
        about.name == "penstock" and "statistics" in about.extensions and "cuda_shared_memory" not in about.extensions
    )
    model = it.get_model_metadata("add")
    assert model.versions == ["1", "3"] and model.platform == "penstock"
    assert [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in model.outputs] == [
        ("sum", "FP32", [2, 4]),
        ("product", "FP32", [2, 4]),
    ]
    assert list(it.get_model_metadata("open").inputs[0].shape) == [-1, 2]
    config = it.get_model_config("running").config
    assert config.name == "running" and config.max_batch_size == 0 and config.HasField("sequence_batching")
    assert not it.get_model_config("add").config.HasField("sequence_batching")
    index = {(model.name, model.version): model.state for model in it.get_model_repository_index().models}
    assert index["add", "1"] == index["add", "3"] == index["running", "1"] == "READY"
    for call in it.is_model_ready, it.get_model_metadata, it.get_model_config, it.get_inference_statistics:
        fails("NOT_FOUND", "Request for unknown model: 'none' is not found", call, "none")
    fails("NOT_FOUND", "version 2 is not found", it.get_model_metadata, "add", "2")
    fails("INVALID_ARGUMENT", "version", it.get_model_metadata, "add", "one")
    fails(
        "UNIMPLEMENTED",
        "repository_name",
        client.raw.RepositoryIndex,
        service_pb2.RepositoryIndexRequest(repository_name="r"),
    )


def names_an_unknown_method(client: Client) -> None:
    for path in (
        "/inference.GRPCInferenceService/None",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ):
        said = (
            f"unknown method '{path}': this server has the services 'inference.GRPCInferenceService' and "
            "'grpc.health.v1.Health'"
        )
        fails("UNIMPLEMENTED", said, client.channel.unary_unary(path), b"")
        fails("UNIMPLEMENTED", said, next, client.channel.stream_stream(path)(iter([bytes(100_000)] * 3)))


def infers(client: Client) -> None:
    answer = client.triton.infer("add", inputs(), request_id="seven")
    assert np.array_equal(answer.as_numpy("sum"), X + 1) and np.array_equal(answer.as_numpy("product"), X * 3)
    assert answer.get_response().id == "seven" and answer.get_response().model_version == "3"
    asked = [triton.InferRequestedOutput("product")]
    answer = client.triton.infer("add", inputs(), model_version="1", outputs=asked)
    assert answer.as_numpy("sum") is None and np.array_equal(answer.as_numpy("product"), X * 3)
    assert answer.get_response().model_version == "1"
    classes = client.triton.infer("add", inputs(), outputs=[triton.InferRequestedOutput("sum", class_count=2)])
    assert list(classes.as_numpy("sum")) == [b"8:7", b"7:6"]
    answer = client.triton.infer("app", inputs(name="frame"))  # An application of YAML.
    assert np.array_equal(answer.as_numpy("more"), X + 1)
    for rows in 1, 5, 300:
        array = np.random.default_rng(rows).random((rows, 2), np.float32)
        assert np.array_equal(client.triton.infer("open", inputs(array)).as_numpy("y"), array)
    for compression in "gzip", "deflate":
        answer = client.triton.infer("add", inputs(), compression_algorithm=compression)
        assert np.array_equal(answer.as_numpy("sum"), X + 1)


def infers_asynchronously(client: Client) -> None:
    answers: queue.Queue = queue.Queue()
    free = threading.Semaphore(8)
    for i in range(200):
        free.acquire()

        def done(result, error, number=i) -> None:
            free.release()
            answers.put((number, result, error))

        client.triton.async_infer("add", inputs(X + i), done)
    for _ in range(200):
        number, result, error = answers.get(timeout=SECONDS)
        assert error is None, error
        assert np.array_equal(result.as_numpy("sum"), X + number + 1)


def infers_in_asyncio(client: Client) -> None:
    async def ask() -> None:
        async with triton_aio.InferenceServerClient(sys.argv[1]) as it:
            answers = await asyncio.gather(*(it.infer("add", inputs(X + i)) for i in range(50)))
            for i, answer in enumerate(answers):
                assert np.array_equal(answer.as_numpy("sum"), X + i + 1)

            async def requests():
                for i in range(50):
                    yield {"model_name": "add", "inputs": inputs(X + i), "request_id": str(i)}

            number = 0
            async for answer, error in it.stream_infer(requests()):
                assert error is None, error
                assert answer.get_response().id == str(number)
                assert np.array_equal(answer.as_numpy("sum"), X + number + 1)
                number += 1
            assert number == 50

    asyncio.run(ask())


def carries_all_types(client: Client) -> None:
    words = np.array(["", "two", "\u00e4\u00f6\u00fc"], dtype=object)
    answer = client.triton.infer("text", inputs(words, datatype="BYTES")).as_numpy("y")
    assert [word.decode() for word in answer] == list(words)
    numbers = np.array([-128, 0, 127], np.int8)
    assert np.array_equal(client.triton.infer("int8", inputs(numbers, datatype="INT8")).as_numpy("y"), numbers)
    halves = np.array([-1.5, 0, 65504], np.float16)
    assert np.array_equal(client.triton.infer("half", inputs(halves, datatype="FP16")).as_numpy("y"), halves)


def reads_contents(client: Client) -> None:
    request = raw_request()
    del request.raw_input_contents[:]
    request.inputs[0].contents.fp32_contents.extend(X.ravel())
    answer = client.raw.ModelInfer(request)
    assert np.array_equal(np.frombuffer(answer.raw_output_contents[0], np.float32), X.ravel() + 1)
    request = service_pb2.ModelInferRequest(model_name="int8")
    request.inputs.add(name="x", datatype="INT8", shape=[3]).contents.int_contents.extend([-1, 0, 1])
    assert client.raw.ModelInfer(request).raw_output_contents[0] == b"\xff\0\1"
    request = service_pb2.ModelInferRequest(model_name="text")
    request.inputs.add(name="x", datatype="BYTES", shape=[3]).contents.bytes_contents.extend([b"a", b"", b"b"])
    assert client.raw.ModelInfer(request).raw_output_contents[0] == b"\1\0\0\0a\0\0\0\0\1\0\0\0b"


def says_what_is_wrong(client: Client) -> None:
    ask = client.raw.ModelInfer
    fails("NOT_FOUND", "Request for unknown model: 'none'", ask, raw_request(model_name="none"))
    fails("NOT_FOUND", "version 2", ask, raw_request(model_version="2"))

    def wrong(text: str, change) -> None:
        request = raw_request()
        change(request)
        fails("INVALID_ARGUMENT", text, ask, request)

    def set_shape(*shape: int):
        return lambda request: (
            request.inputs[0].__setattr__("shape", 0)
            if not shape
            else (
                request.inputs[0].ClearField("shape"),
                request.inputs[0].shape.extend(shape),
            )
        )

    def set_parameter(name: str, **kind):
        return lambda request: request.parameters[name].MergeFrom(service_pb2.InferParameter(**kind))

    wrong("no datatype", lambda request: setattr(request.inputs[0], "datatype", "fp32"))
    wrong("expected f32[2,4], found i32[2,4]", lambda request: setattr(request.inputs[0], "datatype", "INT32"))
    wrong("expected f32[2,4], found f32[4,2]", set_shape(4, 2))
    wrong("expected sizes of 0 or more", set_shape(-1, 4))
    wrong("more elements than any memory holds", set_shape(2**62, 2**62))
    wrong("more elements than any memory holds", set_shape(2**61, 8))
    wrong("expected 1152921504606846976 bytes", set_shape(2**56, 4))
    wrong("expected a shape of at most", set_shape(*[1] * 100))
    wrong(
        "expected 32 bytes for f32[2,4], found 31", lambda request: request.raw_input_contents.__setitem__(0, bytes(31))
    )
    wrong("found 33", lambda request: request.raw_input_contents.__setitem__(0, bytes(33)))
    wrong("unable to find data for input tensor 'x'", lambda request: request.raw_input_contents.pop())
    wrong("contents field must not be specified", lambda request: request.inputs[0].contents.fp32_contents.append(1))
    wrong("unexpected inference input 'z'", lambda request: setattr(request.inputs[0], "name", "z"))
    wrong("expected 1 inputs but got 0", lambda request: request.inputs.pop())
    wrong(
        "twice",
        lambda request: (request.inputs.append(request.inputs[0]), request.raw_input_contents.append(X.tobytes())),
    )
    wrong("unexpected inference output 'z'", lambda request: request.outputs.add(name="z"))
    wrong("[request id: me]", lambda request: request.outputs.add(name="z"))
    wrong("sequence_start", set_parameter("sequence_start", int64_param=1))
    wrong("'timeout': expected a whole number", set_parameter("timeout", int64_param=-1))
    wrong("reserved", set_parameter("triton_of_the_future", bool_param=True))
    wrong(
        "must be given together",
        lambda request: (
            request.inputs[0]
            .parameters["shared_memory_region"]
            .MergeFrom(service_pb2.InferParameter(string_param="none"))
        ),
    )
    accepted = raw_request()
    set_parameter("triton_enable_empty_final_response", bool_param=False)(accepted)
    set_parameter("mine", string_param="own")(accepted)
    assert len(ask(accepted).raw_output_contents) == 2
    words = service_pb2.ModelInferRequest(model_name="text")
    words.inputs.add(name="x", datatype="BYTES", shape=[3])
    for raw, text in {
        b"\1\0\0\0a": "3 strings",
        b"\0" * 11: "3 strings",
        b"\0" * 13: "behind the last",
        b"\xff" * 12: "its length",
    }.items():
        del words.raw_input_contents[:]
        words.raw_input_contents.append(raw)
        fails("INVALID_ARGUMENT", text, ask, words)


def survives_malformed_messages(client: Client) -> None:
    """Bytes cut, changed and inserted at random: an error or an answer for each, and the next is served."""
    channel = client.raw.ModelInfer
    random = np.random.default_rng(7)
    good = raw_request().SerializeToString()
    send = grpc.insecure_channel(sys.argv[1]).unary_unary(
        "/inference.GRPCInferenceService/ModelInfer", request_serializer=bytes, response_deserializer=bytes
    )
    refused = 0
    for _ in range(1000):
        bad = bytearray(good)
        for _ in range(random.integers(1, 4)):
            place = int(random.integers(0, len(bad)))
            kind = random.integers(0, 3)
            if kind == 0:
                bad[place] = int(random.integers(0, 256))
            elif kind == 1:
                del bad[place : place + int(random.integers(1, 9))]
            else:
                bad[place:place] = random.bytes(int(random.integers(1, 9)))
            bad = bad or bytearray(b"\x08")
        try:
            send(bytes(bad), timeout=SECONDS)
        except grpc.RpcError as error:
            assert error.code().name in ("INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"), error
            refused += 1
    assert refused > 300
    assert len(channel(raw_request()).raw_output_contents) == 2
    fails("INVALID_ARGUMENT", "no ModelInferRequest", send, b"\x3a\xff\xff\xff\xff\x0f" + b"x")  # 4 GiB, it says.
    fails("INVALID_ARGUMENT", "fields", send, b"\x3a\0" * 70000)


def streams(client: Client) -> None:
    answers: queue.Queue = queue.Queue()
    client.triton.start_stream(lambda result, error: answers.put((result, error)))
    for i in range(300):
        client.triton.async_stream_infer("add", inputs(X + i), request_id=str(i), model_version=("1", "3")[i % 2])
    for i in range(300):
        result, error = answers.get(timeout=SECONDS)
        assert error is None, error
        response = result.get_response()
        assert response.id == str(i) and np.array_equal(result.as_numpy("sum"), X + i + 1)
        assert response.parameters["triton_final_response"].bool_param
    for i in range(20):
        client.triton.async_stream_infer("add", inputs(X + i), request_id=str(i))
    client.triton.stop_stream()  # Half closes: what was asked is answered.
    assert [answers.get(timeout=SECONDS)[0].get_response().id for _ in range(20)] == [str(i) for i in range(20)]


def streams_errors(client: Client) -> None:
    requests = [raw_request(id=str(i), model_name=("add", "none")[i % 2]) for i in range(10)]
    for i, response in enumerate(client.raw.ModelStreamInfer(iter(requests))):
        assert response.infer_response.id == str(i)
        assert bool(response.error_message) == (i % 2 == 1)
        assert len(response.infer_response.raw_output_contents) == (0 if i % 2 else 2)
    assert i == 9


def ends_a_stream_on_errors(client: Client) -> None:
    requests = [raw_request(), raw_request(model_name="none"), raw_request()]
    stream = client.raw.ModelStreamInfer(iter(requests), metadata=[("triton_grpc_error", "true")])
    fails("NOT_FOUND", "unknown model", list, stream)


def answers_before_it_ends_a_stream(client: Client) -> None:
    """What was asked first is answered first, though the error is known long before."""
    slow = service_pb2.ModelInferRequest(model_name="slow", id="slow")
    slow.inputs.add(name="x", datatype="FP32", shape=[1500, 1500])
    slow.raw_input_contents.append(bytes(4 * 1500 * 1500))
    slow.outputs.add(name="y").parameters["classification"].int64_param = 1  # A small reply.
    requests = [slow, raw_request(model_name="none"), raw_request()]
    stream = client.raw.ModelStreamInfer(iter(requests), metadata=[("triton_grpc_error", "true")])
    assert next(stream).infer_response.id == "slow"
    fails("NOT_FOUND", "unknown model", list, stream)


def names_itself_twice(client: Client) -> None:
    twice = [("authorization", "Bearer one"), ("authorization", "Bearer two")]
    sentence = "expected one 'authorization' of the metadata, found 2"
    fails("UNAUTHENTICATED", sentence, client.raw.ModelInfer, raw_request(), metadata=twice)
    fails("UNAUTHENTICATED", sentence, list, client.raw.ModelStreamInfer(iter([raw_request()]), metadata=twice))
    assert client.raw.ModelInfer(raw_request(), metadata=twice[:1]).id == "me"


def loses_its_token(client: Client) -> None:
    """What it asked before is answered, and its stream ends with the next request."""
    token, file = client.model.split(":", 1)
    asked: queue.Queue = queue.Queue()
    me = [("authorization", f"Bearer {token}")]
    stream = client.raw.ModelStreamInfer(iter(asked.get, None), metadata=me)
    asked.put(raw_request())
    assert next(stream).infer_response.id == "me"
    Path(file).write_text("# nobody\n")
    asked.put(raw_request())
    fails("UNAUTHENTICATED", "the token is not known here", next, stream)
    asked.put(None)
    fails("UNAUTHENTICATED", "the token is not known here", client.raw.ModelInfer, raw_request(), metadata=me)


def total(client: Client, number: int | str, add: float, start: bool = False, end: bool = False) -> list:
    array = np.array([add, 2 * add], np.float32)
    answer = client.triton.infer("running", inputs(array), sequence_id=number, sequence_start=start, sequence_end=end)
    return list(answer.as_numpy("sum"))


def has_sequences(client: Client) -> None:
    assert total(client, 1, 1, start=True) == [1, 2]
    assert total(client, "other", 10, start=True) == [10, 20]
    assert total(client, 1, 1) == [2, 4]
    assert total(client, "other", 1, end=True) == [11, 22]
    assert total(client, 0, 5) == [5, 10]  # Of no sequence.
    assert total(client, 1, 3) == [5, 10]
    assert total(client, 1, 1, start=True) == [1, 2]
    assert total(client, 1, 1, end=True) == [2, 4]
    fails("INVALID_ARGUMENT", "sequence 1 is not known", total, client, 1, 1)
    for number in 11, 12, 13:
        assert total(client, number, 1, start=True) == [1, 2]
    fails("RESOURCE_EXHAUSTED", "3 sequences at a time", total, client, 14, 1, start=True)
    for number in 11, 12, 13:
        assert total(client, number, 1, end=True) == [2, 4]


def has_sequences_in_streams(client: Client) -> None:
    answers: queue.Queue = queue.Queue()
    client.triton.start_stream(lambda result, error: answers.put((result, error)))
    one = np.ones(2, np.float32)
    for i in range(50):
        for number in 21, 22:
            client.triton.async_stream_infer(
                "running", inputs(one * number), sequence_id=number, sequence_start=i == 0, sequence_end=i == 49
            )
            result, error = answers.get(timeout=SECONDS)
            assert error is None, error
            assert result.as_numpy("sum")[0] == number * (i + 1)
    client.triton.stop_stream()


def slow(client: Client, done, **named):
    array = np.zeros((1500, 1500), np.float32)
    return client.triton.async_infer("slow", inputs(array), done, **named)


def cancels(client: Client) -> None:
    while not cancels_two(client):
        pass


def cancels_two(client: Client) -> bool:
    """False: the server had done them before this client, which got no CPU, cancelled them."""
    before = client.statistics("slow", "1").inference_stats.fail.count
    answers: queue.Queue = queue.Queue()
    calls = [slow(client, lambda result, error, i=i: answers.put((i, error))) for i in range(6)]
    told = [answers.get(timeout=SECONDS)]  # The server has got the others by then.
    cancelled = [i for i in range(6) if i != told[0][0]][-2:]
    for i in cancelled:
        calls[i].cancel()
    told += [answers.get(timeout=SECONDS) for _ in range(5)]
    ended = sorted(i for i, error in told if error is not None)
    if len(ended) < 2 and set(ended) <= set(cancelled):
        return False
    assert ended == cancelled, told
    until(lambda: client.statistics("slow", "1").inference_stats.fail.count == before + 2)
    return True


def times_out(client: Client) -> None:
    answers: queue.Queue = queue.Queue()
    for _ in range(3):
        slow(client, lambda result, error: answers.put(error))
    array = np.zeros((1500, 1500), np.float32)
    fails("DEADLINE_EXCEEDED", "", client.triton.infer, "slow", inputs(array), timeout=1000)
    fails("DEADLINE_EXCEEDED", "", client.triton.infer, "slow", inputs(array), client_timeout=0.05)
    assert [answers.get(timeout=SECONDS) for _ in range(3)] == [None] * 3
    assert client.triton.infer("slow", inputs(array), timeout=10**9).as_numpy("y").shape == (1500, 1500)


def is_full(client: Client) -> None:
    """More than may wait: refused at once, and all others answered."""
    answers: queue.Queue = queue.Queue()
    calls: list = []
    got: list = []
    while not got or got[-1] is None:
        if len(got) == len(calls):  # None was refused: this client, which got little CPU, sent them too slowly.
            calls += [slow(client, lambda result, error: answers.put(error)) for _ in range(60)]
        got.append(answers.get(timeout=SECONDS))
    assert got[-1].status() == "StatusCode.RESOURCE_EXHAUSTED" and "maximum queue size" in got[-1].message()
    for call in calls:
        call.cancel()
    for _ in range(len(calls) - len(got)):
        answers.get(timeout=SECONDS)


def counts(client: Client) -> None:
    before = client.statistics()
    for _ in range(10):
        client.triton.infer("add", inputs())
    fails("INVALID_ARGUMENT", "", client.triton.infer, "add", inputs(X[:, :2]))
    after = client.statistics()
    assert after.inference_count - before.inference_count == 10
    assert after.execution_count - before.execution_count == 10
    for name in "success", "queue", "compute_input", "compute_infer", "compute_output":
        old, new = getattr(before.inference_stats, name), getattr(after.inference_stats, name)
        assert new.count - old.count == 10, name
        assert name == "queue" or new.ns > old.ns, name
    assert after.inference_stats.fail.count - before.inference_stats.fail.count == 1
    assert after.last_inference >= before.last_inference and after.last_inference // 1000 - time.time() < 3600
    everything = {(model.name, model.version) for model in client.triton.get_inference_statistics().model_stats}
    assert {("add", "1"), ("add", "3"), ("slow", "1")} <= everything


def shares_memory(client: Client) -> None:
    it = client.triton
    it.unregister_system_shared_memory()
    it.unregister_cuda_shared_memory()
    key = f"/penstock_{os.getpid()}"
    region = shared_memory.create_shared_memory_region("both", key, 8192)
    try:
        shared_memory.set_shared_memory_region(region, [X])
        it.register_system_shared_memory("both", key, 8192)
        status = it.get_system_shared_memory_status().regions["both"]
        assert status.key == key and status.byte_size == 8192
        fails("ALREADY_EXISTS", "registered already", it.register_system_shared_memory, "both", key, 8192)
        fails("INVALID_ARGUMENT", "do not lie within", it.register_system_shared_memory, "more", key, 8193)
        fails("INVALID_ARGUMENT", "do not lie within", it.register_system_shared_memory, "far", key, 8, offset=2**63)
        fails("INVALID_ARGUMENT", "expected a key", it.register_system_shared_memory, "path", "/../etc/passwd", 8)
        it.register_system_shared_memory("half", key, 4096, offset=4096)
        tensor = triton.InferInput("x", X.shape, "FP32")
        tensor.set_shared_memory("both", X.nbytes)
        output = triton.InferRequestedOutput("sum")
        output.set_shared_memory("half", X.nbytes, offset=64)
        answer = it.infer("add", [tensor], outputs=[output, triton.InferRequestedOutput("product")])
        placed = answer.get_output("sum")
        assert placed.parameters["shared_memory_region"].string_param == "half"
        written = shared_memory.get_contents_as_numpy(region, np.float32, [2048])[(4096 + 64) // 4 :][:8]
        assert np.array_equal(written.reshape(2, 4), X + 1)
        assert answer.get_response().raw_output_contents[0] == b""
        assert np.array_equal(answer.as_numpy("product"), X * 3)
        for offset, size, text in (
            (8192 - 16, 32, "do not lie within"),
            (2**62, 32, "do not lie within"),
            (0, 16, "expected 32 bytes"),
        ):
            tensor = triton.InferInput("x", X.shape, "FP32")
            tensor.set_shared_memory("both", size, offset=offset)
            fails("INVALID_ARGUMENT", text, it.infer, "add", [tensor])
        tensor = triton.InferInput("x", X.shape, "FP32")
        tensor.set_shared_memory("both", X.nbytes)
        output.set_shared_memory("half", 8)
        fails("INVALID_ARGUMENT", "it has 32 bytes", it.infer, "add", [tensor], outputs=[output])
        it.unregister_system_shared_memory("both")
        fails("INVALID_ARGUMENT", "Unable to find shared memory region", it.infer, "add", [tensor])
        fails("NOT_FOUND", "both", it.get_system_shared_memory_status, "both")
        it.unregister_system_shared_memory()
        assert not it.get_system_shared_memory_status().regions and not it.get_cuda_shared_memory_status().regions
        fails("UNIMPLEMENTED", "system memory only", it.register_cuda_shared_memory, "c", b"AA==", 0, 8)
    finally:
        shared_memory.destroy_shared_memory_region(region)


def is_kept_from_memory(client: Client) -> None:
    """A region that a client of the server's machine registered is no business of one elsewhere, who may infer: that
    one's addresses are the third argument, of gRPC and of HTTP."""
    of_grpc, of_http = client.model.split(",")
    key = f"/penstock_{os.getpid()}"
    region = shared_memory.create_shared_memory_region("mine", key, 64)
    try:
        shared_memory.set_shared_memory_region(region, [X])
        client.triton.register_system_shared_memory("mine", key, 64)
        there, plain, output = triton.InferInput("x", X.shape, "FP32"), inputs(), triton.InferRequestedOutput("sum")
        there.set_shared_memory("mine", X.nbytes)
        output.set_shared_memory("mine", X.nbytes, offset=32)
        elsewhere = Client(of_grpc, "")
        asked = {"read": ([there], None), "write": (plain, [output])}
        for tensors, outputs in asked.values():
            fails("PERMISSION_DENIED", "server's own machine", elsewhere.triton.infer, "add", tensors, outputs=outputs)
        request = raw_request()
        del request.raw_input_contents[:]
        request.inputs[0].parameters["shared_memory_region"].string_param = "mine"
        request.inputs[0].parameters["shared_memory_byte_size"].int64_param = X.nbytes
        replies = list(elsewhere.raw.ModelStreamInfer(iter([request, raw_request()])))
        assert "server's own machine" in replies[0].error_message and not replies[1].error_message, replies
        over_http = triton_http.InferenceServerClient(of_http)
        tensor = triton_http.InferInput("x", list(X.shape), "FP32")
        tensor.set_shared_memory("mine", X.nbytes)
        try:
            over_http.infer("add", [tensor])
            raise AssertionError("it read the region")
        except InferenceServerException as error:
            assert error.status() == "403" and "server's own machine" in error.message(), error
        assert not shared_memory.get_contents_as_numpy(region, np.float32, [8], 32).any()
        assert np.array_equal(elsewhere.triton.infer("add", plain).as_numpy("sum"), X + 1)
        client.triton.infer("add", [there], outputs=[output])
        assert np.array_equal(shared_memory.get_contents_as_numpy(region, np.float32, [2, 4], 32), X + 1)
    finally:
        shared_memory.destroy_shared_memory_region(region)


def loads_and_unloads(client: Client) -> None:
    it = client.triton
    it.unload_model("half")
    assert not it.is_model_ready("half", "1")
    index = {model.name: model for model in it.get_model_repository_index().models}
    assert index["half"].state == "UNAVAILABLE" and index["half"].reason == "unloaded"
    fails("NOT_FOUND", "no available versions", it.infer, "half", inputs(np.zeros(3, np.float16), datatype="FP16"))
    assert it.is_server_ready()
    it.load_model("half")
    carries_all_types(client)
    it.load_model("half")
    carries_all_types(client)
    fails("NOT_FOUND", "failed to load 'none'", it.load_model, "none")
    it.unload_model("none")


def uploads(client: Client) -> None:
    it = client.triton
    model = Path(client.model).read_bytes()
    it.load_model(
        "mine", config='{"backend": "onnxruntime"}', files={"file:1/model.onnx": model, "file:2/model.onnx": model}
    )
    assert it.get_model_metadata("mine").versions == ["1", "2"]
    assert np.array_equal(it.infer("mine", inputs(), model_version="1").as_numpy("sum"), X + 1)
    two = {"file:1/model.onnx": model, "file:2/model.onnx": model[:100]}
    fails("INVALID_ARGUMENT", "version 2: file 'file:2", it.load_model, "two", config="{}", files=two)
    assert "two" not in [model.name for model in it.get_model_repository_index().models]
    it.load_model("mine", config='{"default_model_filename": "net.onnx"}', files={"file:2/net.onnx": model})
    assert it.get_model_metadata("mine").versions == ["2"]
    load = it.load_model
    fails("INVALID_ARGUMENT", "'config' must be specified", load, "mine", files={"file:1/model.onnx": model})
    fails("INVALID_ARGUMENT", "unknown field", load, "mine", config='{"max": 1}', files={"file:1/model.onnx": model})
    for path in "../x", "/etc/x", "1/../../x", "model.onnx":
        fails("INVALID_ARGUMENT", "VERSION/PATH", load, "mine", config="{}", files={f"file:{path}": model})
    fails("INVALID_ARGUMENT", "without '/'", load, "../mine", config="{}", files={"file:1/model.onnx": model})
    cut = {"file:1/model.onnx": model[:100]}
    fails("INVALID_ARGUMENT", "file 'file:1/model.onnx': not an ONNX", load, "broken", config="{}", files=cut)
    assert "broken" not in [model.name for model in it.get_model_repository_index().models] and it.is_server_ready()
    assert it.infer("mine", inputs()).as_numpy("sum") is not None
    it.unload_model("mine")
    fails("NOT_FOUND", "unknown model", it.get_model_metadata, "mine")
    bound = service_pb2.RepositoryModelLoadRequest(model_name="mine")
    bound.parameters["config"].string_param = "{}"
    bound.parameters["file:1/model.onnx"].bytes_param = Path(client.model).with_name("running.onnx").read_bytes()
    bound.parameters["constant:before"].int64_param = 7
    client.raw.RepositoryModelLoad(bound)
    assert [each.name for each in it.get_model_metadata("mine").inputs] == ["x"]
    bound.parameters["constant:before"].bytes_param = b"7"
    fails("INVALID_ARGUMENT", "'constant:before', expected string_param", client.raw.RepositoryModelLoad, bound)
    it.unload_model("mine")
    fails("NOT_FOUND", "failed to load", load, "mine")
    unknown = service_pb2.RepositoryModelLoadRequest(model_name="mine")
    unknown.parameters["what"].bool_param = True
    fails("INVALID_ARGUMENT", "unrecognized load parameter 'what'", client.raw.RepositoryModelLoad, unknown)


def answers_health(client: Client) -> None:
    def check(service: str) -> int:
        return client.health.Check(health_pb2.HealthCheckRequest(service=service)).status

    serving = health_pb2.HealthCheckResponse.SERVING
    assert check("") == check("inference.GRPCInferenceService") == check("int8") == serving
    fails("NOT_FOUND", "unknown service", check, "none")
    watch = client.health.Watch(health_pb2.HealthCheckRequest(service="int8"))
    assert next(watch).status == serving
    client.triton.unload_model("int8")
    assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
    client.triton.load_model("int8")
    assert next(watch).status == serving
    watch.cancel()


def answers_settings(client: Client) -> None:
    traced = {name: list(setting.value) for name, setting in client.triton.get_trace_settings().settings.items()}
    off = {"trace_file": "", "trace_level": "OFF", "trace_rate": "1000", "trace_count": "-1", "log_frequency": "0"}
    assert traced == {name: [value] for name, value in off.items()}
    assert client.triton.get_trace_settings("add").settings["trace_level"].value == ["OFF"]
    fails("NOT_FOUND", "unknown model: 'none'", client.triton.get_trace_settings, "none")
    assert client.triton.get_log_settings().settings["log_error"].bool_param
    fails("UNIMPLEMENTED", "cannot be changed", client.triton.update_log_settings, {"log_info": False})
    fails("UNIMPLEMENTED", "cannot be changed", client.triton.update_trace_settings, settings={"trace_rate": "1"})


def is_answered_at_the_end(client: Client) -> None:
    """The server ends while the pipeline has frames of this client."""
    answers: queue.Queue = queue.Queue()
    for _ in range(3):
        slow(client, lambda result, error: answers.put((result, error)))
    # Those are in progress, and so is who asks.
    until(lambda: client.statistics("slow", "1").inference_stats.success.count > 0)
    print("asked", flush=True)
    for _ in range(3):
        result, error = answers.get(timeout=SECONDS)
        assert error is None, error
        assert result.as_numpy("y").shape == (1500, 1500)


def is_told_in_an_idle_stream(client: Client) -> None:
    """The server ends while a stream is open in which nothing is in progress."""
    requests: queue.Queue = queue.Queue()
    requests.put(raw_request())
    answers = client.raw.ModelStreamInfer(iter(requests.get, None))
    assert not next(answers).error_message
    print("asked", flush=True)
    try:
        raise AssertionError(next(answers))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        assert "shutting down" in error.details(), error
    requests.put(None)


def goes_elsewhere_when_the_server_leaves(client: Client) -> None:
    """Many callers; whoever is told that the server is unavailable asks no more. Nobody hears anything else."""

    def ask() -> None:
        while True:
            time.sleep(0.02)  # Most of them come when the last request has ended.
            try:
                client.raw.ModelInfer(raw_request())
            except grpc.RpcError as error:
                told.append(error.code())
                return

    told: list = []
    callers = [threading.Thread(target=ask) for _ in range(24)]
    for caller in callers:
        caller.start()
    print("asked", flush=True)
    for caller in callers:
        caller.join(SECONDS)
    assert told == [grpc.StatusCode.UNAVAILABLE] * 24, told


def asks_until_the_server_is_gone(client: Client) -> None:
    """Callers that ask on and on, past the time that the server waits for them to be quiet."""

    def ask() -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                client.raw.ModelInfer(raw_request())
            except grpc.RpcError as error:
                told.add(error.code())
                if "failed to connect" in error.details():
                    return

    told: set = set()
    callers = [threading.Thread(target=ask) for _ in range(16)]
    for caller in callers:
        caller.start()
    print("asked", flush=True)
    for caller in callers:
        caller.join(SECONDS)
    assert told == {grpc.StatusCode.UNAVAILABLE}, told


def asks_until_another_answers(client: Client) -> None:
    print("asked", flush=True)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        answer = client.triton.infer("add", inputs()).as_numpy("sum")
        if np.array_equal(answer, X + 5):
            return
        assert np.array_equal(answer, X + 1)
    raise AssertionError("it is still the old one")


def computes_requests_together(client: Client) -> None:
    """Of a package whose plan takes up to four frames in one call."""
    for _ in range(20):
        requests = [raw_request(model_name="batched") for _ in range(8)]
        for i, request in enumerate(requests):
            request.raw_input_contents[0] = (X + i).tobytes()
        for i, future in enumerate([client.raw.ModelInfer.future(request) for request in requests]):
            answer = np.frombuffer(future.result(timeout=SECONDS).raw_output_contents[0], np.float32)
            assert np.array_equal(answer, (X + i).ravel() + 1)
    statistics = client.statistics("batched", "1")
    assert statistics.inference_count == 160 and statistics.execution_count < 160
    batches = statistics.batch_stats
    assert max(batch.batch_size for batch in batches) > 1
    assert sum(batch.compute_infer.count for batch in batches) == statistics.execution_count
    assert sum(batch.batch_size * batch.compute_infer.count for batch in batches) == 160
    for name in "compute_input", "compute_infer", "compute_output":
        assert all(getattr(batch, name).count == batch.compute_infer.count for batch in batches), name
    for batch in batches:
        assert batch.compute_input.ns > 0 and batch.compute_infer.ns > 0
    assert any(batch.compute_output.ns > 0 for batch in batches)  # That of the last call may be told later.
    # Frames that share a call share its time, which each of their requests has spent.
    times = sum(batch.compute_infer.ns for batch in batches)
    assert times < statistics.inference_stats.compute_infer.ns


def asks_through_reloads(client: Client) -> None:
    """Many at once, unary and in a stream, until the other end closes this one's input: nothing fails."""
    ends = threading.Event()
    failures: queue.Queue = queue.Queue()
    sums: set[float] = set()

    def check(array: np.ndarray) -> None:
        added = array - X.ravel()
        assert (added == added[0]).all() and added[0] in (1, 5), array
        sums.add(float(added[0]))

    def ask() -> None:
        try:
            while not ends.is_set():
                check(np.frombuffer(client.raw.ModelInfer(raw_request()).raw_output_contents[0], np.float32))
        except BaseException as error:
            failures.put(error)

    def stream() -> None:
        def requests():
            while not ends.is_set():
                yield raw_request()

        try:
            for answer in client.raw.ModelStreamInfer(requests()):
                assert not answer.error_message, answer.error_message
                check(np.frombuffer(answer.infer_response.raw_output_contents[0], np.float32))
        except BaseException as error:
            failures.put(error)

    threads = [threading.Thread(target=work) for work in [ask] * 4 + [stream] * 2]
    for thread in threads:
        thread.start()
    print("asked", flush=True)
    sys.stdin.read()
    ends.set()
    for thread in threads:
        thread.join(SECONDS)
    assert failures.empty(), failures.get()
    assert sums == {1, 5}, sums


def is_refused_while_it_is_full(client: Client) -> None:
    """The server takes two connections; this client has one."""
    host, _, port = sys.argv[1].rpartition(":")
    assert np.array_equal(client.triton.infer("add", inputs()).as_numpy("sum"), X + 1)
    others = [socket.create_connection((host, int(port))) for _ in range(4)]
    for other in others[1:]:
        try:
            while other.recv(4096):
                pass
        except ConnectionResetError:
            pass
    assert np.array_equal(client.triton.infer("add", inputs()).as_numpy("sum"), X + 1)
    own = [("grpc.use_local_subchannel_pool", 1)]
    second = triton.InferenceServerClient(sys.argv[1], channel_args=own)
    fails("UNAVAILABLE", "", second.infer, "add", inputs())
    others[0].close()
    until(lambda: is_live(second))


def is_logged(client: Client) -> None:
    trace = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
    client.triton.get_model_metadata("add")
    client.raw.ModelInfer(raw_request(id="one"), metadata=trace)
    fails("NOT_FOUND", "", client.raw.ModelInfer, raw_request(id="two", model_name="none"))
    list(client.raw.ModelStreamInfer(iter([raw_request(id="three"), raw_request(id="four", model_name="none")])))
    fails("NOT_FOUND", "", client.triton.load_model, "none")


def is_live(client: triton.InferenceServerClient) -> bool:
    try:
        return client.is_server_live()
    except InferenceServerException:
        return False


def outlives_a_flood(client: Client) -> None:
    """More connections than the server has descriptors."""
    host, _, port = sys.argv[1].rpartition(":")
    assert np.array_equal(client.triton.infer("add", inputs()).as_numpy("sum"), X + 1)
    flood = [socket.create_connection((host, int(port))) for _ in range(400)]
    assert np.array_equal(client.triton.infer("add", inputs()).as_numpy("sum"), X + 1)
    for one in flood:
        one.close()
    second = triton.InferenceServerClient(sys.argv[1], channel_args=[("grpc.use_local_subchannel_pool", 1)])
    until(lambda: is_live(second))
    assert np.array_equal(second.infer("add", inputs()).as_numpy("sum"), X + 1)


def over_tls(client: Client, **own) -> triton.InferenceServerClient:
    """`client.model` is the folder of the certificates."""
    address = sys.argv[1].replace("127.0.0.1", "localhost")
    return triton.InferenceServerClient(address, ssl=True, root_certificates=f"{client.model}/ca.pem", **own)


def is_served_over_tls(client: Client) -> None:
    assert np.array_equal(over_tls(client).infer("add", inputs()).as_numpy("sum"), X + 1)


def meets_another_certificate(client: Client) -> None:
    """`new/` has what the server is to show after its files changed."""
    until(lambda: shows(client, "new"))
    assert not shows(client, ".")


def shows(client: Client, folder: str) -> bool:
    """Whether the authority in the folder has signed what the server shows."""
    own = [("grpc.use_local_subchannel_pool", 1)]
    address = sys.argv[1].replace("127.0.0.1", "localhost")
    one = triton.InferenceServerClient(
        address, ssl=True, root_certificates=f"{client.model}/{folder}/ca.pem", channel_args=own
    )
    live = is_live(one)
    one.close()
    return live


def is_refused_in_plain_text(client: Client) -> None:
    fails("UNAVAILABLE", "", client.triton.infer, "add", inputs())


def is_served_with_a_certificate(client: Client) -> None:
    own = {"private_key": f"{client.model}/client.key", "certificate_chain": f"{client.model}/client.pem"}
    assert np.array_equal(over_tls(client, **own).infer("add", inputs()).as_numpy("sum"), X + 1)


def is_refused_without_a_certificate(client: Client) -> None:
    fails("UNAVAILABLE", "", over_tls(client).infer, "add", inputs())


def main() -> None:
    address, case = sys.argv[1:3]
    client = Client(address, sys.argv[3] if len(sys.argv) > 3 else "")
    globals()[case](client)
    client.triton.close()
    print(f"done: {case}", flush=True)


try:
    main()
except BaseException:
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)  # Threads of an open stream would wait for it.
