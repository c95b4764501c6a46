#!/usr/bin/env python3
"""Writes networks of drawn widths, depths, kernels and inputs, one of each architecture, that nothing was tuned for.

    tools/draw_models.py --seed N --out DIR [NAME ...]

A seed draws the same networks again. Measure them with `bench/built.py DIR`.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from make_models import AFTER_LINEAR, MODELS, Net, Value, bert, conv_bn, lstm_layer, residual, separable, write

Draw = np.random.Generator


def one_of(draw: Draw, *values: int) -> int:
    return int(draw.choice(values))


def picture(net: Net, draw: Draw, *sizes: int) -> Value:
    size = one_of(draw, *sizes)
    return net.input("input", 1, one_of(draw, 1, 3), size, size)


def finish(net: Net, x: Value, draw: Draw) -> None:
    net.output("logits", net.classifier(x, "classifier", one_of(draw, 10, 100, 345, 1000), 1.0))


def activation(net: Net, x: Value, name: str, kind: str) -> Value:
    if kind == "Swish":
        return net.op("Mul", f"{name}.swish", x, net.op("Sigmoid", f"{name}.sigmoid", x))
    return net.op(kind, name, x)


def residuals(net: Net, draw: Draw) -> None:
    """Residual blocks of two convolutions."""
    kind, x = str(draw.choice(["Relu", "Elu", "LeakyRelu"])), picture(net, draw, 48, 96, 160, 224)
    x = net.conv(x, "stem", one_of(draw, 16, 24, 40), one_of(draw, 3, 5, 7), 2, gain=AFTER_LINEAR, bias=True)
    for level in range(one_of(draw, 3, 4)):
        width = x.shape[1] if level == 0 else x.shape[1] * 2 - one_of(draw, 0, 4, 8)
        for block in range(one_of(draw, 1, 2, 3)):
            prefix, stride = f"level{level}.{block}", 2 if level > 0 and block == 0 else 1
            y = activation(net, conv_bn(net, x, prefix, 1, width, one_of(draw, 1, 3, 5), stride), f"{prefix}.act", kind)
            x = residual(net, x, net.batch_norm(net.conv(y, f"{prefix}.out", width, 3), f"{prefix}.bn", 0.5),
                         prefix, stride)  # fmt: skip
    finish(net, x, draw)


def inverted(net: Net, draw: Draw) -> None:
    """Inverted residuals with depthwise convolutions and squeezes to a gate, as in MobileNetV3 and EfficientNet."""
    kind, x = str(draw.choice(["HardSwish", "Swish", "Relu"])), picture(net, draw, 96, 128, 192, 224)
    x = activation(net, net.conv(x, "stem", one_of(draw, 16, 24, 32), 3, 2, gain=1.0, bias=True), "stem.act", kind)
    for index in range(one_of(draw, 6, 9, 12)):
        name, stride, width = f"block{index}", 2 if index % 3 == 0 else 1, 16 + 8 * (index * one_of(draw, 1, 2) // 2)
        hidden = x.shape[1] * one_of(draw, 2, 3, 4, 6)
        y = activation(net, net.conv(x, f"{name}.expand", hidden, bias=True), f"{name}.act1", kind)
        y = net.conv(y, f"{name}.depthwise", hidden, one_of(draw, 3, 5, 7), stride, groups=hidden, gain=2.0, bias=True)
        y = activation(net, y, f"{name}.act2", kind)
        if draw.random() < 0.5:
            gate = net.op("GlobalAveragePool", f"{name}.pool", y, shape=(1, hidden, 1, 1))
            gate = net.relu(net.conv(gate, f"{name}.squeeze", hidden // 4, bias=True), f"{name}.squeeze.relu")
            gate = net.op("Sigmoid", f"{name}.gate", net.conv(gate, f"{name}.excite", hidden, bias=True))
            y = net.op("Mul", f"{name}.scale", y, gate)
        y = net.conv(y, f"{name}.project", width, gain=1.0, bias=True)
        x = net.add(x, y, f"{name}.add") if x.shape == y.shape else y
    finish(net, x, draw)


def shuffled(net: Net, draw: Draw) -> None:
    """Halves of channels, of which one passes by, shuffled after each block, as in ShuffleNetV2."""
    x, half = picture(net, draw, 96, 160, 224, 320), one_of(draw, 12, 24, 29, 58)
    x = net.relu(net.conv(x, "stem", 2 * half, 3, 2, gain=AFTER_LINEAR, bias=True), "stem.relu")
    kernel = one_of(draw, 3, 5)
    for index in range(one_of(draw, 5, 8, 11)):
        name, (_, channels, height, width) = f"block{index}", x.shape
        if index % 4 == 0:
            by = net.conv(x, f"{name}.by", channels, kernel, 2, groups=channels, gain=2.0, bias=True)
            y, half = x, channels
        else:
            sizes, half = net.constant(f"{name}.halves", [channels // 2] * 2), channels // 2
            names = [f"{name}.left", f"{name}.right"]
            net.op("Split", f"{name}.split", x, sizes, axis=1)
            net.nodes[-1].output[:] = names
            by, y = (Value(one, (1, half, height, width)) for one in names)
        y = net.relu(net.conv(y, f"{name}.in", half, bias=True), f"{name}.relu1")
        y = net.conv(y, f"{name}.depthwise", half, kernel, 2 if index % 4 == 0 else 1, groups=half, gain=2.0, bias=True)
        y = net.relu(net.conv(y, f"{name}.out", half, bias=True), f"{name}.relu2")
        x = net.concat([by, y], f"{name}.concat")
        _, channels, height, width = x.shape
        x = net.reshape(x, f"{name}.apart", 1, 2, channels // 2, height, width)
        x = net.reshape(net.transpose(x, f"{name}.shuffle", 0, 2, 1, 3, 4), f"{name}.join", 1, channels, height, width)
    finish(net, x, draw)


def dense(net: Net, draw: Draw) -> None:
    """Every layer reads all before it, as in DenseNet."""
    growth, x = one_of(draw, 8, 12, 20), picture(net, draw, 32, 64, 112)
    x = net.conv(x, "stem", 2 * growth, 3, gain=AFTER_LINEAR, bias=True)
    for level in range(3):
        for layer in range(one_of(draw, 3, 4, 6)):
            name = f"level{level}.{layer}"
            y = net.relu(net.batch_norm(x, f"{name}.bn"), f"{name}.relu")
            x = net.concat([x, net.conv(y, f"{name}.conv", growth, one_of(draw, 3, 5))], f"{name}.concat")
        x = net.pool("AveragePool", net.conv(x, f"level{level}.narrow", x.shape[1] // 2), f"level{level}.pool", 2, 2, 0)
    finish(net, x, draw)


def pyramid(net: Net, draw: Draw) -> None:
    """Down by convolutions, up by transposed ones, with skips between, as in U-Net: a mask of the picture's size."""
    x, levels, channels = picture(net, draw, 96, 128, 192), [], one_of(draw, 8, 12, 16)
    depth = one_of(draw, 3, 4)
    for level in range(depth):
        for index in range(2):
            x = net.relu(
                net.conv(x, f"down{level}.{index}", channels << level, 3, bias=True), f"down{level}.{index}.relu"
            )
        if level < depth - 1:
            levels.append(x)
            x = net.pool("MaxPool", x, f"down{level}.pool", 2, 2, 0)
    for level in reversed(range(depth - 1)):
        _, inside, height, width = x.shape
        weight = net.normal(f"up{level}.weight", (inside, channels << level, 2, 2), (2 / inside) ** 0.5)
        x = net.op("ConvTranspose", f"up{level}.up", x, weight, shape=(1, channels << level, 2 * height, 2 * width),
                   kernel_shape=[2, 2], strides=[2, 2])  # fmt: skip
        x = net.concat([x, levels[level]], f"up{level}.concat")
        x = net.relu(net.conv(x, f"up{level}.conv", channels << level, 3, bias=True), f"up{level}.relu")
    net.output("mask", net.op("Sigmoid", "mask", net.conv(x, "mask.conv", 1, bias=True)))


