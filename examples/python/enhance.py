#!/usr/bin/env python3
"""Speech without noise: two networks that each remember, as one pipeline (DTLN).

    examples/python/enhance.py MODELS NOISY.wav CLEAN.wav

MODELS holds dtln_1 and dtln_2, each with a model.onnx; the sound is 16 kHz, and its channels are
averaged. The first network masks the spectrum of a block, the second its samples. What both know of
the past, and the sum of the blocks that overlap, goes from frame to frame by edges of their own: the
stages still run at once.
"""

import argparse
import wave
from pathlib import Path

import numpy as np

import penstock
from penstock import io

BLOCK, HOP, RATE = 512, 128, 16000


def spectrum(block):
    bins = np.fft.rfft(block)
    return {"magnitude": np.abs(bins).astype(np.float32)[None, None], "phase": np.angle(bins).astype(np.float32)}


def masked(magnitude, phase, mask):
    return np.fft.irfft((magnitude * mask)[0, 0] * np.exp(1j * phase)).astype(np.float32)[None, None]


def overlap(block, last):
    total = np.concatenate([last[HOP:], np.zeros(HOP, np.float32)]) + block[0, 0]
    return {"samples": total[:HOP], "sum": total}


def enhance_app(models):
    app = penstock.App("enhance")
    app.input("block")
    bins = {"magnitude": "f32[1,1,257]", "phase": "f32[257]"}
    app.function("spectrum", spectrum, {"block": "f32[512]"}, bins, reads="block")
    app.network("first", models / "dtln_1/model.onnx", reads={"input_2": "spectrum.magnitude"})
    sources = ["spectrum.magnitude", "spectrum.phase", "first.activation_2"]
    app.function("masked", masked, bins | {"mask": "f32[1,1,257]"}, {"block": "f32[1,1,512]"}, reads=sources)
    app.network("second", models / "dtln_2/model.onnx", reads={"input_4": "masked.block"})
    ports, outputs = {"block": "f32[1,1,512]", "last": "f32[512]"}, {"samples": "f32[128]", "sum": "f32[512]"}
    app.function("overlap", overlap, ports, outputs, reads={"block": "second.conv1d_3"})
    app.state("first.tf_op_layer_stack_2", "first.input_3")
    app.state("second.tf_op_layer_stack_5", "second.input_5")
    app.state("overlap.sum", "overlap.last")
    app.output("samples", "overlap.samples")
    return app


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=Path)
    parser.add_argument("noisy")
    parser.add_argument("clean")
    arguments = parser.parse_args()
    try:
        blocks = io.wav(arguments.noisy, BLOCK, HOP, sample_rate=RATE)
        with enhance_app(arguments.models).start() as pipeline:
            parts = [frame["samples"].copy() for frame in pipeline.stream(blocks)]
        samples = np.concatenate(parts)
        with open(arguments.clean, "wb") as out, wave.open(out, "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    except (penstock.PenstockError, OSError) as error:
        raise SystemExit(f"enhance: {error}") from None
    print(f"{len(samples) / RATE:.1f} s written to {arguments.clean}")


if __name__ == "__main__":
    main()
