"""What strangers may send to a server: GRPC HTTP PID REQUESTS CONNECTIONS SEED.

Malformed requests over both protocols, REQUESTS in all; messages that are too long, or whose end never comes; bytes
that are no protocol; headers that come a byte at a time; CONNECTIONS that say nothing. Each gets an error of its own
or is closed; meanwhile others are served without one failure, and the server's memory stays within a bound. The server
has the models add and text of test_grpc.py, --max-message 8 MiB and --max-inputs 64 MiB.
"""

import errno
import http.client
import os
import random
import re
import socket
import struct
import sys
import threading
import time
import traceback
from pathlib import Path

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

MIB = 1 << 20
SECONDS = 120
X = np.arange(8, dtype=np.float32).reshape(2, 4)
SERVICE = "/inference.GRPCInferenceService/"
# What a request that is wrong may be told. Not that the server failed or has gone.
TOLD = {"INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED", "ALREADY_EXISTS", "DATA_LOSS",
        "FAILED_PRECONDITION", "PERMISSION_DENIED", "OUT_OF_RANGE"}  # fmt: skip
# A message whose own protocol is broken ends at gRPC's parser, which calls that so.
PARSER = {"INTERNAL": "parse"}
# How a send, a shutdown or a receive is told that the other end is gone.
CLOSED = {errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN}


def place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def request(**changes) -> service_pb2.ModelInferRequest:
    made = service_pb2.ModelInferRequest(model_name="add", id="me")
    made.inputs.add(name="x", datatype="FP32", shape=[2, 4])
    made.raw_input_contents.append(X.tobytes())
    for name, change in changes.items():
        setattr(made, name, change)
    return made


class Others:
    """Who is served all the while, over connections old and new."""

    def __init__(self, grpc_address: str, http_address: str) -> None:
        self.addresses = grpc_address, http_address
        self.ends = threading.Event()
        self.failures: list[str] = []
        self.served = {"grpc": 0, "http": 0}
        self.may_ask_again = False
        self.threads = [threading.Thread(target=work) for work in (self._over_grpc, self._over_http)]
        for thread in self.threads:
            thread.start()

    def _over_grpc(self) -> None:
        while not self.ends.is_set():
            with grpc.insecure_channel(self.addresses[0], [("grpc.use_local_subchannel_pool", 1)]) as channel:
                ask = unary(channel, "ModelInfer")
                for _ in range(20):
                    self._once("grpc", lambda ask=ask: ask(request().SerializeToString(), timeout=SECONDS))

    def _over_http(self) -> None:
        body = b'{"inputs":[{"name":"x","shape":[2,4],"datatype":"FP32","data":[0,1,2,3,4,5,6,7]}]}'

        def ask() -> None:
            connection = http.client.HTTPConnection(self.addresses[1], timeout=SECONDS)
            connection.request("POST", "/v2/models/add/infer", body)
            response = connection.getresponse()
            told = response.read()
            connection.close()
            assert response.status == 200, (response.status, told[:200])

        while not self.ends.is_set():
            self._once("http", ask)

    def _once(self, way: str, ask) -> None:
        try:
            ask()
            self.served[way] += 1
        except grpc.RpcError as error:
            # Where messages fill the memory that they may take, gRPC closes connections: one asks again.
            if error.code() != grpc.StatusCode.UNAVAILABLE or not self.may_ask_again:
                self.failures.append(repr(error))
        except BaseException as error:
            self.failures.append(repr(error))

    def end(self) -> None:
        self.ends.set()
        for thread in self.threads:
            thread.join(SECONDS)
        assert not self.failures, (len(self.failures), self.failures[:3])
        assert all(count > 10 for count in self.served.values()), self.served


def exchange(address: str, data: bytes) -> bytes:
    """What comes back before the connection is closed, or the first part of it."""
    with socket.create_connection(place(address), timeout=SECONDS) as one:
        try:
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
            return one.recv(65536)
        except OSError as error:
            if error.errno not in CLOSED:
                raise
            return b""


