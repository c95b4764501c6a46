#!/usr/bin/env python3
"""Face, landmarks and iris as one pipeline: three networks and four functions, each a stage.

    examples/python/face.py MODELS RESULTS [PICTURES]

MODELS holds mp_face_detection_short, mp_face_landmark and mp_iris_landmark, each with a model.onnx.
RESULTS is the folder for the marked pictures. PICTURES is a file or folder; without, faces are drawn.
"""

import sys
from pathlib import Path

import numpy as np
from face_math import anchors, cropped, inside, prepare, read
from pictures import pictures_in

import penstock
from penstock import io

IMAGE, BOX, POINTS = "u8[h<=1920,w<=1920,3]", "f32[4]", "f32[468,2]"  # A box: left, top, right, bottom.


def find_face(image, regressors, scores):
    best = scores[0, :, 0].argmax()
    if scores[0, best, 0] < 0:  # The network gives a logit: even odds.
        return penstock.Drop("no face")
    x, y, w, h = (regressors[0, best, :4] / 128 + anchors()[best]) * (image.shape[1::-1] * 2)  # Width, height, twice.
    half = 0.75 * max(w, h)
    box = np.array([x - half, y - half, x + half, y + half], np.float32)
    return cropped(image, box, 192), box


def find_eye(image, points, face):
    points = inside(points.reshape(468, 3)[:, :2] / 192, face)
    centre, half = points[[33, 133]].mean(axis=0), 1.15 * np.abs(points[133] - points[33]).max()  # Of its corners.
    box = np.concatenate([centre - half, centre + half]).astype(np.float32)
    return cropped(image, box, 64), box, points


def draw(image, face, points, eye, iris):
    iris = inside(iris.reshape(5, 3)[:, :2] / 64, eye)
    return io.draw_points(io.draw_points(io.draw_boxes(image, [face, eye]), points), iris, (255, 0, 0))


def face_app(models):
    app = penstock.App("face")
    app.input("image", IMAGE)
    app.function("prepare", prepare, {"image": IMAGE}, {"input": "f32[1,128,128,3]"}, reads="image")
    app.network("detect", models / "mp_face_detection_short/model.onnx", reads={"input": "prepare.input"})
    ports = {"image": IMAGE, "regressors": "f32[1,896,16]", "scores": "f32[1,896,1]"}
    sources = ["image", "detect.regressors", "detect.classificators"]
    app.function("face", find_face, ports, {"crop": "f32[1,192,192,3]", "box": BOX}, reads=sources)
    app.network("landmark", models / "mp_face_landmark/model.onnx", reads={"input_1": "face.crop"})
    ports = {"image": IMAGE, "points": "f32[1,1,1,1404]", "face": BOX}
    outputs = {"crop": "f32[1,64,64,3]", "box": BOX, "points": POINTS}
    app.function("eye", find_eye, ports, outputs, reads=["image", "landmark.conv2d_21_1", "face.box"])
    app.network("iris", models / "mp_iris_landmark/model.onnx", reads={"input_1": "eye.crop"})
    ports = {"image": IMAGE, "face": BOX, "points": POINTS, "eye": BOX, "iris": "f32[1,15]"}
    sources = ["image", "face.box", "eye.points", "eye.box", "iris.output_iris"]
    app.function("draw", draw, ports, {"drawn": IMAGE}, reads=sources)
    app.output("drawn", "draw.drawn")
    return app


def main(models, results, place=None):
    pictures = range(-40, 41, 20) if place is None else pictures_in(place)  # Without: how far a drawn one is shifted.
    with face_app(Path(models)).start() as pipeline, io.ImageFolder(results, lambda frame: frame["drawn"]) as sink:
        stream = pipeline.stream(pictures, feed=read, dropped="yield")
        for picture in pictures:
            try:
                frame = next(stream)
            except penstock.PenstockError as error:
                print(f"{picture}: {error}", file=sys.stderr)
            else:
                sink.write(frame)
        drawn, without = (pipeline.stats()[outcome] for outcome in ("ok", "drops"))
    print(f"{drawn} faces drawn into {results}, {without} pictures without")
    return int(drawn + without < len(pictures))


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]) if len(sys.argv) in (3, 4) else __doc__)
    except penstock.PenstockError as error:
        sys.exit(f"face: {error}")
