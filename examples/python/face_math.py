"""Geometry for face.py, and a picture where none is at hand."""

from functools import cache

import numpy as np

from penstock import io


@cache
def anchors():
    """Of the detector's 896 boxes: centres from 0 to 1, and no size."""
    rows = []
    for cells, count in ((16, 2), (8, 6)):
        for y in range(cells):
            rows += [((x + 0.5) / cells, (y + 0.5) / cells, 0, 0) for x in range(cells) for _ in range(count)]
    return np.array(rows, np.float32)


def inside(points, box):
    """Points from 0 to 1 within the box, as the picture's pixels."""
    return (points * (box[2:] - box[:2]) + box[:2]).astype(np.float32)


def prepare(image):
    return io.resize(image, 128, 128)[None].astype(np.float32) / 127.5 - 1


def cropped(image, box, size):
    return io.resize(io.crop(image, box), size, size)[None].astype(np.float32) / 255


def read(picture):
    return drawn_face(picture) if isinstance(picture, int) else io.read_image(picture)


def drawn_face(shift):
    """A face as a detector may take for one, 480 x 480."""
    y, x = np.mgrid[:480, :480].astype(np.float32)
    x = x - shift
    image = np.full((480, 480, 3), (120, 150, 180), np.float32)

    def ellipse(centre_x, centre_y, radius_x, radius_y, colour):
        distance = ((x - centre_x) / radius_x) ** 2 + ((y - centre_y) / radius_y) ** 2
        cover = np.clip((1.1 - distance) / 0.2, 0, 1)[..., None]
        image[:] = image * (1 - cover) + np.array(colour, np.float32) * cover

    ellipse(240, 210, 120, 150, (60, 40, 30))  # Hair
    ellipse(240, 430, 60, 100, (200, 150, 125))  # Neck
    ellipse(240, 245, 100, 135, (224, 172, 145))
    for side in (-1, 1):
        ellipse(240 + 42 * side, 190, 28, 6, (70, 45, 35))  # Brow
        ellipse(240 + 42 * side, 217, 24, 11, (250, 250, 250))
        ellipse(240 + 42 * side, 217, 10, 10, (70, 50, 40))
        ellipse(240 + 42 * side, 217, 4, 4, (10, 10, 10))
        ellipse(240 + 12 * side, 285, 7, 5, (150, 95, 80))  # Nostril
    ellipse(240, 268, 13, 28, (210, 155, 130))
    ellipse(240, 325, 36, 11, (180, 80, 80))
    ellipse(240, 324, 30, 2, (110, 40, 40))
    return image.astype(np.uint8)