def unary(channel: grpc.Channel, method: str):
    return channel.unary_unary(SERVICE + method, request_serializer=bytes, response_deserializer=bytes)


def memory(pid: str) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def spoil(good: bytes, dice: random.Random) -> bytes:
    bad = bytearray(good)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(bad) + 1)
        kind = dice.randrange(4)
        if kind == 0 and at < len(bad):
            bad[at] = dice.randrange(256)
        elif kind == 1:
            del bad[at : at + dice.randint(1, 9)]
        elif kind == 2:
            bad[at:at] = dice.randbytes(dice.randint(1, 9))
        else:
            bad[at:at] = bad[: dice.randint(0, len(bad))]
    return bytes(bad)


def wrong_request(dice: random.Random) -> service_pb2.ModelInferRequest:
    """Well formed, and wrong."""
    made = request()
    tensor = made.inputs[0]
    kind = dice.randrange(8)
    if kind == 0:
        tensor.datatype = dice.choice(["", "FP64", "INT8", "BYTES", "fp32", "X" * 1000])
    elif kind == 1:
        del tensor.shape[:]
        tensor.shape.extend(dice.choice([[2**62, 2**62], [-1, 4], [2**31, 2**31, 4], [0, 4], [1] * 1000, [2**63 - 1]]))
    elif kind == 2:
        made.raw_input_contents[0] = dice.choice([b"", b"\0", bytes(31), bytes(33), bytes(4096)])
    elif kind == 3:
        for _ in range(dice.randint(1, 100)):
            made.raw_input_contents.append(bytes(dice.randrange(64)))
        made.model_name = dice.choice(["text", "none", "", "../add", "\0", "a" * 10000])
    elif kind == 4:
        del made.raw_input_contents[:]
        tensor.parameters["shared_memory_region"].string_param = dice.choice(["none", "", "a" * 5000])
        tensor.parameters["shared_memory_byte_size"].int64_param = dice.choice([-1, 0, 32, 2**63 - 1])
        tensor.parameters["shared_memory_offset"].uint64_param = dice.choice([0, 2**64 - 1])
    elif kind == 5:
        made.outputs.add(name=dice.choice(["none", "", "sum" * 1000]))
    elif kind == 6:
        name = dice.choice(["timeout", "priority", "sequence_id", "sequence_start", "triton_x"])
        made.parameters[name].int64_param = dice.choice([-1, -(2**63)])
        made.outputs.add(name="none")
    else:
        made.model_version = dice.choice(["-1", "2", "x", "9" * 100, " 1"])
    return made


def over_grpc(address: str, count: int, dice: random.Random) -> None:
    """Messages of each call, spoilt; those that are accepted were none that is wrong."""
    load = service_pb2.RepositoryModelLoadRequest(model_name="mine")
    load.parameters["config"].string_param = "{}"
    load.parameters["file:1/model.onnx"].bytes_param = dice.randbytes(200)
    region = service_pb2.SystemSharedMemoryRegisterRequest(name="r", key="/none", offset=2**63, byte_size=2**63)
    calls = [("ModelInfer", request()), ("RepositoryModelLoad", load), ("SystemSharedMemoryRegister", region),
             ("ModelStatistics", service_pb2.ModelStatisticsRequest(name="add")),
             ("ModelMetadata", service_pb2.ModelMetadataRequest(name="add", version="1"))]  # fmt: skip
    refused = 0
    with grpc.insecure_channel(address) as channel:
        methods = {name: unary(channel, name) for name, _ in calls}
        for i in range(count):
            name, good = calls[0] if i % 2 else dice.choice(calls)
            data = wrong_request(dice).SerializeToString() if i % 4 == 1 else spoil(good.SerializeToString(), dice)
            try:
                methods[name](data, timeout=SECONDS)
            except grpc.RpcError as error:
                code = error.code().name
                assert code in TOLD or PARSER.get(code, "\n") in error.details().lower(), (name, data, error)
                refused += 1
    assert refused >= count // 3, refused


