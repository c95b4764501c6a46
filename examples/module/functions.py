"""The functions of app.yaml: what is done to a picture before the network, and after it."""

import numpy as np

import penstock

PICTURE = "u8[60,80,3]"


def prepare(picture):
    """Channels first, from 0 to 1."""
    return picture.transpose(2, 0, 1)[None].astype(np.float32) / 255


def mark(picture, place):
    """A white cross at the place; a ball at the border is not worth a picture."""
    x, y = place
    if not 7 < x < 72:
        return penstock.Drop(f"at the border, x is {x}")
    marked = picture.copy()  # What comes in is read-only.
    marked[y, x - 7 : x + 8] = marked[max(y - 7, 0) : y + 8, x] = 255
    return marked


# A name of the module for each; a node of app.yaml calls it by the first argument.
prepared = penstock.Function("prepare", prepare, {"picture": PICTURE}, {"values": "f32[1,3,60,80]"})
marked = penstock.Function("mark", mark, {"picture": PICTURE, "place": "i64[2]"}, {"marked": PICTURE})
