#!/usr/bin/env python3
"""Digits in pictures: a classifier between a Python function and ready-made ones, all at work at the same time.

    examples/python/classify.py MODELS PICTURES

MODELS holds mnist_8 with its model.onnx; PICTURES is a file or folder, dark on light. What is wrong
with a picture is told, and the next one follows.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from pictures import pictures_in

import penstock
from penstock import io, ready


def prepare(image):
    grey = io.resize(image, 28, 28).astype(np.float32).mean(axis=2)
    return (grey.max() - grey)[None, None]


def classify_app(models):
    app = penstock.App("classify")
    app.input("image")
    picture, grey = {"image": "u8[h<=1920,w<=1920,3]"}, {"input": "f32[1,1,28,28]"}
    app.function("prepare", prepare, picture, grey, reads="image")
    app.network("network", models / "mnist_8/model.onnx", reads={"Input3": "prepare.input"})
    app.function("shares", ready.softmax(shape=(1, 10)), reads="network.Plus214_Output_0")
    app.function("best", ready.top_k(shape=(1, 10), k=1), reads="shares.probabilities")
    app.output("digit", "best.indices")
    app.output("share", "best.values")
    return app


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=Path)
    parser.add_argument("pictures")
    arguments = parser.parse_args()
    paths, failed = pictures_in(arguments.pictures), False
    with classify_app(arguments.models).start() as pipeline:
        stream = pipeline.stream(paths, feed=io.read_image)
        for path in paths:
            try:
                frame = next(stream)
                print(f"{path.name}: {frame['digit'].item()} ({frame['share'].item():.0%})")
            except penstock.PenstockError as error:
                print(f"{path.name}: {error}", file=sys.stderr)
                failed = True
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except penstock.PenstockError as error:
        sys.exit(f"classify: {error}")