def over_streams(address: str, count: int, dice: random.Random) -> None:
    """Each wrong request has its error; the stream goes on."""
    with grpc.insecure_channel(address) as channel:
        parse = service_pb2.ModelStreamInferResponse.FromString
        name = SERVICE + "ModelStreamInfer"
        stream = channel.stream_stream(name, request_serializer=bytes, response_deserializer=parse)
        for first in range(0, count, 100):
            data = [spoil(request().SerializeToString(), dice) for _ in range(min(100, count - first))]
            answers = list(stream(iter([*data, request().SerializeToString()]), timeout=SECONDS))
            assert len(answers) == len(data) + 1, len(answers)
            assert not answers[-1].error_message


def over_http(address: str, count: int, dice: random.Random) -> None:
    body = b'{"id":"me","inputs":[{"name":"x","shape":[2,4],"datatype":"FP32","parameters":{"binary_data_size":32}}]}'
    head = (f"POST /v2/models/add/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: {len(body)}\r\n"
            f"Content-Length: {len(body) + 32}\r\n\r\n").encode()  # fmt: skip
    load = b'{"parameters":{"config":"{}","file:1/model.onnx":"AAAA"}}'
    others = (
        f"POST /v2/repository/models/m/load HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(load)}\r\n\r\n".encode()
        + load
    )
    refused = 0
    for i in range(count):
        data = spoil(others if i % 4 == 0 else head + body + X.tobytes(), dice)
        told = exchange(address, data)
        assert not told or re.match(rb"HTTP/1\.[01] (2|4|501|503|505)", told), (data, told)
        refused += not told.startswith(b"HTTP/1.1 2")
    assert refused >= count // 3, refused


def garbage(addresses: list[str], count: int, dice: random.Random) -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for i in range(count):
        start = (b"", preface, preface + bytes(9), b"GET / HTTP/1.1\r\n", b"\x16\x03\x01")[i % 5]
        exchange(addresses[i % 2], start + dice.randbytes(dice.randint(0, 2000)))


def too_long(grpc_address: str, http_address: str) -> None:
    with grpc.insecure_channel(grpc_address) as channel:
        try:
            unary(channel, "ModelInfer")(request().SerializeToString() + b"\x3a\x80\x80\x80\x08" + bytes(16 * MIB))
            raise AssertionError("a message over the limit was read")
        except grpc.RpcError as error:
            assert error.code().name == "RESOURCE_EXHAUSTED", error
    head = f"POST /v2/models/add/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {16 * MIB}\r\n\r\n".encode()
    assert b" 413 " in exchange(http_address, head)


def frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
    return struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data


def headers() -> bytes:
    def literal(name: bytes, text: bytes) -> bytes:
        return b"\0" + bytes([len(name)]) + name + bytes([len(text)]) + text

    path = SERVICE.encode() + b"ModelInfer"
    fields = {b":method": b"POST", b":scheme": b"http", b":path": path, b":authority": b"a", b"te": b"trailers",
              b"content-type": b"application/grpc"}  # fmt: skip
    return b"".join(literal(name, text) for name, text in fields.items())


