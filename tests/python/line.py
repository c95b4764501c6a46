"""The small network of these tests, and what it computes."""

from pathlib import Path

import numpy as np


def write_model(file: Path) -> Path:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Mul", ["x", "two"], ["twice"], name="double"),
        helper.make_node("Add", ["twice", "one"], ["y"], name="increment"),
        helper.make_node("Mul", ["y", "y"], ["z"], name="square"),
    ]
    constants = {"two": 2, "one": 1}
    graph = helper.make_graph(
        nodes,
        "line",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(np.array([value], np.float32), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return file


def frame(value: float) -> np.ndarray:
    return np.full((1, 4), value, np.float32)


def expected(value: float) -> np.ndarray:
    return frame((2 * value + 1) ** 2)
