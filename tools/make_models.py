#!/usr/bin/env python3
"""Writes standard network architectures as ONNX files with seeded random weights.

A weight depends on the seed and on its own name only, so the same call writes the same bytes, inline or external.
Weights are scaled so that activations stay of order 1 through the depth: a wrong result shows in the output.
"""

import argparse
import math
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8
PAGE = 4096  # external weights start on a page, so that a runtime can map them
INLINE_BYTES = 1024  # smaller tensors stay in the model, where shape inference can read them

# What a layer's weights multiply its input's variance by, for the output to have variance 1: after a plain value,
# and after a ReLU when the weights of each output sum to zero (Brock et al. 2021, "scaled weight standardization").
AFTER_LINEAR, AFTER_RELU = 1.0, 2 / (1 - 1 / math.pi)

Shape = tuple[int, ...]
Part = tuple[int, np.ndarray]  # where in the tensor, in bytes; what


class Value(NamedTuple):
    name: str
    shape: Shape


class Weights:
    """Where tensors go: into the model, or one after the other into a file beside it as they are made."""

    def __init__(self, file: BinaryIO | None, location: str) -> None:
        self.file, self.location, self.end = file, location, 0

    def tensor(self, name: str, array: np.ndarray) -> TensorProto:
        if self.file is None or array.nbytes < INLINE_BYTES:
            return numpy_helper.from_array(array, name)
        return self.external(name, array.shape, [(0, array)])

    def external(self, name: str, shape: Shape, parts: Iterable[Part]) -> TensorProto:
        """A float tensor made of `parts`; what they leave out is zero, and a hole in the file."""
        assert self.file is not None
        offset, length = -(-self.end // PAGE) * PAGE, 4 * math.prod(shape)
        for start, array in parts:
            self.file.seek(offset + start)
            self.file.write(np.ascontiguousarray(array).data)
        self.end = offset + length
        self.file.truncate(self.end)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self.location), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        return tensor