class Stalled:
    """A client that sends most of a message, as fast as it is let, and then no more."""

    SIZE = 7 * MIB

    def __init__(self, address: str) -> None:
        self.socket = socket.create_connection(place(address))
        begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 4, 1, headers())
        self.socket.sendall(begin + frame(0, 0, 1, struct.pack(">BI", 0, 8 * MIB - 1)))
        self.socket.setblocking(False)
        self.windows = {0: 65530, 1: 65530}
        self.sent, self.out, self.read, self.over = 0, bytearray(), b"", False

    def step(self) -> None:
        try:
            data = self.socket.recv(65536)
            self.over = not data
            self.read += data
            self._take_frames()
        except BlockingIOError:
            pass
        room = min(*self.windows.values(), 16384, self.SIZE - self.sent)
        if room > 0 and len(self.out) < 65536:
            self.out += frame(0, 0, 1, bytes(room))
            self.windows = {stream: left - room for stream, left in self.windows.items()}
            self.sent += room
        try:
            if self.out:
                del self.out[: self.socket.send(self.out)]
        except BlockingIOError:
            pass

    def _take_frames(self) -> None:
        while len(self.read) >= 9:
            length, kind, flags = int.from_bytes(self.read[:3]), self.read[3], self.read[4]
            if len(self.read) < 9 + length:
                return
            stream, data = int.from_bytes(self.read[5:9]), self.read[9 : 9 + length]
            self.read = self.read[9 + length :]
            if kind == 8:
                self.windows[stream] += int.from_bytes(data)
            elif kind == 4 and not flags & 1:
                for at in range(0, length, 6):
                    if int.from_bytes(data[at : at + 2]) == 4:
                        self.windows[1] += int.from_bytes(data[at + 2 : at + 6]) - 65535
                self.out += frame(4, 1, 0, b"")
            elif kind == 6 and not flags & 1:
                self.out += frame(6, 1, 0, data)
            self.over = self.over or kind in (1, 3, 7)


def stall(address: str, pid: str, count: int, before: int) -> None:
    """All at once, several times what all messages together may take."""
    clients = [Stalled(address) for _ in range(count)]
    end = time.monotonic() + SECONDS
    while True:
        busy = [client for client in clients if not client.over and client.sent < client.SIZE]
        if not busy or time.monotonic() > end:
            break
        for client in busy:
            try:
                client.step()
            except OSError:
                client.over = True
        check_memory(pid, before)
    for client in clients:
        client.socket.close()


def check_memory(pid: str, before: int) -> None:
    """Messages may take 72 MiB, inputs 64, and what the allocator keeps and each connection has about as much again."""
    grown = memory(pid) - before
    assert grown < 400 * MIB, f"{grown / MIB:.0f} MiB more than before"


def say_nothing(addresses: list[str], pid: str, count: int, before: int) -> None:
    """Half of them silent, half of them slow: a byte of the headers now and then."""
    held = [socket.create_connection(place(addresses[i % 2])) for i in range(count)]
    text = b"GET /v2/health/live HTTP/1.1\r\nHost: "
    for round_ in range(3):
        for one in held[::2]:
            try:
                one.send(text[round_ : round_ + 1])
            except OSError:
                pass  # It was turned away.
        check_memory(pid, before)
    for one in held:
        one.close()


def main() -> None:
    grpc_address, http_address, pid = sys.argv[1:4]
    count, connections, seed = map(int, sys.argv[4:7])
    dice = random.Random(seed)
    addresses = [grpc_address, http_address]
    over_grpc(grpc_address, 100, dice)
    before = memory(pid)
    others = Others(*addresses)
    started = time.monotonic()
    over_grpc(grpc_address, count * 4 // 10, dice)
    over_streams(grpc_address, count * 2 // 10, dice)
    over_http(http_address, count * 3 // 10, dice)
    garbage(addresses, count // 10, dice)
    check_memory(pid, before)
    too_long(*addresses)
    others.may_ask_again = True
    stall(grpc_address, pid, 64, before)
    served = dict(others.served)
    while any(others.served[way] < served[way] + 25 for way in served):  # What was closed then is told by now.
        time.sleep(0.01)
    others.may_ask_again = False
    say_nothing(addresses, pid, connections, before)
    others.end()
    seconds, grown = time.monotonic() - started, (memory(pid) - before) / MIB
    print(f"{count} malformed requests and {connections} silent connections in {seconds:.0f} s")
    print(f"{sum(others.served.values())} requests of others were served; {grown:.0f} MiB more memory")
    print("done: hostile", flush=True)


try:
    main()
except BaseException:
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)  # Threads of the others would be waited for.