def branches(net: Net, draw: Draw) -> None:
    """Branches of several kernels side by side, and separable ones, as in Inception and NASNet."""
    x = net.relu(net.conv(picture(net, draw, 96, 128, 192), "stem", 32, 3, 2, gain=1.0, bias=True), "stem.relu")
    for index in range(one_of(draw, 3, 4, 6)):
        name, width = f"block{index}", one_of(draw, 16, 24, 48)
        parts = [net.relu(net.conv(x, f"{name}.point", width, bias=True), f"{name}.point.relu")]
        for kernel in (3, one_of(draw, 5, 7)):
            y = net.relu(net.conv(x, f"{name}.{kernel}.in", width // 2, bias=True), f"{name}.{kernel}.relu1")
            y = net.conv(y, f"{name}.{kernel}.out", width, kernel, bias=True)
            parts.append(net.relu(y, f"{name}.{kernel}.relu2"))
        parts.append(separable(net, x, f"{name}.separable", one_of(draw, 3, 5), 1, width))
        parts.append(net.conv(net.pool("AveragePool", x, f"{name}.pool", 3, 1, 1), f"{name}.pooled", width // 2))
        x = net.concat(parts, f"{name}.concat")
        x = net.pool("MaxPool", x, f"{name}.shrink", 3, 2, 1) if index % 2 == 0 else x
    finish(net, x, draw)


def transformer(net: Net, draw: Draw) -> None:
    heads = one_of(draw, 2, 3, 4, 6)
    bert(net, layers=one_of(draw, 1, 2, 3), width=heads * one_of(draw, 32, 48, 64), heads=heads,
         length=one_of(draw, 16, 48, 100, 197), vocabulary=one_of(draw, 500, 3000))  # fmt: skip


def recurrent(net: Net, draw: Draw) -> None:
    """Bidirectional LSTMs over a sequence."""
    x = net.input("input", one_of(draw, 8, 20, 50), 1, one_of(draw, 40, 64, 80))
    for layer in range(one_of(draw, 1, 2, 3)):
        x = lstm_layer(net, x, f"lstm{layer}", one_of(draw, 48, 96, 128, 200))
    net.output("logits", net.dense(x, "dense", one_of(draw, 29, 40), 9.0))


def gated(net: Net, draw: Draw) -> None:
    """A spectrum narrowed by convolutions, then GRUs and a mask, as in networks that clean speech."""
    bins, steps = one_of(draw, 64, 128, 160), one_of(draw, 1, 4, 16)
    x = net.input("spectrum", 1, 1, steps, bins)
    for level in range(one_of(draw, 1, 2)):
        x = net.op("PRelu", f"conv{level}.prelu", net.conv(x, f"conv{level}", 16 << level, 3, bias=True),
                   net.uniform(f"conv{level}.slope", (16 << level, 1, 1), 0.0, 0.4))  # fmt: skip
        x = net.pool("MaxPool", x, f"pool{level}", 1, 1, 0)
    x = net.transpose(x, "steps", 2, 0, 1, 3)
    x = net.dense(net.reshape(x, "rows", steps, 1, x.shape[2] * x.shape[3]), "narrow", one_of(draw, 64, 96))
    for layer in range(one_of(draw, 1, 2)):
        depth, hidden = x.shape[2], one_of(draw, 64, 128, 160)
        weights = (net.normal(f"gru{layer}.w", (1, 3 * hidden, depth), (2 / depth) ** 0.5),
                   net.normal(f"gru{layer}.r", (1, 3 * hidden, hidden), (1 / hidden) ** 0.5),
                   net.uniform(f"gru{layer}.b", (1, 6 * hidden), -0.1, 0.1))  # fmt: skip
        x = net.op("GRU", f"gru{layer}", x, *weights, shape=(steps, 1, 1, hidden), hidden_size=hidden,
                   linear_before_reset=1)  # fmt: skip
        x = net.reshape(x, f"gru{layer}.join", steps, 1, hidden)
    net.output("mask", net.op("Sigmoid", "mask", net.dense(x, "widen", bins)))


def waves(net: Net, draw: Draw) -> None:
    """Samples in time, by convolutions of growing dilation with skips, as in WaveNet and TCNs."""
    channels, length, kernel = one_of(draw, 16, 32, 48), one_of(draw, 1000, 4000, 8000), one_of(draw, 3, 5, 9)
    x = net.input("samples", 1, 1, 1, length)

    def conv(x: Value, name: str, dilation: int) -> Value:
        shape = (channels, x.shape[1], 1, kernel)
        weight = net.normal(f"{name}.weight", shape, (1 / (x.shape[1] * kernel)) ** 0.5)
        pad, bias = dilation * (kernel // 2), net.uniform(f"{name}.bias", channels, -0.2, 0.2)
        return net.op("Conv", name, x, weight, bias, shape=(1, channels, 1, x.shape[3]), kernel_shape=[1, kernel],
                      pads=[0, pad, 0, pad], dilations=[1, dilation])  # fmt: skip

    x = conv(x, "stem", 1)
    for layer in range(one_of(draw, 3, 5, 7)):
        name = f"layer{layer}"
        gate = net.op("Sigmoid", f"{name}.gate", conv(x, f"{name}.gate.conv", 1 << layer))
        y = net.op("Mul", f"{name}.gated", net.op("Tanh", f"{name}.tanh", conv(x, f"{name}.conv", 1 << layer)), gate)
        x = net.add(x, net.conv(y, f"{name}.out", channels, gain=1.0, bias=True), f"{name}.add")
    finish(net, x, draw)


ARCHITECTURES: dict[str, Callable[[Net, Draw], None]] = {
    make.__name__: make
    for make in (residuals, inverted, shuffled, dense, pyramid, branches, transformer, recurrent, gated, waves)
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="the folder to write to")
    parser.add_argument("--seed", type=int, required=True, help="a new one gives networks never seen")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(ARCHITECTURES)}")
    options = parser.parse_args()
    for index, (name, make) in enumerate(ARCHITECTURES.items()):
        if options.names and name not in options.names:
            continue
        draw = np.random.default_rng([options.seed, index])
        drawn = f"{name}_{options.seed}"
        MODELS[drawn] = lambda net, make=make, draw=draw: make(net, draw)  # type: ignore[misc]
        net = write(drawn, options.out, options.seed, external=False)
        shapes = " ".join(str([d.dim_value for d in one.type.tensor_type.shape.dim]) for one in net.inputs)
        print(f"{drawn:20} {len(net.nodes):5} nodes {net.parameters:11,} parameters  {shapes}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
