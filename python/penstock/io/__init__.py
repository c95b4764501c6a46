"""Sources of frames and sinks of results.

A source is an iterable, a sink has ``write(frame)``::

    from penstock import io

    with penstock.split("model.onnx") as pipeline, io.JsonLines("scores.jsonl") as sink:
        picture = pipeline.get_inputs()[0]
        for frame in pipeline.stream(io.images("photos"), lambda image: io.prepare(image, picture)):
            sink.write(frame)

Pictures need OpenCV or Pillow, video and cameras need OpenCV: ``pip install 'penstock[video]'``.
"""

from penstock.io.pictures import crop, draw_boxes, draw_points, prepare, read_image, resize, write_image
from penstock.io.sinks import ImageFolder, JsonLines, Npz, Sink, VideoFile
from penstock.io.sources import arrays, camera, images, latest, pace, raw, rows, video, wav

__all__ = [
    "ImageFolder",
    "JsonLines",
    "Npz",
    "Sink",
    "VideoFile",
    "arrays",
    "camera",
    "crop",
    "draw_boxes",
    "draw_points",
    "images",
    "latest",
    "pace",
    "prepare",
    "raw",
    "read_image",
    "resize",
    "rows",
    "video",
    "wav",
    "write_image",
]
