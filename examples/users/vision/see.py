"""Draws a box around the ball of each picture."""

import penstock
from penstock import io


def read(path):
    return io.prepare(io.read_image(path), picture)  # To the network's size and layout, from 0 to 1.


def draw(frame):
    x, y = frame["place"]
    return io.draw_boxes(io.read_image(frame.tag), [(x - 7, y - 7, x + 7, y + 7)])


with penstock.load("find.penstock") as pipeline, io.ImageFolder("drawn", draw) as drawn:
    picture = pipeline.get_inputs()[0]
    paths = [f"pictures/{index:02}.png" for index in range(12)]
    for frame in pipeline.stream(paths, feed=read):
        print(frame.tag, *frame["place"])
        drawn.write(frame)
