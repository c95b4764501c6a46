"""Follows a ball: a network finds it, a second one finds its ends in what is cut out around it.

python follow.py SOURCE     a camera's number, /dev/video0, rtsp://ADDRESS, or a video file
"""

import os
import sys

import numpy as np

import penstock
from penstock import io, ready

if len(sys.argv) != 2:
    sys.exit(__doc__)
IMAGE, CROP = "u8[h<=1080,w<=1920,3]", 24


def around(image, place):
    """What is cut out around the place, half as large, and where in the picture that is: left and top."""
    scale = np.array([image.shape[1] / 80, image.shape[0] / 60])
    left, top = (place + 0.5) * scale - CROP
    crop = io.resize(io.crop(image, (left, top, left + 2 * CROP, top + 2 * CROP)), CROP, CROP)
    return {"crop": crop, "from": np.array([left, top], np.float32)}


def box(ends, start):
    """The ends as pixels of the picture: left, top, right, bottom."""
    return (np.tile(start, 2) + 2 * ends).astype(np.float32)


def end(told=None):
    """Python writes no more, at its end, to where lines could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(told)


app = penstock.App("follow")
app.input("image", IMAGE)
app.function("small", ready.resize(size=(60, 80)), reads="image")
app.function("numbers", ready.normalise(size=(60, 80)), reads="small.image")  # Channels first, from 0 to 1.
app.network("find", "find.onnx", reads={"picture": "numbers.tensor"})
cut = {"crop": f"u8[{CROP},{CROP},3]", "from": "f32[2]"}
app.function("around", around, {"image": IMAGE, "place": "i64[2]"}, cut, reads=["image", "find.place"])
app.function("pixels", ready.normalise(size=CROP), reads="around.crop")
app.network("ends", "ends.onnx", reads={"crop": "pixels.tensor"})
ports = {"ends": "i64[4]", "start": "f32[2]"}
app.function("box", box, ports, {"box": "f32[4]"}, reads=["ends.ends", "around.from"])
app.output("box", "box.box")

try:
    source = sys.argv[1]
    if source.isdecimal() or "://" in source or source.startswith("/dev/"):
        # A camera does not wait: the newest picture is taken, and none is computed that is older than 100 ms.
        pictures, oldest = io.camera(int(source) if source.isdecimal() else source), 100
    else:  # A file waits for us: every picture counts, at the rate of a camera.
        pictures, oldest = io.video(source, rate=30), None
    with app.start(max_age_ms=oldest) as pipeline:
        for frame in pipeline.stream(pictures, errors="yield"):
            if frame.error is not None:
                print(frame.number, frame.error, file=sys.stderr)
            elif frame.number % 10 == 9:
                print(frame.number, *map(round, frame["box"].tolist()), flush=True)
        print(f"{pipeline.stats()['ok']} pictures", flush=True)
except BrokenPipeError:  # Who read the lines has enough, as `head` does.
    end()
except (OSError, penstock.PenstockError) as error:
    end(f"follow: {error}")
