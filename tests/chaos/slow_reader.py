"""Clients that ask for large answers and read nothing of them."""

import json
import socket
import struct
from pathlib import Path

import numpy as np

CALLS = 16  # Of each client.


def write_constant(file: Path, values: int, value: float = 0) -> Path:
    """y = x + value, x one value, y many: an answer that is much larger than its question."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])]
    ends.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [values]))
    many = numpy_helper.from_array(np.full(values, value, np.float32), "many")
    graph = helper.make_graph([helper.make_node("Add", ["x", "many"], ["y"])], "large", ends[:1], ends[1:], [many])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((host, int(port)))
    return made


def over_http(address: str, model: str) -> socket.socket:
    """Requests behind one another on one connection."""
    made = connect(address)
    data = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}
    body = json.dumps({"inputs": [data]}).encode()
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(body)}\r\n\r\n"
    made.sendall((head.encode() + body) * CALLS)
    return made


def over_grpc(address: str, model: str) -> socket.socket:
    """Calls at a time on one connection, whose windows are closed: HTTP/2 by hand."""
    made = connect(address)
    no_window = struct.pack(">HI", 4, 0)
    sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, no_window)
    message = request(model)
    for call in range(CALLS):
        stream = 2 * call + 1
        sent += frame(1, 4, stream, headers(address, "/inference.GRPCInferenceService/ModelInfer"))
        sent += frame(0, 1, stream, b"\0" + struct.pack(">I", len(message)) + message)
    made.sendall(sent)
    return made


def frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
    return struct.pack(">I", len(data))[1:] + struct.pack(">BBI", kind, flags, stream) + data


def headers(address: str, path: str) -> bytes:
    """HPACK's literals without an index."""
    said = {":method": "POST", ":scheme": "http", ":path": path, ":authority": address}
    said |= {"te": "trailers", "content-type": "application/grpc"}

    def text(value: str) -> bytes:
        return bytes([len(value)]) + value.encode()

    return b"".join(b"\0" + text(name) + text(value) for name, value in said.items())


def request(model: str) -> bytes:
    """A ModelInferRequest: model_name, one input x of [1], its bytes."""

    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    tensor = field(1, b"x") + field(2, b"FP32") + field(3, b"\1")
    return field(1, model.encode()) + field(5, tensor) + field(7, struct.pack("<f", 1))
