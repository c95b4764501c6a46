"""Makes a network that finds a red ball, find.onnx, and twelve pictures with one ball each. Nothing is trained."""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from PIL import Image, ImageDraw

WIDTH, HEIGHT, RADIUS = 80, 60, 5

axis = np.arange(-2 * RADIUS, 2 * RADIUS + 1)
distance = np.hypot(*np.meshgrid(axis, axis))
disk, ring = distance <= RADIUS, (distance > RADIUS) & (distance <= 2 * RADIUS)

# How red is each pixel? Where is most red in a disk as large as the ball, and least in the ring around it?
model = onnx.parser.parse_model(f"""
<ir_version: 8, opset_import: ["": 17]>
find (float[1,3,{HEIGHT},{WIDTH}] picture) => (int64[2] place) {{
    red = Conv (picture, colours)
    redness = Relu (red)
    heat = Conv <auto_pad = "SAME_UPPER"> (redness, ball)
    line = Reshape (heat, flat)
    best = ArgMax <axis = 0> (line)
    row = Div (best, width)
    column = Mod (best, width)
    place = Concat <axis = 0> (column, row)
}}""")
constants = {
    "colours": np.array([2, -1, -1], np.float32).reshape(1, 3, 1, 1),
    "ball": (disk / disk.sum() - ring / ring.sum()).astype(np.float32)[None, None],
    "flat": np.array([-1]),
    "width": np.array([WIDTH]),
}
model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
onnx.checker.check_model(model, full_check=True)
onnx.save(model, "find.onnx")

Path("pictures").mkdir(exist_ok=True)
random = np.random.default_rng(0)
for index in range(12):
    picture = Image.new("RGB", (WIDTH, HEIGHT), (110, 110, 110))
    x, y = 12 + 5 * index, 14 + 3 * index
    ImageDraw.Draw(picture).ellipse((x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS), fill=(220, 40, 40))
    noisy = np.asarray(picture) + random.normal(0, 6, (HEIGHT, WIDTH, 3))
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(f"pictures/{index:02}.png")
print("find.onnx and 12 pictures")