class Net:
    """A graph under construction. Each method adds one layer, called `name`, and returns its output."""

    def __init__(self, name: str, seed: int, weights: Weights) -> None:
        self.name, self.seed, self.weights = name, seed, weights
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: dict[str, Value] = {}
        self.parameters = self.macs = 0

    # Tensors

    def input(self, name: str, *shape: int, dtype: int = TensorProto.FLOAT) -> Value:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return Value(name, shape)

    def output(self, name: str, value: Value) -> None:
        """Makes `value` an output of the graph; model() gives it its name there."""
        self.outputs[name] = value

    def random(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, zlib.crc32(f"{self.name}/{name}".encode())])

    def constant(self, name: str, content: Any, dtype: type = np.int64) -> Value:
        array: np.ndarray = np.asarray(content, dtype)
        self.initializers[name] = numpy_helper.from_array(array, name)
        return Value(name, array.shape)

    def parameter(self, name: str, array: np.ndarray) -> Value:
        self.initializers[name] = self.weights.tensor(name, array.astype(np.float32, copy=False))
        self.parameters += array.size
        return Value(name, array.shape)

    def normal(self, name: str, shape: Shape, scale: float, centre: tuple[int, ...] = ()) -> Value:
        """Normal weights; along the axes `centre` they sum to zero."""
        array: np.ndarray = self.random(name).standard_normal(shape, np.float32)
        if centre:  # in double: a processor's order of summation must not show in the bytes
            array -= array.mean(centre, np.float64, keepdims=True).astype(np.float32)
        array *= np.float32(scale)
        return self.parameter(name, array)

    def uniform(self, name: str, size: int | Shape, low: float, high: float) -> Value:
        return self.parameter(name, self.random(name).uniform(low, high, size))

    def sparse_rows(self, name: str, shape: tuple[int, int], scale: float, step: int) -> Value:
        """An external weight of which only each `step`-th row is not zero, drawn and written row by row."""
        random = self.random(name)

        def rows() -> Iterator[Part]:
            for row in range(0, shape[0], step):
                yield 4 * row * shape[1], random.standard_normal(shape[1], np.float32) * np.float32(scale)

        self.initializers[name] = self.weights.external(name, shape, rows())
        self.parameters += math.prod(shape)
        return Value(name, shape)

    # Layers

    def op(self, kind: str, name: str, *inputs: Value, shape: Shape | None = None, **attributes: Any) -> Value:
        """Any operator with one output, which has the shape of the first input unless told."""
        result = Value(f"{name}.out", inputs[0].shape if shape is None else shape)
        names = [value.name for value in inputs]
        self.nodes.append(helper.make_node(kind, names, [result.name], name, **attributes))
        return result

    def conv(self, x: Value, name: str, channels: int, kernel: int = 1, stride: int = 1, *, groups: int = 1,
             gain: float = AFTER_RELU, bias: bool = False, pad: int | None = None) -> Value:  # fmt: skip
        batch, depth, *size = x.shape
        pad = kernel // 2 if pad is None else pad
        shape = (channels, depth // groups, kernel, kernel)
        scale, centre = math.sqrt(gain / math.prod(shape[1:])), (1, 2, 3) if groups == 1 else ()
        inputs = [x, self.normal(f"{name}.weight", shape, scale, centre)]
        if bias:
            inputs.append(self.uniform(f"{name}.bias", channels, -0.2, 0.2))
        out = (batch, channels, *((n + 2 * pad - kernel) // stride + 1 for n in size))
        self.macs += math.prod(out) * math.prod(shape[1:])
        return self.op("Conv", name, *inputs, shape=out, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                       pads=[pad] * 4, dilations=[1, 1], group=groups)  # fmt: skip

    def batch_norm(self, x: Value, name: str, scale: float = 1.0) -> Value:
        channels = x.shape[1]
        statistics = (
            self.uniform(f"{name}.weight", channels, 0.8 * scale, 1.2 * scale),
            self.uniform(f"{name}.bias", channels, -0.2, 0.2),
            self.uniform(f"{name}.running_mean", channels, -0.2, 0.2),
            self.uniform(f"{name}.running_var", channels, 0.8, 1.2),
        )
        return self.op("BatchNormalization", name, x, *statistics, epsilon=1e-5)

    def relu(self, x: Value, name: str) -> Value:
        return self.op("Relu", name, x)

    def add(self, a: Value, b: Value, name: str) -> Value:
        return self.op("Add", name, a, b)

    def concat(self, values: list[Value], name: str) -> Value:
        batch, _, *size = values[0].shape
        shape = (batch, sum(value.shape[1] for value in values), *size)
        return self.op("Concat", name, *values, shape=shape, axis=1)

    def pool(self, kind: str, x: Value, name: str, kernel: int, stride: int, pad: int) -> Value:
        batch, channels, *size = x.shape
        shape = (batch, channels, *((n + 2 * pad - kernel) // stride + 1 for n in size))
        return self.op(kind, name, x, shape=shape, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def gemm(self, x: Value, name: str, width: int, gain: float = 1.0) -> Value:
        depth = x.shape[1]
        weight = self.normal(f"{name}.weight", (width, depth), math.sqrt(gain / depth))
        bias = self.uniform(f"{name}.bias", width, -0.2, 0.2)
        self.macs += x.shape[0] * depth * width
        return self.op("Gemm", name, x, weight, bias, shape=(x.shape[0], width), transB=1)

    def classifier(self, x: Value, name: str, classes: int, gain: float) -> Value:
        pooled = self.op("GlobalAveragePool", f"{name}.pool", x, shape=(*x.shape[:2], 1, 1))
        return self.gemm(self.op("Flatten", f"{name}.flatten", pooled, shape=x.shape[:2], axis=1), name, classes, gain)

    def matmul(self, a: Value, b: Value, name: str) -> Value:
        shape = (*a.shape[:-1], b.shape[-1])
        self.macs += math.prod(shape) * a.shape[-1]
        return self.op("MatMul", name, a, b, shape=shape)

    def dense(self, x: Value, name: str, width: int, gain: float = 1.0) -> Value:
        depth = x.shape[-1]
        weight = self.normal(f"{name}.weight", (depth, width), math.sqrt(gain / depth))
        product = self.matmul(x, weight, f"{name}.matmul")
        return self.add(product, self.uniform(f"{name}.bias", width, -0.1, 0.1), name)

    def layer_norm(self, x: Value, name: str) -> Value:
        scale = self.uniform(f"{name}.weight", x.shape[-1], 0.8, 1.2)
        bias = self.uniform(f"{name}.bias", x.shape[-1], -0.1, 0.1)
        return self.op("LayerNormalization", name, x, scale, bias, axis=-1, epsilon=1e-12)

    def reshape(self, x: Value, name: str, *shape: int) -> Value:
        return self.op("Reshape", name, x, self.constant(f"{name}.shape", shape), shape=shape)

    def transpose(self, x: Value, name: str, *order: int) -> Value:
        return self.op("Transpose", name, x, shape=tuple(x.shape[axis] for axis in order), perm=order)

    def model(self) -> onnx.ModelProto:
        renamed = {value.name: name for name, value in self.outputs.items()}
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [renamed.get(name, name) for name in names]
        outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in self.outputs.items()]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, outputs, list(self.initializers.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="make_models")
        model.ir_version = IR_VERSION
        return model


# Residual networks


def conv_bn(net: Net, x: Value, prefix: str, index: int, channels: int, kernel: int = 1, stride: int = 1) -> Value:
    x = net.conv(x, f"{prefix}.conv{index}", channels, kernel, stride)
    return net.batch_norm(x, f"{prefix}.bn{index}")


def residual(net: Net, x: Value, branch: Value, prefix: str, stride: int) -> Value:
    """relu(branch + x), with a projection of x where the shapes differ."""
    if x.shape != branch.shape:
        x = net.conv(x, f"{prefix}.downsample.0", branch.shape[1], 1, stride)
        x = net.batch_norm(x, f"{prefix}.downsample.1", 0.5)
    return net.relu(net.add(branch, x, f"{prefix}.add"), f"{prefix}.relu")


def resnet50(net: Net) -> None:
    x = net.conv(net.input("input", 1, 3, 224, 224), "conv1", 64, 7, 2, gain=AFTER_LINEAR)
    x = net.relu(net.batch_norm(x, "bn1"), "relu")
    x = net.pool("MaxPool", x, "maxpool", 3, 2, 1)
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], 1):
        for block in range(blocks):
            prefix, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = net.relu(conv_bn(net, x, prefix, 1, width), f"{prefix}.relu1")
            y = net.relu(conv_bn(net, y, prefix, 2, width, 3, stride), f"{prefix}.relu2")
            y = net.batch_norm(net.conv(y, f"{prefix}.conv3", 4 * width), f"{prefix}.bn3", 0.5)
            x = residual(net, x, y, prefix, stride)
    net.output("logits", net.classifier(x, "fc", 1000, 1.0))


def resnet_tiny(net: Net) -> None:
    x = net.conv(net.input("input", 1, 3, 32, 32), "conv1", 16, 3, gain=AFTER_LINEAR)
    x = net.relu(net.batch_norm(x, "bn1"), "relu")
    for stage, width in enumerate([16, 32, 64], 1):
        for block in range(2):
            prefix, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = net.relu(conv_bn(net, x, prefix, 1, width, 3, stride), f"{prefix}.relu1")
            y = net.batch_norm(net.conv(y, f"{prefix}.conv2", width, 3), f"{prefix}.bn2", 0.5)
            x = residual(net, x, y, prefix, stride)
    net.output("logits", net.classifier(x, "fc", 10, 1.0))


def diamond(net: Net) -> None:
    """Two branches, a join, a skip over both, and an output that is ready long before the other."""
    stem = net.relu(net.conv(net.input("input", 1, 3, 16, 16), "stem.conv", 8, 3, gain=1.0, bias=True), "stem.relu")
    net.output("early", net.classifier(stem, "early.fc", 4, 2.0))
    left = net.relu(net.conv(stem, "left.conv1", 8, 3, bias=True), "left.relu")
    left = net.conv(left, "left.conv2", 8, bias=True)
    right = net.op("Tanh", "right.tanh", net.conv(stem, "right.conv", 8, 5, bias=True))
    joined = net.relu(net.add(left, right, "join.add"), "join.relu")
    net.output("late", net.classifier(net.add(joined, stem, "skip.add"), "late.fc", 10, 1.0))


# MobileNetV2, its batch normalisation folded into the convolutions


def mobilenetv2(net: Net) -> None:
    low, high = net.constant("relu6.min", 0, np.float32), net.constant("relu6.max", 6, np.float32)

    def conv_relu6(x: Value, prefix: str, channels: int, kernel: int, stride: int, groups: int, gain: float) -> Value:
        x = net.conv(x, f"{prefix}.conv", channels, kernel, stride, groups=groups, gain=gain, bias=True)
        return net.op("Clip", f"{prefix}.relu6", x, low, high)

    def block(x: Value, prefix: str, expand: int, channels: int, stride: int) -> Value:
        hidden, y = x.shape[1] * expand, x
        if expand > 1:
            y = conv_relu6(y, f"{prefix}.expand", hidden, 1, 1, 1, AFTER_LINEAR)
        y = conv_relu6(y, f"{prefix}.depthwise", hidden, 3, stride, hidden, 2.0)
        shortcut = x.shape[1] == channels and stride == 1
        y = net.conv(y, f"{prefix}.project.conv", channels, gain=AFTER_RELU * (0.5 if shortcut else 1.0), bias=True)
        return net.add(x, y, f"{prefix}.add") if shortcut else y

    x = conv_relu6(net.input("input", 1, 3, 224, 224), "features.0", 32, 3, 2, 1, AFTER_LINEAR)
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    index = 1
    for expand, channels, repeat, first_stride in rows:
        for i in range(repeat):
            x = block(x, f"features.{index}", expand, channels, first_stride if i == 0 else 1)
            index += 1
    x = conv_relu6(x, f"features.{index}", 1280, 1, 1, 1, AFTER_LINEAR)
    net.output("logits", net.classifier(x, "classifier.1", 1000, 2.0))


# A small network of the kind that finds the points of an eye (as in MediaPipe)


def landmarks(net: Net) -> None:
    def prelu(x: Value, name: str) -> Value:
        return net.op("PRelu", name, x, net.uniform(f"{name}.slope", (x.shape[1], 1, 1), 0.0, 0.4))

    def block(x: Value, name: str, channels: int, stride: int) -> Value:
        skip = net.pool("MaxPool", x, f"{name}.shrink", 2, 2, 0) if stride > 1 else x
        y = net.conv(x, f"{name}.depthwise", x.shape[1], 3, stride, groups=x.shape[1], gain=AFTER_LINEAR, bias=True)
        y = net.conv(y, f"{name}.pointwise", channels, gain=0.5, bias=True)
        if skip.shape != y.shape:
            pads = net.constant(f"{name}.pads", [0, 0, 0, 0, 0, channels - x.shape[1], 0, 0])
            skip = net.op("Pad", f"{name}.widen", skip, pads, shape=y.shape)
        return prelu(net.add(skip, y, f"{name}.add"), f"{name}.prelu")

    x = net.conv(net.input("input", 1, 3, 64, 64), "stem.conv", 16, 3, 2, gain=AFTER_LINEAR, bias=True)
    x = prelu(x, "stem.prelu")
    for level, channels in enumerate((16, 32, 64, 64)):
        for index in range(3):
            x = block(x, f"level{level}.{index}", channels, 2 if level > 0 and index == 0 else 1)
    net.output("points", net.classifier(x, "points", 213, 1.0))


# BERT


def attention(net: Net, x: Value, mask: Value, prefix: str, heads: int) -> Value:
    _, length, width = x.shape

    def split(kind: str, *order: int) -> Value:
        projected = net.dense(x, f"{prefix}.self.{kind}", width)
        parts = net.reshape(projected, f"{prefix}.self.{kind}.split", 1, length, heads, width // heads)
        return net.transpose(parts, f"{prefix}.self.{kind}.transpose", *order)

    query, key, value = split("query", 0, 2, 1, 3), split("key", 0, 2, 3, 1), split("value", 0, 2, 1, 3)
    scale = net.constant(f"{prefix}.self.scale.value", math.sqrt(width // heads), np.float32)
    scores = net.op("Div", f"{prefix}.self.scale", net.matmul(query, key, f"{prefix}.self.scores"), scale)
    weights = net.op("Softmax", f"{prefix}.self.softmax", net.add(scores, mask, f"{prefix}.self.mask"), axis=-1)
    context = net.transpose(net.matmul(weights, value, f"{prefix}.self.context"), f"{prefix}.self.merge", 0, 2, 1, 3)
    return net.dense(net.reshape(context, f"{prefix}.self.join", 1, length, width), f"{prefix}.output.dense", width)


def gelu(net: Net, x: Value, name: str) -> Value:
    root, one, half = (
        net.constant(f"{name}.{word}", number, np.float32)
        for word, number in (("sqrt2", math.sqrt(2)), ("one", 1), ("half", 0.5))
    )
    erf = net.op("Erf", f"{name}.erf", net.op("Div", f"{name}.div", x, root))
    product = net.op("Mul", f"{name}.mul", x, net.add(erf, one, f"{name}.add"))
    return net.op("Mul", name, product, half)


def embeddings(net: Net, length: int, width: int, vocabulary: int) -> tuple[Value, Value]:
    """The embedded tokens, and the additive mask of the attention."""
    ids, mask, types = (
        net.input(name, 1, length, dtype=TensorProto.INT64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    )

    def table(kind: str, rows: int, index: Value) -> Value:
        weight = net.normal(f"embeddings.{kind}.weight", (rows, width), 1.0)
        return net.op("Gather", f"embeddings.{kind}", weight, index, shape=(1, length, width), axis=0)

    words, kinds = table("word_embeddings", vocabulary, ids), table("token_type_embeddings", 2, types)
    positions = net.constant("embeddings.position_ids", np.arange(length)[None])
    x = net.add(net.add(words, kinds, "embeddings.add_types"),
                table("position_embeddings", 512, positions), "embeddings.add_positions")  # fmt: skip
    one, far = net.constant("mask.one", 1, np.float32), net.constant("mask.far", -10000, np.float32)
    mask = net.op("Unsqueeze", "mask.unsqueeze", mask, net.constant("mask.axes", [1, 2]), shape=(1, 1, 1, length))
    mask = net.op("Cast", "mask.cast", mask, to=TensorProto.FLOAT)
    mask = net.op("Mul", "mask.mul", net.op("Sub", "mask.invert", one, mask, shape=mask.shape), far)
    return net.layer_norm(x, "embeddings.LayerNorm"), mask


def bert(net: Net, layers: int, width: int, heads: int, length: int, vocabulary: int) -> None:
    x, mask = embeddings(net, length, width, vocabulary)
    for layer in range(layers):
        prefix = f"encoder.layer.{layer}"
        y = attention(net, x, mask, f"{prefix}.attention", heads)
        x = net.layer_norm(net.add(x, y, f"{prefix}.attention.add"), f"{prefix}.attention.output.LayerNorm")
        y = net.dense(x, f"{prefix}.intermediate.dense", 4 * width)
        y = net.dense(gelu(net, y, f"{prefix}.intermediate.gelu"), f"{prefix}.output.dense", width, 2.0)
        x = net.layer_norm(net.add(x, y, f"{prefix}.output.add"), f"{prefix}.output.LayerNorm")
    net.output("last_hidden_state", x)
    first = net.op("Gather", "pooler.first", x, net.constant("pooler.index", 0), shape=(1, width), axis=1)
    net.output("pooler_output", net.op("Tanh", "pooler.tanh", net.gemm(first, "pooler.dense", width, 0.5)))


# A recurrent network


def lstm_layer(net: Net, x: Value, name: str, hidden: int) -> Value:
    """A bidirectional LSTM over [steps, batch, features], its two directions side by side in the result."""
    steps, batch, depth = x.shape
    weight = net.normal(f"{name}.weight_ih", (2, 4 * hidden, depth), math.sqrt(4 / depth))
    recurrence = net.normal(f"{name}.weight_hh", (2, 4 * hidden, hidden), math.sqrt(2 / hidden))
    bias = net.uniform(f"{name}.bias", (2, 8 * hidden), -0.1, 0.1)
    net.macs += 2 * steps * batch * 4 * hidden * (depth + hidden)
    y = net.op("LSTM", name, x, weight, recurrence, bias, shape=(steps, 2, batch, hidden),
               direction="bidirectional", hidden_size=hidden)  # fmt: skip
    y = net.transpose(y, f"{name}.transpose", 0, 2, 1, 3)
    return net.reshape(y, f"{name}.join", steps, batch, 2 * hidden)


def lstm(net: Net) -> None:
    x = net.input("input", 64, 1, 80)
    for layer in range(2):
        x = lstm_layer(net, x, f"lstm.{layer}", 256)
    net.output("logits", net.dense(x, "dense", 40, 9.0))


# NASNet-A (Zoph et al. 2018). A cell is five sums of two operations each; h and p are this cell's two inputs (the
# previous cell's output and the one before it), a digit is one of the cell's own sums.

Term = tuple[str, str]
NORMAL_CELL: list[tuple[Term, Term]] = [
    (("sep5", "h"), ("sep3", "p")),
    (("sep5", "p"), ("sep3", "p")),
    (("average", "h"), ("skip", "p")),
    (("average", "p"), ("average", "p")),
    (("sep3", "h"), ("skip", "h")),
]
REDUCTION_CELL: list[tuple[Term, Term]] = [
    (("sep5", "h"), ("sep7", "p")),
    (("max", "h"), ("sep7", "p")),
    (("average", "h"), ("sep5", "p")),
    (("average", "0"), ("skip", "1")),
    (("sep3", "0"), ("max", "h")),
]


def separable(net: Net, x: Value, name: str, kernel: int, stride: int, channels: int) -> Value:
    for index, step in enumerate((stride, 1), 1):
        prefix, depth = f"{name}.separable{index}", x.shape[1]
        x = net.relu(x, f"{prefix}.relu")
        x = net.conv(x, f"{prefix}.depthwise", depth, kernel, step, groups=depth, gain=2.0)
        x = net.conv(x, f"{prefix}.pointwise", channels, gain=AFTER_LINEAR)
        x = net.batch_norm(x, f"{prefix}.bn")
    return x


def term(net: Net, kind: str, x: Value, name: str, stride: int, channels: int) -> Value:
    if kind == "skip":
        return x
    if kind.startswith("sep"):
        return separable(net, x, name, int(kind[3:]), stride, channels)
    return net.pool({"average": "AveragePool", "max": "MaxPool"}[kind], x, f"{name}.{kind}_pool", 3, stride, 1)


def squeeze(net: Net, x: Value, name: str, channels: int) -> Value:
    x = net.conv(net.relu(x, f"{name}.relu"), f"{name}.conv", channels)
    return net.batch_norm(x, f"{name}.bn", 0.7)


def halve(net: Net, x: Value, name: str, channels: int) -> Value:
    """Halves height and width by two 1x1 convolutions, the second one of the image moved by a pixel."""
    x = net.relu(x, f"{name}.relu")
    pads = net.constant(f"{name}.pads", [0, 0, 0, 0, 0, 0, 1, 1])
    batch, depth, height, width = x.shape
    moved = net.op("Pad", f"{name}.pad", x, pads, shape=(batch, depth, height + 1, width + 1))
    starts, ends, axes = (
        net.constant(f"{name}.{word}", numbers)
        for word, numbers in (("starts", [1, 1]), ("ends", [height + 1, width + 1]), ("axes", [2, 3]))
    )
    moved = net.op("Slice", f"{name}.crop", moved, starts, ends, axes, shape=x.shape)
    halves = []
    for index, path in enumerate((x, moved), 1):
        path = net.pool("AveragePool", path, f"{name}.path{index}.pool", 1, 2, 0)
        halves.append(net.conv(path, f"{name}.path{index}.conv", channels // 2))
    return net.batch_norm(net.concat(halves, f"{name}.concat"), f"{name}.bn", 0.7)


def cell(net: Net, previous: Value, before: Value, name: str, channels: int, reduce: bool) -> Value:
    if before.shape[2:] != previous.shape[2:]:
        p = halve(net, before, f"{name}.adjust", channels)
    else:
        p = squeeze(net, before, f"{name}.adjust", channels)
    values = {"h": squeeze(net, previous, f"{name}.squeeze", channels), "p": p}
    for index, pair in enumerate(REDUCTION_CELL if reduce else NORMAL_CELL):
        sides = []
        for side, (kind, source) in zip(("left", "right"), pair, strict=True):
            stride = 2 if reduce and source in "hp" else 1
            sides.append(term(net, kind, values[source], f"{name}.{index}.{side}", stride, channels))
        values[str(index)] = net.add(sides[0], sides[1], f"{name}.{index}.add")
    return net.concat([values[key] for key in ("1234" if reduce else "p01234")], f"{name}.concat")


def nasnet(net: Net) -> None:
    """NASNet-A (4 @ 1056), the mobile one."""
    x = net.conv(net.input("input", 1, 3, 224, 224), "stem.conv", 32, 3, 2, pad=0, gain=AFTER_LINEAR)
    before = previous = net.batch_norm(x, "stem.bn")
    for index, channels in enumerate((11, 22)):
        before, previous = previous, cell(net, previous, before, f"stem.cell{index}", channels, True)
    for group, channels in enumerate((44, 88, 176)):
        if group > 0:
            before, previous = previous, cell(net, previous, before, f"reduction{group}", channels, True)
        for index in range(4):
            before, previous = previous, cell(net, previous, before, f"group{group}.cell{index}", channels, False)
    net.output("logits", net.classifier(net.relu(previous, "head.relu"), "head.fc", 1000, 1.0))


# A detector with a feature pyramid: three outputs, ready one after the other


def yolo_like(net: Net) -> None:
    def conv_silu(x: Value, name: str, channels: int, kernel: int = 3, stride: int = 1) -> Value:
        x = net.conv(x, f"{name}.conv", channels, kernel, stride, gain=2.65, bias=True)
        return net.op("Mul", f"{name}.silu", x, net.op("Sigmoid", f"{name}.sigmoid", x))

    def csp(x: Value, name: str, channels: int, shortcut: bool) -> Value:
        """Half of the channels pass by, half go through a bottleneck."""
        by, y = (conv_silu(x, f"{name}.{side}", channels // 2, 1) for side in ("by", "in"))
        inner = conv_silu(conv_silu(y, f"{name}.m.1", channels // 2, 1), f"{name}.m.2", channels // 2)
        y = net.add(y, inner, f"{name}.m.add") if shortcut else inner
        return conv_silu(net.concat([by, y], f"{name}.concat"), f"{name}.out", channels, 1)

    def up(x: Value, name: str, skip: Value) -> Value:
        x = conv_silu(x, f"{name}.reduce", skip.shape[1], 1)
        scales = net.constant(f"{name}.scales", [1, 1, 2, 2], np.float32)
        node = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        x = net.op("Resize", f"{name}.resize", x, Value("", ()), scales, shape=(1, x.shape[1], *skip.shape[2:]), **node)
        return csp(net.concat([x, skip], f"{name}.concat"), f"{name}.csp", skip.shape[1], False)

    x = conv_silu(net.input("images", 1, 3, 320, 320), "stem", 16, 3, 2)
    levels = []
    for index, channels in enumerate((32, 64, 128, 256)):
        x = conv_silu(x, f"backbone.{index}.down", channels, 3, 2)
        x = csp(x, f"backbone.{index}.csp", channels, True)
        levels.append(x)
    middle = up(levels[3], "neck.middle", levels[2])
    fine = up(middle, "neck.fine", levels[1])
    for name, level in (("coarse", levels[3]), ("middle", middle), ("fine", fine)):
        net.output(name, net.conv(level, f"head.{name}", 255, bias=True))


# More weights than a protobuf file can hold


def big(net: Net) -> None:
    """Seven weights of 340 MB each, 2.4 GB together; on disk 1 in 128 of that, the rest are holes."""
    width, step = 9216, 128
    x = net.input("input", 1, width)
    for layer in range(7):
        gain = AFTER_LINEAR if layer == 0 else 2.0
        name, scale = f"layer{layer}", math.sqrt(gain * step / width)
        weight = net.sparse_rows(f"{name}.weight", (width, width), scale, step)
        x = net.add(net.matmul(x, weight, f"{name}.matmul"), net.uniform(f"{name}.bias", width, -0.2, 0.2), name)
        x = net.relu(x, f"{name}.relu") if layer < 6 else x
    net.output("output", x)


MODELS: dict[str, Callable[[Net], None]] = {
    "resnet50": resnet50,
    "mobilenetv2": mobilenetv2,
    "landmarks": landmarks,
    "bert_base": lambda net: bert(net, layers=12, width=768, heads=12, length=128, vocabulary=30522),
    "bert_tiny": lambda net: bert(net, layers=2, width=128, heads=2, length=32, vocabulary=1000),
    "lstm": lstm,
    "nasnet": nasnet,
    "yolo_like": yolo_like,
    "resnet_tiny": resnet_tiny,
    "diamond": diamond,
    "big": big,
}
ALWAYS_EXTERNAL = {"big"}  # and made only when named


def write(name: str, folder: Path, seed: int, external: bool) -> Net:
    """Writes folder/NAME.onnx, and NAME.onnx.data for external weights, and checks what it wrote."""
    path, data = folder / f"{name}.onnx", folder / f"{name}.onnx.data"
    folder.mkdir(parents=True, exist_ok=True)
    data.unlink(missing_ok=True)
    if external or name in ALWAYS_EXTERNAL:
        with data.open("wb") as file:
            net = Net(name, seed, Weights(file, data.name))
            MODELS[name](net)
    else:
        net = Net(name, seed, Weights(None, data.name))
        MODELS[name](net)
    path.write_bytes(net.model().SerializeToString(deterministic=True))
    onnx.checker.check_model(path, full_check=True)
    return net


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to write to")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--external", action="store_true", help="weights in DIR/NAME.onnx.data")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all but big")
    options = parser.parse_args()
    if options.list:
        print("\n".join(MODELS))
        return 0
    unknown = [name for name in options.names if name not in MODELS]
    if options.out is None or unknown:
        parser.error(f"no such model: {', '.join(unknown)}; see --list" if unknown else "--out DIR is needed")
    print(f"{'name':12} {'nodes':>5} {'parameters':>11} {'MB':>8} {'GMAC':>7}")
    for name in options.names or [name for name in MODELS if name not in ALWAYS_EXTERNAL]:
        net = write(name, options.out, options.seed, options.external)
        size = sum(path.stat().st_size for path in options.out.glob(f"{name}.onnx*"))
        print(f"{name:12} {len(net.nodes):5} {net.parameters:11,} {size / 1e6:8.1f} {net.macs / 1e9:7.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
