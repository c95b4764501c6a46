"""Prints from when to when somebody speaks in speech.wav."""

import sys

import penstock
from penstock import io

BLOCK, RATE = 512, 16000

try:
    with penstock.load("voice.penstock") as pipeline:
        since = None
        blocks = io.wav("speech.wav", BLOCK, BLOCK, sample_rate=RATE)
        for frame in pipeline.stream(blocks, feed=lambda block: block.reshape(1, BLOCK)):
            second, speaks = frame.number * BLOCK / RATE, frame["voice"][0, 0] > 0.5
            if speaks and since is None:
                since = second
            elif not speaks and since is not None:
                print(f"from {since:.1f} to {second:.1f}")
                since = None
        if since is not None:
            print(f"from {since:.1f} to the end")
except penstock.PenstockError as error:
    sys.exit(f"listen: {error}")
