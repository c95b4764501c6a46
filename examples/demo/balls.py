#!/usr/bin/env python3
"""Two small networks that find a coloured ball in a picture, for script/demo: nothing in them is trained.

balls.py make FOLDER   writes find.onnx, name.onnx, balls.yaml beside them, and pictures/ to look at
balls.py show FOLDER   compares found.jsonl, which penstock wrote there, with what was drawn, and writes found.png
"""

import json
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper
from PIL import Image, ImageDraw

WIDTH, HEIGHT, RADIUS, BALLS = 160, 120, 10, 12
COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 170, 60),
    "blue": (50, 80, 220),
    "yellow": (230, 210, 50),
    "purple": (150, 50, 180),
    "orange": (240, 130, 30),
}


class Ball(NamedTuple):
    x: int
    y: int
    colour: str


def drawn() -> list[tuple[Image.Image, Ball]]:
    """The pictures, the same at each call: grey bricks and noise, and one ball before them."""
    random, result = np.random.default_rng(0), []
    for index in range(BALLS):
        picture = Image.new("RGB", (WIDTH, HEIGHT), (110, 110, 110))
        draw = ImageDraw.Draw(picture)
        for _ in range(10):
            (x, y), (width, height), grey = random.integers(0, (WIDTH, HEIGHT)), random.integers(8, 50, 2), 255
            draw.rectangle((x, y, x + width, y + height), fill=(int(random.integers(grey)),) * 3)
        x, y = (int(random.integers(2 * RADIUS, side - 2 * RADIUS)) for side in (WIDTH, HEIGHT))
        colour = list(COLOURS)[index % len(COLOURS)]
        draw.ellipse((x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS), fill=COLOURS[colour])
        noisy = np.asarray(picture) + random.normal(0, 6, (HEIGHT, WIDTH, 3))
        result.append((Image.fromarray(noisy.clip(0, 255).astype(np.uint8)), Ball(x, y, colour)))
    return result


def model(text: str, **constants: object) -> onnx.ModelProto:
    """A network in ONNX's own notation; its shapes, as numbers, and the weights that it names come from here."""
    text = f'<ir_version: 8, opset_import: ["": 17]> {text}'
    result = onnx.parser.parse_model(text.replace("HEIGHT", str(HEIGHT)).replace("WIDTH", str(WIDTH)))
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    result.graph.initializer.extend(arrays)
    onnx.checker.check_model(result, full_check=True)
    return result


def find() -> onnx.ModelProto:
    """Where is most colour in a disk as large as the ball, and least in the ring around it?"""
    axis = np.arange(-2 * RADIUS, 2 * RADIUS + 1)
    distance = np.hypot(*np.meshgrid(axis, axis))
    disk, ring = distance <= RADIUS, (distance > RADIUS) & (distance <= 2 * RADIUS)
    return model(
        """find (float[1,3,HEIGHT,WIDTH] picture) => (int64[2] place) {
            strongest = ReduceMax <axes = [1]> (picture)
            weakest = ReduceMin <axes = [1]> (picture)
            colourfulness = Sub (strongest, weakest)
            score = Conv <auto_pad = "SAME_UPPER"> (colourfulness, disk)
            scores = Reshape (score, flat)
            best = ArgMax <axis = 0> (scores)
            row = Div (best, width)
            column = Mod (best, width)
            place = Concat <axis = 0> (column, row)
        }""",
        disk=(disk / disk.sum() - ring / ring.sum()).astype(np.float32)[None, None],
        flat=np.array([-1]),
        width=np.array([WIDTH]),
    )


def name() -> onnx.ModelProto:
    """Which colour of the list is nearest to the mean of the few pixels around the place?"""
    return model(
        """name (float[1,3,HEIGHT,WIDTH] picture, int64[2] place) => (string[1] colour) {
            column, row = Split (place)
            rows = Add (row, around)
            rows_inside = Clip (rows, zero, last_row)
            columns = Add (column, around)
            columns_inside = Clip (columns, zero, last_column)
            stripe = Gather <axis = 2> (picture, rows_inside)
            patch = Gather <axis = 3> (stripe, columns_inside)
            mean = ReduceMean <axes = [2, 3], keepdims = 0> (patch)
            difference = Sub (colours, mean)
            distance = ReduceL2 <axes = [1], keepdims = 0> (difference)
            nearest = ArgMin <axis = 0> (distance)
            colour = Gather (words, nearest)
        }""",
        around=np.arange(-4, 5),
        zero=np.int64(0),
        last_row=np.int64(HEIGHT - 1),
        last_column=np.int64(WIDTH - 1),
        colours=np.array(list(COLOURS.values()), np.float32) / 255,
        words=np.array(list(COLOURS), object),
    )


def make(folder: Path) -> None:
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    for index, (picture, _) in enumerate(drawn()):
        picture.save(folder / f"pictures/{index:02}.png")
    onnx.save(find(), folder / "find.onnx")
    onnx.save(name(), folder / "name.onnx")
    shutil.copyfile(Path(__file__).with_name("balls.yaml"), folder / "balls.yaml")
    print(f"{folder}: find.onnx, name.onnx, balls.yaml and {BALLS} pictures")


def found(file: Path) -> list[Ball]:
    outputs = [json.loads(line)["outputs"] for line in file.read_text().splitlines()]
    return [Ball(*one["at"], *one["colour"]) for one in outputs]


def show(folder: Path) -> int:
    """Prints one line a picture and draws them on one sheet; fails where a ball was not found."""
    sheet, scale, in_a_row, right = Image.new("RGB", (4 * 2 * WIDTH, 3 * 2 * HEIGHT)), 2, 4, 0
    print("picture  ball drawn at      found at")
    for index, ((picture, truth), ball) in enumerate(zip(drawn(), found(folder / "found.jsonl"), strict=True)):
        right += (good := is_found(truth, ball))
        print(f"{index:02}.png   {told(truth):17}  {told(ball):17}  {'right' if good else 'WRONG'}")
        large = picture.resize((scale * WIDTH, scale * HEIGHT))
        draw, x, y = ImageDraw.Draw(large), scale * ball.x, scale * ball.y
        draw.line((x - 30, y, x + 30, y), fill="white")
        draw.line((x, y - 30, x, y + 30), fill="white")
        draw.text((4, 2), ball.colour, fill="white", stroke_width=2, stroke_fill="black")
        sheet.paste(large, (index % in_a_row * large.width, index // in_a_row * large.height))
    sheet.save(folder / "found.png")
    print(f"{right} of {BALLS} right; {folder / 'found.png'} shows a cross and the word on each picture")
    return 0 if right == BALLS else 1


def told(ball: Ball) -> str:
    return f"{ball.colour} {ball.x},{ball.y}"


def is_found(truth: Ball, ball: Ball) -> bool:
    return ball.colour == truth.colour and max(abs(ball.x - truth.x), abs(ball.y - truth.y)) <= 1


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "show"):
        sys.exit(__doc__)
    folder = Path(sys.argv[2])
    if sys.argv[1] == "show":
        return show(folder)
    make(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
