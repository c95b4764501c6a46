#!/usr/bin/env python3
"""Prints what ready-made functions take, beside OpenCV or numpy on the same arrays.

    bench/ready.py [--seconds 0.5] [--rounds 5] [--only decode] [--json FILE]

Both take turns, `rounds` times for `seconds` each, on one thread (`cv2.setNumThreads(1)`). The medians of the
time that this thread computed are printed with their ratio: above 1 the ready-made function is faster. `at most` is
what must hold, so that no function binds a pipeline whose network takes 2 ms. The calls go through Python, and
results are fresh arrays on both sides.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "build/release/lib/python"))

import cv2  # noqa: E402
import numpy as np  # noqa: E402

from penstock import ready  # noqa: E402

RANDOM = np.random.default_rng(0)
Work = tuple[str, float | None, Callable[[], Any], Callable[[], Any] | None]


def picture(height: int, width: int) -> np.ndarray:
    return RANDOM.integers(0, 256, (height, width, 3), np.uint8)


def letterboxed(image: np.ndarray) -> np.ndarray:
    made = cv2.resize(image, (640, 360))
    return cv2.copyMakeBorder(made, 140, 140, 0, 0, cv2.BORDER_CONSTANT, value=(114, 114, 114))


def by_area(image: np.ndarray) -> np.ndarray:
    return cv2.resize(image, (640, 360), interpolation=cv2.INTER_AREA)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def best_of(scores: np.ndarray, k: int) -> np.ndarray:
    top = np.argpartition(-scores, k)[..., :k]
    return np.take_along_axis(scores, top, -1)


def nms(predictions: np.ndarray) -> Any:
    scores = predictions[0, 4:]
    best, labels = scores.max(0), scores.argmax(0)
    kept = np.flatnonzero(best >= 0.25)
    boxes = predictions[0, :4, kept]
    boxes[:, :2] -= boxes[:, 2:] / 2
    return cv2.dnn.NMSBoxesBatched(boxes.tolist(), best[kept].tolist(), labels[kept].tolist(), 0.25, 0.45)


def predictions_of(count: int, classes: int, found: int) -> np.ndarray:
    """As YOLOv8 gives them: few of many boxes are found."""
    made = RANDOM.uniform(0, 0.2, (1, 4 + classes, count)).astype(np.float32)
    made[0, :2] = RANDOM.uniform(0, 640, (2, count))
    made[0, 2:4] = RANDOM.uniform(10, 200, (2, count))
    made[0, 4 + RANDOM.integers(0, classes, found), RANDOM.integers(0, count, found)] = 0.9
    return made


def numpys_mel(parts: np.ndarray, bands: np.ndarray) -> np.ndarray:
    return bands @ (np.abs(np.fft.rfft(parts)) ** 2).T


def works() -> list[Work]:
    full, frame = picture(1080, 1920), picture(640, 640)
    yuv = RANDOM.integers(0, 256, (1620, 1920), np.uint8)
    scores = RANDOM.normal(size=(1, 1000)).astype(np.float32)
    predictions = predictions_of(8400, 80, 300)
    sound = RANDOM.normal(size=48_000).astype(np.float32)
    jpeg = cv2.imencode(".jpg", cv2.GaussianBlur(full, (0, 0), 3))[1].ravel()
    rich = cv2.imencode(".jpg", cv2.GaussianBlur(full, (0, 0), 1))[1].ravel()
    ready_letterbox = ready.letterbox(size=640)
    resize, area = ready.resize(size=(360, 640)), ready.resize(size=(360, 640), how="area")
    normalise, colour = ready.normalise(size=640), ready.colour(source="nv12")
    ready_softmax, top_k = ready.softmax(shape=(1, 1000)), ready.top_k(shape=(1, 1000), k=5)
    ready_nms = ready.nms(count=8400, classes=80, layout="columns", boxes="centre")
    resample = ready.resample(rate=48000, to=16000, most=48000)
    mel, decode = ready.mel_spectrogram(samples=16000), ready.decode()
    parts = np.lib.stride_tricks.sliding_window_view(np.pad(sound[:16000], 200, mode="reflect"), 400)[::160]
    hann = np.hanning(401)[:-1].astype(np.float32)
    bands = RANDOM.uniform(size=(80, 201)).astype(np.float32)
    return [
        ("letterbox, 1080p to 640²", 2.0, lambda: ready_letterbox(full), lambda: letterboxed(full)),
        ("resize, 1080p to 640x360", 2.0, lambda: resize(full), lambda: cv2.resize(full, (640, 360))),
        ("the same, by area", None, lambda: area(full), lambda: by_area(full)),
        ("normalise, 640²", 1.0, lambda: normalise(frame), lambda: cv2.dnn.blobFromImage(frame, 1 / 255)),
        ("colour, 1080p of NV12", None, lambda: colour(yuv), lambda: cv2.cvtColor(yuv, cv2.COLOR_YUV2RGB_NV12)),
        ("softmax of 1000", 0.1, lambda: ready_softmax(scores), lambda: softmax(scores)),
        ("top 5 of 1000", 0.1, lambda: top_k(scores), lambda: best_of(scores, 5)),
        ("NMS, 8400 boxes of 80 classes", 1.0, lambda: ready_nms(predictions), lambda: nms(predictions)),
        ("resample, 1 s of 48 kHz to 16", 2.0, lambda: resample(sound), None),
        ("mel spectrogram, 1 s of 16 kHz", 2.0, lambda: mel(sound[:16000]), lambda: numpys_mel(parts * hann, bands)),
        ("decode, 1080p JPEG", None, lambda: decode(jpeg), lambda: cv2.imdecode(jpeg, cv2.IMREAD_COLOR_RGB)),
        ("decode, 1080p JPEG of detail", None, lambda: decode(rich), lambda: cv2.imdecode(rich, cv2.IMREAD_COLOR_RGB)),
    ]  # fmt: skip


def milliseconds(call: Callable[[], Any], seconds: float) -> float:
    count, start = 0, time.thread_time()
    while count == 0 or time.thread_time() - start < seconds:
        call()
        count += 1
    return (time.thread_time() - start) / count * 1000


def measure(work: Work, seconds: float, rounds: int) -> dict[str, Any]:
    name, most, own, other = work
    taken: list[list[float]] = [[], []]
    for _ in range(rounds):
        for times, call in zip(taken, (own, other), strict=True):
            if call is not None:
                times.append(milliseconds(call, seconds))
    medians = [statistics.median(times) if times else None for times in taken]
    return {"name": name, "at_most_ms": most, "ready_ms": medians[0], "other_ms": medians[1]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="what a line's name has to have in it")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    results = []
    print(f"{'':32}{'ready':>10}{'other':>10}{'ratio':>8}{'at most':>9}   (milliseconds)")
    for work in (work for work in works() if arguments.only in work[0]):
        result = measure(work, arguments.seconds, arguments.rounds)
        results.append(result)
        own, other, most = result["ready_ms"], result["other_ms"], result["at_most_ms"]
        ratio = f"{other / own:8.2f}" if other else " " * 8
        bar = f"{most:9.1f}" if most else " " * 9
        missed = "   MISSED" if most and own > most else ""
        print(
            f"{result['name']:32}{own:10.3f}{f'{other:10.3f}' if other else ' ' * 10}{ratio}{bar}{missed}", flush=True
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
