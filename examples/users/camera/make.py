"""Makes two networks, which find a red ball and the four ends of it, and a second of video. Nothing is trained."""

import cv2
import numpy as np
import onnx
from onnx import numpy_helper

WIDTH, HEIGHT, RADIUS, CROP = 80, 60, 5, 24


def save(text, file, **constants):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items())
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, file)


axis = np.arange(-2 * RADIUS, 2 * RADIUS + 1)
distance = np.hypot(*np.meshgrid(axis, axis))
disk, ring = distance <= RADIUS, (distance > RADIUS) & (distance <= 2 * RADIUS)
redness = np.array([2, -1, -1], np.float32).reshape(1, 3, 1, 1)
save(
    f"""find (float[1,3,{HEIGHT},{WIDTH}] picture) => (int64[2] place) {{
        reds = Conv (picture, redness)
        red = Relu (reds)
        heat = Conv <auto_pad = "SAME_UPPER"> (red, ball)
        line = Reshape (heat, flat)
        best = ArgMax <axis = 0> (line)
        row = Div (best, width)
        column = Mod (best, width)
        place = Concat <axis = 0> (column, row)
    }}""",
    "find.onnx",
    redness=redness,
    ball=(disk / disk.sum() - ring / ring.sum()).astype(np.float32)[None, None],
    flat=np.array([-1]),
    width=np.array([WIDTH]),
)
save(
    f"""ends (float[1,3,{CROP},{CROP}] crop) => (int64[4] ends) {{
        reds = Conv (crop, redness)
        are = Greater (reds, limit)
        red = Cast <to = 1> (are)
        columns = ReduceMax <axes = [0, 1, 2], keepdims = 0> (red)
        rows = ReduceMax <axes = [0, 1, 3], keepdims = 0> (red)
        left = ArgMax <axis = 0> (columns)
        top = ArgMax <axis = 0> (rows)
        right = ArgMax <axis = 0, select_last_index = 1> (columns)
        bottom = ArgMax <axis = 0, select_last_index = 1> (rows)
        ends = Concat <axis = 0> (left, top, right, bottom)
    }}""",
    "ends.onnx",
    redness=redness,
    limit=np.float32(0.5),
)

video = cv2.VideoWriter("clip.avi", cv2.VideoWriter_fourcc(*"MJPG"), 30, (4 * WIDTH, 4 * HEIGHT))
for index in range(30):
    picture = np.full((4 * HEIGHT, 4 * WIDTH, 3), 110, np.uint8)
    cv2.circle(picture, (60 + 6 * index, 60 + 4 * index), 4 * RADIUS, (40, 40, 220), -1)  # OpenCV has blue first.
    video.write(picture)
video.release()
print("find.onnx, ends.onnx, clip.avi")
