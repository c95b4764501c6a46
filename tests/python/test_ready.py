"""Ready-made functions beside OpenCV and numpy."""

import io
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

import penstock
from penstock import ready

SIZES = [(1, 1), (1, 7), (5, 1), (2, 2), (3, 5), (17, 31), (64, 48), (121, 77)]


def picture(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    shape = (height, width, channels)
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape, np.uint8)


def by_opencv(image: np.ndarray, size: tuple[int, int], how: int) -> np.ndarray:
    resized = cv2.resize(image, size[::-1], interpolation=how)
    return resized.reshape(*size, image.shape[2])


def within(level: int, found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found.astype(int) - wanted.astype(int)).max(initial=0) <= level


# Pictures


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_resize_is_opencvs_within_one_level(channels: int) -> None:
    for source in SIZES:
        image = picture(*source, channels)
        for size in SIZES:
            made = ready.resize(size=size, channels=channels)(image)
            within(1, made, by_opencv(image, size, cv2.INTER_LINEAR))


def covered(source: int, size: int) -> np.ndarray:
    """[size, source]: which share of each pixel of the result each of the source's covers."""
    edges = np.arange(size + 1)[:, None] * source / size
    borders = np.arange(source + 1)[None]
    both = np.minimum(edges[1:], borders[:, 1:]) - np.maximum(edges[:-1], borders[:, :-1])
    return np.maximum(0, both) * size / source


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_area_is_the_mean_of_what_is_covered(channels: int) -> None:
    for source in SIZES:
        image = picture(*source, channels)
        for size in SIZES:
            down, across = (covered(*sides) for sides in zip(source, size, strict=True))
            made = ready.resize(size=size, how="area", channels=channels)(image)
            assert np.abs(made - np.einsum("yr,xc,rcn->yxn", down, across, image)).max() <= 0.51
            # OpenCV takes another way where one side grows and the other one shrinks.
            if all(a >= b for a, b in zip(source, size, strict=True)):
                within(1, made, by_opencv(image, size, cv2.INTER_AREA))


def between_pixels(source: int, size: int) -> np.ndarray:
    """Of which centres lie on the border of two pixels, so that both are as near."""
    return (2 * np.arange(size) + 1) * source % (2 * size) == 0


@pytest.mark.parametrize("library", ["Pillow", "OpenCV"])
def test_nearest_is_that_of_others_where_one_pixel_is(library: str) -> None:
    for source in SIZES:
        image = picture(*source)
        for size in SIZES:
            if library == "Pillow":
                wanted = np.asarray(Image.fromarray(image).resize(size[::-1], Image.Resampling.NEAREST))
            else:
                wanted = by_opencv(image, size, cv2.INTER_NEAREST_EXACT)
            made = ready.resize(size=size, how="nearest")(image)
            rows, columns = (~between_pixels(*sides) for sides in zip(source, size, strict=True))
            np.testing.assert_array_equal(made[rows][:, columns], wanted[rows][:, columns])


def test_nearest_between_two_pixels_is_the_later_one() -> None:
    image = np.arange(4, dtype=np.uint8).reshape(1, 4, 1)
    assert ready.resize(size=(1, 2), how="nearest", channels=1)(image).ravel().tolist() == [1, 3]


def test_a_constant_picture_stays_what_it_is() -> None:
    for how in ("nearest", "linear", "area"):
        for value in (0, 1, 254, 255):
            image = np.full((37, 53, 3), value, np.uint8)
            assert (ready.resize(size=(91, 17), how=how)(image) == value).all()


def test_a_function_takes_pictures_of_any_size_in_turn() -> None:
    resize = ready.resize(size=(11, 13))
    for source in SIZES + SIZES[::-1]:
        image = picture(*source)
        within(1, resize(image), by_opencv(image, (11, 13), cv2.INTER_LINEAR))


@pytest.mark.parametrize("at", ["centre", "corner"])
@pytest.mark.parametrize("enlarge", [True, False])
def test_letterbox_fits_and_tells_where(at: str, enlarge: bool) -> None:
    high, wide = 40, 64
    for height, width in SIZES:
        image = picture(height, width)
        framed, placement = ready.letterbox(size=(high, wide), at=at, enlarge=enlarge, fill=9)(image)
        scale = min(high / height, wide / width, np.inf if enlarge else 1)
        h, w = (min(max(round(side * scale), 1), most) for side, most in ((height, high), (width, wide)))
        top, left = ((high - h) // 2, (wide - w) // 2) if at == "centre" else (0, 0)
        wanted = np.full((high, wide, 3), 9, np.uint8)
        wanted[top : top + h, left : left + w] = by_opencv(image, (h, w), cv2.INTER_LINEAR)
        within(1, framed, wanted)
        np.testing.assert_allclose(placement, [w / width, h / height, left, top, width, height], rtol=1e-6)


def test_unletterbox_brings_boxes_back() -> None:
    image = picture(480, 640)
    _, placement = ready.letterbox(size=640)(image)
    boxes = np.array([[10, 20, 100, 200], [0, 0, 640, 480], [-9, 5, 700, 500]], np.float32)
    scale, _, left, top = placement[:4]
    framed = boxes * scale + np.array([left, top, left, top], np.float32)
    back = ready.unletterbox(most=8)(framed, placement)
    np.testing.assert_allclose(back, boxes.clip(0, [640, 480, 640, 480]), atol=1e-3)
    assert ready.unletterbox(most=8)(framed[:0], placement).shape == (0, 4)


def test_crop_from_the_middle_and_from_a_place() -> None:
    image = picture(9, 12)
    np.testing.assert_array_equal(ready.crop(size=(4, 5))(image), image[2:6, 3:8])
    np.testing.assert_array_equal(ready.crop(size=(4, 5), centre=False, at=(1, 6))(image), image[1:5, 6:11])
    np.testing.assert_array_equal(ready.crop(size=(4, 5), at=(1, 6))(image), image[1:5, 6:11])
    np.testing.assert_array_equal(ready.crop(size=(4, 5), at=(0, 0))(image), image[:4, :5])


def test_crop_fills_what_lies_outside() -> None:
    image = picture(3, 4)
    wanted = np.full((8, 8, 3), 5, np.uint8)
    wanted[3:6, 2:6] = image
    np.testing.assert_array_equal(ready.crop(size=8, fill=5)(image), wanted)
    beyond = ready.crop(size=2, centre=False, at=(100, 100), fill=7)(image)
    assert (beyond == 7).all()


def test_crop_boxes_are_parts_resized() -> None:
    image = picture(60, 80)
    boxes = np.array([[10, 5, 30, 45], [70.5, 0.2, 79.9, 9.6], [3, 2, 8.3, 9.7]], np.float32)
    parts = [image[5:45, 10:30], image[0:10, 70:80], image[2:10, 3:9]]  # All pixels that a box touches.
    made = ready.crop_boxes(size=(16, 12), most=4)(image, boxes)
    for found, part in zip(made, parts, strict=True):
        within(1, found, by_opencv(np.ascontiguousarray(part), (16, 12), cv2.INTER_LINEAR))
    assert ready.crop_boxes(size=4)(image, boxes[:0]).shape == (0, 4, 4, 3)


BEYOND = [[-8, 50, 20, 90], [-10, -10, 10, 10], [70, 20, 95, 44], [-5.4, 3.2, 84.1, 12.7], [-30, -30, 120, 100]]


@pytest.mark.parametrize("how", ["nearest", "linear", "area"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [(16, 12), (20, 20), (70, 90)])
def test_crop_boxes_fill_what_lies_beyond_the_picture(how: str, channels: int, size: tuple[int, int]) -> None:
    image, room = picture(60, 80, channels), 200
    around = np.pad(image, ((room, room), (room, room), (0, 0)), constant_values=77)
    made = ready.crop_boxes(size=size, how=how, fill=77, channels=channels)(image, np.array(BEYOND, np.float32))
    for found, box in zip(made, BEYOND, strict=True):
        (left, top), (right, bottom) = np.floor(box[:2]).astype(int) + room, np.ceil(box[2:]).astype(int) + room
        part = np.ascontiguousarray(around[top:bottom, left:right])
        within(0, found, ready.resize(size=size, how=how, channels=channels)(part))


def test_crop_boxes_show_what_io_crop_shows() -> None:
    image, box = picture(50, 50), np.array([[-10, 40, 10, 60]], np.float32)
    made = ready.crop_boxes(size=20)(image, box)[0]
    np.testing.assert_array_equal(made, penstock.io.crop(image, box[0].astype(int).tolist()))


@pytest.mark.parametrize("grow", [1.1, 1.2, 1.3])
def test_boxes_that_grow_to_whole_pixels_touch_no_other_one(grow: float) -> None:
    for left in range(40):
        box = np.array([[left, 20, left + 30, 50]], np.float32)
        _, placements = ready.crop_boxes(size=30, grow=grow, placements=True)(picture(99, 99), box)
        side = 30 * grow + (0 if round(30 * grow) % 2 == 0 else 1)  # Of an odd length: half pixels at both ends.
        np.testing.assert_allclose(30 / placements[0, :2], side, rtol=1e-5)


def test_placements_of_crops_bring_points_back() -> None:
    image = picture(100, 120)
    boxes = np.array([[10, 20, 60, 50], [-20, -4, 30, 40], [90, 80, 140, 130], [5, 5, 5, 9]], np.float32)
    cut = ready.crop_boxes(size=(32, 24), square=True, grow=1.5, placements=True)
    assert cut.outputs["placements"] == "f32[n<=16,6]"
    made, placements = cut(image, boxes)
    np.testing.assert_array_equal(made, ready.crop_boxes(size=(32, 24), square=True, grow=1.5)(image, boxes))
    middle, side = (boxes[:3, :2] + boxes[:3, 2:]) / 2, 1.5 * (boxes[:3, 2:] - boxes[:3, :2]).max(1, keepdims=True)
    first, end = np.floor(middle - side / 2), np.ceil(middle + side / 2)
    scale = np.array([24, 32]) / (end - first)
    np.testing.assert_allclose(
        placements[:3], np.hstack([scale, -first * scale, np.full((3, 2), (120, 100))]), rtol=1e-5
    )
    assert np.isnan(placements[3, :2]).all()

    points = np.random.default_rng(2).uniform(0, 120, (4, 1, 5, 2)).astype(np.float32)
    framed = points * placements[:, None, None, :2] + placements[:, None, None, 2:4]
    back = ready.place_points(shape=("n<=16", 1, 10))(framed.reshape(4, 1, 10), placements)
    np.testing.assert_allclose(back[:15], points[:3].reshape(-1, 2), atol=1e-3)
    assert np.isnan(back[15:]).all()
    assert np.array_equal(ready.place_points(shape=("n<=16", 5, 2))(framed[:, 0], placements), back, equal_nan=True)
    none = ready.place_points(shape=("n<=16", 5, 2))(framed[:0, 0], placements[:0])
    assert none.shape == (0, 2)


def test_points_of_shares_and_of_three_numbers() -> None:
    placements = np.array([[2, 4, 10, 20, 100, 90], [1, 1, 0, 0, 100, 90]], np.float32)
    points = np.random.default_rng(3).uniform(size=(2, 9)).astype(np.float32)
    place = ready.place_points(shape=(2, 9), numbers=3, scale=(40, 30))
    assert place.outputs == {"points": "f32[6,2]"}
    pixels = points.reshape(2, 3, 3)[:, :, :2] * [30, 40]
    wanted = (pixels - placements[:, None, 2:4]) / placements[:, None, :2]
    np.testing.assert_allclose(place(points, placements), wanted.reshape(-1, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stretch", [False, True])
def test_points_of_a_letterbox_are_brought_back(stretch: bool) -> None:
    framed, placement = ready.letterbox(size=(64, 96), stretch=stretch)(picture(50, 40))
    points = np.array([[0, 0], [40, 50], [-3, 60.5]], np.float32)
    place = ready.place_points(shape=(1, 6), of="letterbox")
    assert place.inputs == {"points": "f32[1,6]", "placement": "f32[6]"}
    inside = points * placement[:2] + placement[2:4]
    np.testing.assert_allclose(place(inside.reshape(1, 6), placement), points, atol=1e-4)
    with pytest.raises(penstock.InvalidArgument, match="with scales over 0"):
        place(inside.reshape(1, 6), np.zeros(6, np.float32))


def test_a_letterbox_may_be_filled_as_resize_does() -> None:
    image = picture(50, 40)
    framed, placement = ready.letterbox(size=(64, 96), stretch=True)(image)
    np.testing.assert_array_equal(framed, ready.resize(size=(64, 96))(image))
    np.testing.assert_allclose(placement, [96 / 40, 64 / 50, 0, 0, 40, 50], rtol=1e-6)
    boxes = np.array([[0, 0, 96, 64], [48, 32, 60, 40]], np.float32)
    np.testing.assert_allclose(ready.unletterbox()(boxes, placement), [[0, 0, 40, 50], [20, 25, 25, 31.25]], rtol=1e-5)


def test_crop_boxes_grow_and_become_square() -> None:
    image = picture(100, 100)
    box = np.array([[40, 45, 60, 55]], np.float32)
    made = ready.crop_boxes(size=8, square=True, grow=2)(image, box)
    within(1, made[0], by_opencv(np.ascontiguousarray(image[30:70, 30:70]), (8, 8), cv2.INTER_LINEAR))


@pytest.mark.parametrize("box", [[5, 5, 5, 9], [9, 9, 2, 2], [200, 0, 220, 9], [np.nan, 0, 3, 3], [-9, 0, 0, 9]])
def test_a_box_that_holds_nothing_is_filled(box: list[float]) -> None:
    made = ready.crop_boxes(size=4, fill=3)(picture(20, 20), np.array([box], np.float32))
    assert (made == 3).all()


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("batch", [True, False])
def test_normalise_is_numpys(channels: int, layout: str, batch: bool) -> None:
    mean, std = np.linspace(0.4, 0.6, channels), np.linspace(0.2, 0.3, channels)
    for height, width in SIZES:
        image = picture(height, width, channels)
        settings: dict[str, Any] = {"mean": list(mean), "std": list(std), "channels": channels}
        made = ready.normalise(size=(height, width), layout=layout, batch=batch, **settings)(image)
        wanted = (image / 255 - mean) / std
        wanted = wanted.transpose(2, 0, 1) if layout == "chw" else wanted
        np.testing.assert_allclose(made, wanted[None] if batch else wanted, rtol=1e-5, atol=1e-5)
        assert made.dtype == np.float32


def test_normalise_is_opencvs_blob() -> None:
    image = picture(20, 30)
    made = ready.normalise(size=(20, 30), scale=1, mean=(104, 117, 123), swap=True)(image)
    blob = cv2.dnn.blobFromImage(image, 1, (30, 20), (104, 117, 123), swapRB=True)
    np.testing.assert_allclose(made, blob, atol=1e-4)


CODES = [
    ("rgb", "bgr", cv2.COLOR_RGB2BGR),
    ("rgb", "grey", cv2.COLOR_RGB2GRAY),
    ("bgr", "grey", cv2.COLOR_BGR2GRAY),
    ("rgb", "rgba", cv2.COLOR_RGB2RGBA),
    ("bgr", "rgba", cv2.COLOR_BGR2RGBA),
    ("rgba", "bgr", cv2.COLOR_RGBA2BGR),
    ("bgra", "rgba", cv2.COLOR_BGRA2RGBA),
    ("bgra", "grey", cv2.COLOR_BGRA2GRAY),
    ("grey", "rgb", cv2.COLOR_GRAY2RGB),
]


@pytest.mark.parametrize(("source", "to", "code"), CODES, ids=[f"{a}-{b}" for a, b, _ in CODES])
def test_colours_are_opencvs(source: str, to: str, code: int) -> None:
    for height, width in SIZES:
        image = picture(height, width, {"grey": 1, "rgba": 4, "bgra": 4}.get(source, 3))
        wanted = cv2.cvtColor(image, code).reshape(height, width, -1)
        within(1, ready.colour(source=source, to=to, most=(200, 200))(image), wanted)


YUV = [
    ("nv12", "rgb", cv2.COLOR_YUV2RGB_NV12),
    ("nv12", "bgr", cv2.COLOR_YUV2BGR_NV12),
    ("i420", "rgb", cv2.COLOR_YUV2RGB_I420),
    ("i420", "bgra", cv2.COLOR_YUV2BGRA_I420),
    ("nv12", "grey", cv2.COLOR_YUV2GRAY_NV12),
]


@pytest.mark.parametrize(("source", "to", "code"), YUV, ids=[f"{a}-{b}" for a, b, _ in YUV])
def test_frames_of_cameras_are_opencvs(source: str, to: str, code: int) -> None:
    for height, width in [(2, 2), (4, 6), (36, 50), (34, 200)]:
        rows = picture(height * 3 // 2, width, 1)[:, :, 0]
        wanted = cv2.cvtColor(rows, code).reshape(height, width, -1)
        np.testing.assert_array_equal(ready.colour(source=source, to=to, most=(200, 200))(rows), wanted)


def test_each_y_with_each_u_and_v_is_opencvs() -> None:
    y, u, v = np.arange(256, dtype=np.uint8), np.arange(0, 256, 5, np.uint8), np.arange(0, 256, 5, np.uint8)
    pairs = np.stack(np.meshgrid(u, v), -1).reshape(-1, 2)  # A row of the picture's halves for each.
    light = np.broadcast_to(y, (2 * len(pairs), 256))
    colours = np.broadcast_to(pairs[:, None], (len(pairs), 128, 2)).reshape(-1, 256)
    rows = np.concatenate([light, colours])
    made = ready.colour(source="nv12", most=(len(light), 256))(rows)
    np.testing.assert_array_equal(made, cv2.cvtColor(rows, cv2.COLOR_YUV2RGB_NV12))


def test_rows_that_are_no_yuv_are_refused() -> None:
    with pytest.raises(penstock.InvalidArgument, match="half as many of U and V"):
        ready.colour(source="nv12")(np.zeros((4, 4), np.uint8))


def test_boxes_and_points_are_drawn_as_opencv_draws_them() -> None:
    image = picture(40, 50)
    boxes = np.array([[5, 6, 30, 20], [-4, 10, 12, 80], [0, 0, 49, 39]], np.float32)
    wanted = image.copy()
    for left, top, right, bottom in boxes.astype(int).tolist():
        cv2.rectangle(wanted, (left, top), (right, bottom), (9, 8, 7), 1)
    made = ready.draw_boxes(thickness=1, colour=(9, 8, 7), most=(40, 50))(image, boxes)
    np.testing.assert_array_equal(made, wanted)

    wanted = image.copy()
    points = np.array([[10, 10], [0, 39], [70, 2]], np.float32)
    for x, y in points.astype(int).tolist():
        cv2.rectangle(wanted, (x - 2, y - 2), (x + 2, y + 2), (0, 255, 0), cv2.FILLED)
    np.testing.assert_array_equal(ready.draw_points(most=(40, 50))(image, points), wanted)


def test_a_box_that_is_no_number_is_not_drawn() -> None:
    image = picture(10, 10)
    boxes = np.array([[np.nan, 1, 2, 3], [np.inf, np.inf, np.inf, np.inf]], np.float32)
    np.testing.assert_array_equal(ready.draw_boxes()(image, boxes), image)


def encoded(image: np.ndarray, kind: str, **options: Any) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(image if image.shape[2] > 1 else image[:, :, 0]).save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


@pytest.mark.parametrize(("kind", "channels"), [("PNG", 1), ("PNG", 3), ("PNG", 4), ("BMP", 3), ("PPM", 3)])
def test_decode_gives_the_pixels_back(kind: str, channels: int) -> None:
    for height, width in SIZES:
        image = picture(height, width, channels)
        np.testing.assert_array_equal(ready.decode(channels=channels)(encoded(image, kind)), image)


@pytest.mark.parametrize("most", [1, 100, 255, 1023, 65535])
@pytest.mark.parametrize("colours", [1, 3])
def test_decode_scales_numbers_up_to_any_most(colours: int, most: int) -> None:
    numbers = np.random.default_rng(0).integers(0, most + 1, (6, 8, colours))
    begin = b"P%d\n# made by hand\n8 6 %d\n" % (5 if colours == 1 else 6, most)
    data = begin + numbers.astype(">u2" if most > 255 else "u1").tobytes()
    shown = np.repeat(numbers * (255 / most), 3 // colours, axis=2)
    within(1, ready.decode()(np.frombuffer(data, np.uint8)), shown.round().astype(np.uint8))
    grey = (shown @ [0.299, 0.587, 0.114])[..., None]
    within(2, ready.decode(channels=1)(np.frombuffer(data, np.uint8)), grey.round().astype(np.uint8))
    with pytest.raises(penstock.DataLoss, match=r"cannot be decoded \(it ends too early\)"):
        ready.decode()(np.frombuffer(data[:-1], np.uint8))


def test_decode_of_a_jpeg_is_pillows() -> None:
    smooth = cv2.GaussianBlur(picture(90, 120), (0, 0), 5)
    data = encoded(smooth, "JPEG", quality=95)
    # Decoders differ in how they blend colours between pixels.
    wanted = np.asarray(Image.open(io.BytesIO(data.tobytes())))
    within(4, ready.decode()(data), wanted)


@pytest.mark.parametrize("file", ["g.png", Path("g.png")])
def test_a_files_name_is_answered_with_what_reads_it(file: str | Path) -> None:
    with pytest.raises(penstock.InvalidArgument, match=r"'decode': .*; numpy.fromfile\(x, 'uint8'\) reads the bytes"):
        ready.decode()(file)
    with pytest.raises(penstock.InvalidArgument, match=r"'resize': .*; penstock.io.read_image\(x\) reads a picture"):
        ready.resize(size=(4, 4))(file)


def test_decode_turns_a_photo_as_exif_says() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(np.full((10, 20, 3), 90, np.uint8), "JPEG", exif=exif)
    assert ready.decode(most=(20, 10))(data).shape == (20, 10, 3)


TOO_LARGE = r"at most 20 rows and 40 columns, found 30 and 40; allow more by its setting 'most', such as \[30, 40\]$"


def test_decode_refuses_what_is_damaged_or_too_large() -> None:
    data = encoded(picture(30, 40), "PNG")
    with pytest.raises(penstock.DataLoss, match="^function 'decode': cannot be decoded"):
        ready.decode()(data[:50])
    with pytest.raises(penstock.DataLoss, match="cannot be decoded"):
        ready.decode()(data[:0])
    with pytest.raises(penstock.InvalidArgument, match=TOO_LARGE):
        ready.decode(most=(20, 40))(data)


def as_inks(image: np.ndarray) -> bytes:
    """A JPEG as printers want it, by Pillow, which marks it as Adobe's."""
    file = io.BytesIO()
    Image.fromarray(image).convert("CMYK").save(file, "JPEG", quality=95)
    return file.getvalue()


def test_decode_of_inks_is_the_picture_that_was_printed() -> None:
    image = np.full((16, 24, 3), (200, 100, 50), np.uint8)
    within(3, ready.decode()(np.frombuffer(as_inks(image), np.uint8)), image)


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_decode_of_jpegs_is_opencvs(channels: int, progressive: bool) -> None:
    for height, width in SIZES:
        data = encoded(picture(height, width, channels), "JPEG", quality=90, progressive=progressive)
        for wanted in (1, 3):
            read = cv2.imdecode(data, cv2.IMREAD_COLOR_RGB if wanted == 3 else cv2.IMREAD_GRAYSCALE)
            within(2, ready.decode(channels=wanted)(data), read.reshape(height, width, wanted))


def test_decode_turns_pixels_and_not_only_the_frame() -> None:
    image = cv2.GaussianBlur(picture(48, 80, seed=3), (0, 0), 6)
    for way in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = way
        data = encoded(image, "JPEG", exif=exif, quality=95)
        wanted = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data.tobytes()))))
        within(4, ready.decode()(data), wanted)


def test_a_jpeg_that_is_cut_off_fails_with_a_sentence() -> None:
    data = encoded(picture(60, 80), "JPEG")
    for part in (0.2, 0.5, 0.9):
        with pytest.raises(
            penstock.DataLoss, match=r"^function 'decode': cannot be decoded \(.*\): expected a whole JPEG"
        ):
            ready.decode()(data[: int(len(data) * part)])


def test_descriptions_say_what_the_program_says() -> None:
    found = ready.describe("letterbox")
    assert found.given == {"size": "480,640"}
    assert found.inputs == {"image": "u8[height,width,3]"}
    assert found.outputs == {"image": "u8[480,640,3]", "placement": "f32[6]"}
    assert {option.name: option.usual for option in found.options}["fill"] == "114"
    assert "ready: letterbox" in found.yaml
    assert str(found) == ready.letterbox.__doc__
    with pytest.raises(penstock.NotFound, match="no ready-made function 'leterbox'; did you mean 'letterbox'"):
        ready.describe("leterbox")


# Scores


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 1000), -1), ((1, 5, 4, 3), 1), ((7,), 0), ((2, 3, 1), 2), ((6, 2), 0)]
)
def test_softmax_is_numpys(shape: tuple[int, ...], axis: int) -> None:
    scores = np.random.default_rng(1).normal(0, 20, shape).astype(np.float32)
    powers = np.exp(scores.astype(np.float64) - scores.max(axis, keepdims=True))
    wanted = powers / powers.sum(axis, keepdims=True)
    np.testing.assert_allclose(ready.softmax(shape=shape, axis=axis)(scores), wanted, rtol=1e-5, atol=1e-7)


def test_softmax_of_many_rows_and_of_none() -> None:
    softmax = ready.softmax(shape=("n<=8", 4))
    for n in (0, 1, 8):
        np.testing.assert_allclose(softmax(np.zeros((n, 4), np.float32)), np.full((n, 4), 0.25))
    with pytest.raises(penstock.InvalidArgument, match="input 'scores': expected"):
        softmax(np.zeros((9, 4), np.float32))


def test_softmax_of_large_scores_does_not_overflow() -> None:
    made = ready.softmax(shape=(1, 2))(np.array([[3e38, -3e38]], np.float32))
    np.testing.assert_array_equal(made, [[1, 0]])


@pytest.mark.parametrize(("shape", "k"), [((1, 1000), 5), ((10,), 10), ((3, 2, 4), 1)])
def test_top_k_is_numpys(shape: tuple[int, ...], k: int) -> None:
    # Few different values, so that many are equal.
    scores = np.random.default_rng(2).integers(0, 30, shape).astype(np.float32)
    values, indices = ready.top_k(shape=shape, k=k)(scores)
    wanted = np.argsort(-scores, axis=-1, kind="stable")[..., :k]
    np.testing.assert_array_equal(indices, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, wanted, -1))


def test_top_k_puts_what_is_no_number_last() -> None:
    values, indices = ready.top_k(shape=(4,), k=4)(np.array([np.nan, -np.inf, 2, 1], np.float32))
    assert indices.tolist()[:2] == [2, 3]
    assert values.tolist()[:2] == [2, 1]


# Boxes


def detections(count: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 100, (count, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(5, 40, (count, 2))], 1)
    return boxes.astype(np.float32), rng.uniform(0, 1, (count, classes)).astype(np.float32)


def area(box: np.ndarray) -> np.ndarray:
    return (box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1])


def greedy(boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray, overlap: float, per_class: bool) -> list[int]:
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        corners = [np.maximum(boxes[kept, :2], boxes[i, :2]), np.minimum(boxes[kept, 2:], boxes[i, 2:])]
        both = np.prod(np.maximum(0, corners[1] - corners[0]), 1)
        shared = both / (area(boxes[kept]) + area(boxes[i]) - both)
        if not (shared[labels[kept] == labels[i]] if per_class else shared).max(initial=0) > overlap:
            kept.append(int(i))
    return kept


@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("form", ["pair", "columns", "rows"])
def test_nms_is_the_greedy_one(form: str, per_class: bool) -> None:
    for seed, (count, classes) in enumerate([(1, 1), (40, 1), (300, 7), (200, 80)]):
        boxes, scores = detections(count, classes, seed)
        best, labels = scores.max(1), scores.argmax(1)
        centred = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)
        halves = np.concatenate([centred[:, :2] - centred[:, 2:] / 2, centred[:, :2] + centred[:, 2:] / 2], 1)
        given = [boxes, scores]
        if form == "columns":
            given = [np.ascontiguousarray(np.concatenate([centred, scores], 1).T[None])]
        if form == "rows":
            whole = np.random.default_rng(seed).uniform(0, 1, (count, 1)).astype(np.float32)
            best = np.where(whole[:, 0] >= 0.3, best * whole[:, 0], 0)
            given = [np.concatenate([centred, whole, scores], 1)[None]]
        settings = {"layout": form, "per_class": per_class}  # A pair's boxes are corners as a rule, others centred.
        found, values, classed = ready.nms(count=count, classes=classes, score=0.3, overlap=0.4, **settings)(*given)
        enough = np.flatnonzero(best >= np.float32(0.3))
        used = boxes if form == "pair" else halves
        kept = enough[greedy(used[enough], best[enough], labels[enough], 0.4, per_class)]
        np.testing.assert_allclose(found, used[kept], rtol=1e-5)
        np.testing.assert_allclose(values, best[kept])
        np.testing.assert_array_equal(classed, labels[kept])


def test_nms_is_opencvs() -> None:
    boxes, scores = detections(400, 1, 9)
    made, values, _ = ready.nms(count=400, classes=1, score=0.5, overlap=0.4)(boxes, scores)
    sized = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)
    kept = np.asarray(cv2.dnn.NMSBoxes(sized.tolist(), scores[:, 0].tolist(), 0.5, 0.4)).ravel()
    np.testing.assert_allclose(values, scores[kept, 0])
    np.testing.assert_allclose(made, boxes[kept])


def test_nms_of_all_labels_bounds_and_nothing() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 1, 11, 11]], np.float32)
    scores = np.array([[0.9, 0.8], [0.7, 0.95]], np.float32)
    _, values, labels = ready.nms(count=2, classes=2, labels="all")(boxes, scores)
    np.testing.assert_allclose(values, np.array([0.95, 0.9], np.float32))
    assert labels.tolist() == [1, 0]
    assert ready.nms(count=2, classes=2, labels="all", most=1)(boxes, scores)[0].shape == (1, 4)
    assert [len(part) for part in ready.nms(count=2, classes=2, score=1)(boxes, scores)] == [0, 0, 0]
    scores[:] = np.nan
    assert len(ready.nms(count=2, classes=2)(boxes, scores)[0]) == 0


def test_nms_takes_corners_of_columns_where_that_is_said() -> None:
    boxes, scores = detections(30, 2, 5)
    columns = np.ascontiguousarray(np.concatenate([boxes, scores], 1).T[None])
    settings: dict[str, Any] = {"count": 30, "classes": 2, "overlap": 0.3}
    made = ready.nms(layout="columns", boxes="corners", **settings)(columns)
    for found, wanted in zip(made, ready.nms(**settings)(boxes, scores), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("background", [0, 2])
@pytest.mark.parametrize("labels", ["best", "all"])
def test_nms_of_an_ssd_leaves_the_background_out_and_gives_pixels(background: int, labels: str) -> None:
    """[1, count, 4] of 0 to 1 and [1, count, classes], one class being none."""
    boxes, scores = detections(50, 3, 6)
    shares = boxes / np.array([160, 120, 160, 120], np.float32)
    settings: dict[str, Any] = {"count": 50, "classes": 3, "score": 0.4, "labels": labels}
    ssd = ready.nms(batch=True, background=background, scale=(120, 160), **settings)
    assert ssd.inputs == {"boxes": "f32[1,50,4]", "scores": "f32[1,50,3]"}
    found, values, classes = ssd(shares[None], scores[None])
    scores[:, background] = 0
    wanted = ready.nms(**settings)(boxes, scores)
    np.testing.assert_allclose(found, wanted[0], rtol=1e-5)
    np.testing.assert_array_equal(values, wanted[1])
    np.testing.assert_array_equal(classes, wanted[2])
    assert background not in classes


@pytest.mark.parametrize("layout", ["columns", "rows"])
@pytest.mark.parametrize("labels", ["best", "all"])
def test_nms_leaves_the_background_out_in_each_layout(layout: str, labels: str) -> None:
    boxes, scores = detections(50, 3, 7)
    whole = np.ones((50, 1), np.float32) if layout == "rows" else np.zeros((50, 0), np.float32)
    settings: dict[str, Any] = {"count": 50, "classes": 3, "layout": layout, "labels": labels}

    def run(scores: np.ndarray, **more: Any) -> Any:
        rows = np.concatenate([boxes, whole, scores], 1)[None]
        return ready.nms(**settings, **more)(np.ascontiguousarray(rows.swapaxes(1, 2)) if layout == "columns" else rows)

    without = scores.copy()
    without[:, 1] = 0
    for found, wanted in zip(run(scores, background=1), run(without), strict=True):
        np.testing.assert_array_equal(found, wanted)


# Shapes and types


@pytest.mark.parametrize(
    ("shape", "to", "made"),
    [
        ((1, 4420, 4), (4420, -1), "f32[4420,4]"),
        ((512,), (1, 1, 512), "f32[1,1,512]"),
        (("n<=4", 1, 10), (-1, 2), "f32[rest<=20,2]"),
        (("n<=101", 512), (-1, 1, 512), "f32[n<=101,1,512]"),
        (("n<=9", "m<=5"), (-1,), "f32[rest<=45]"),
        (("n<=100",), (-1, 50), "f32[rest<=2,50]"),
    ],
)
def test_reshape_is_numpys(shape: tuple[Any, ...], to: tuple[int, ...], made: str) -> None:
    reshape = ready.reshape(shape=shape, to=to)
    assert reshape.outputs == {"tensor": made}
    for part in (1, 2):  # Open dimensions whole, and half of it.
        dims = [int(size[3:]) // part if isinstance(size, str) else size for size in shape]
        array = np.random.default_rng(0).normal(size=dims).astype(np.float32)
        np.testing.assert_array_equal(reshape(array), array.reshape(to))


@pytest.mark.parametrize("dtype", ["u8", "f16", "i64"])
def test_reshape_takes_each_type(dtype: str) -> None:
    array = np.arange(12).reshape(4, 3).astype(np.dtype(dtype[0] + str(int(dtype[1:]) // 8)))
    made = ready.reshape(shape=(4, 3), to=(1, 2, -1), type=dtype)(array)
    assert made.dtype == array.dtype
    np.testing.assert_array_equal(made, array.reshape(1, 2, 6))


def test_reshape_of_what_does_not_divide_fails_its_frame() -> None:
    reshape = ready.reshape(shape=("n<=100",), to=(-1, 50))
    assert reshape(np.zeros(0, np.float32)).shape == (0, 50)
    with pytest.raises(
        penstock.InvalidArgument, match=r"^function 'reshape': expected a multiple of 50 .*found f32\[60\]"
    ):
        reshape(np.zeros(60, np.float32))


TYPES = {
    "f32": "f4",
    "f16": "f2",
    "f64": "f8",
    "u8": "u1",
    "i8": "i1",
    "u16": "u2",
    "i16": "i2",
    "i32": "i4",
    "i64": "i8",
}


def converted(values: np.ndarray, dtype: str) -> np.ndarray:
    """To the nearest, half to even, within what the type holds."""
    if dtype.startswith("f"):
        with np.errstate(over="ignore"):
            return values.astype(np.float32).astype("f2") if dtype == "f16" else values.astype(TYPES[dtype])
    limits = np.iinfo(TYPES[dtype])
    values = np.nan_to_num(values, posinf=np.inf, neginf=-np.inf).round()
    over = values >= float(limits.max)  # Of i64 a double has no such limit.
    return np.where(over, limits.max, np.where(over, 0, values).clip(limits.min, limits.max).astype(TYPES[dtype]))


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_convert_is_numpys(source: str, to: str) -> None:
    values = np.concatenate([np.arange(-300, 300) / 2, [0, 3e4, -7e4, 1e9, -1e12]])
    array = converted(np.resize(values, 3000), source).reshape(3, 1000)
    for scale, offset in [(1, 0), (0.5, -3.25), (-2, 128)]:
        made = ready.convert(shape=(3, 1000), type=source, to=to, scale=scale, offset=offset)(array)
        wide = array.astype(np.float64) * scale + offset
        np.testing.assert_array_equal(made, converted(wide, to))


def test_convert_to_f16_is_numpys_for_each_of_them() -> None:
    each = np.arange(1 << 16).astype(np.uint16).view(np.float16).astype(np.float32)
    numbers = each[np.isfinite(each)]
    numbers.sort()
    between = numbers[:-1] + np.diff(numbers) / 2  # Halves are rounded to even.
    edges = np.array([65519, 65520, 1e6, -1e38, 1e-8, 3e-8, -1e-40], np.float32)
    many = np.concatenate([each, between, np.nextafter(between, np.float32(np.inf)), edges])
    made = ready.convert(shape=many.shape, to="f16")(many)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(made, many.astype(np.float16))
    back = ready.convert(shape=made.shape, type="f16", to="f32")(made)
    np.testing.assert_array_equal(back, made.astype(np.float32))


def test_convert_rounds_once() -> None:
    ties = (1 + np.arange(64) * 2.0**-10 + 2.0**-11)[:, None]
    values = np.concatenate([ties * (1 + sign * 2.0**-40) for sign in (-1, 0, 1)] + [-ties * (1 + 2.0**-40)])
    many = np.concatenate([values, values * 2.0**-20, np.array([[1e300], [-1e300], [1e-300], [65520], [65519.999]])])
    made = ready.convert(shape=many.shape, type="f64", to="f16")(many)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(made, many.astype(np.float16))
    whole = np.array([2**63 - 1, -(2**63), 2**53 + 1], np.int64)
    np.testing.assert_array_equal(ready.convert(shape=(3,), type="i64", to="i64")(whole), whole)


def test_names_of_open_sizes_stay_apart() -> None:
    assert ready.reshape(shape=("rest<=16", 4), to=(-1, 2)).outputs == {"tensor": "f32[rest_<=32,2]"}
    placed = ready.place_points(shape=("points<=4", 1, 10))
    assert placed.outputs == {"points": "f32[points_<=20,2]"}


def test_convert_of_no_number_and_of_many_rows() -> None:
    convert = ready.convert(shape=("n<=4", 2), to="i8")
    assert convert.outputs == {"tensor": "i8[n<=4,2]"}
    made = convert(np.array([[np.nan, np.inf], [-np.inf, 0.5]], np.float32))
    assert made.tolist() == [[0, 127], [-128, 0]]
    assert convert(np.zeros((0, 2), np.float32)).shape == (0, 2)


@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("dtype", ["f16", "u8", "i8"])
def test_normalise_gives_the_type_of_the_network(dtype: str, layout: str) -> None:
    image = picture(17, 31)
    scale, mean = (1, 128) if dtype == "i8" else (1 / 255, 0.25) if dtype == "f16" else (1, 0)
    normalise = ready.normalise(size=(17, 31), scale=scale, mean=mean, layout=layout, type=dtype)
    numbers = ready.normalise(size=(17, 31), scale=scale, mean=mean, layout=layout)(image)
    assert normalise.outputs["tensor"].startswith(dtype)
    np.testing.assert_array_equal(normalise(image), converted(numbers.astype(np.float64), dtype))


# Sounds


def pieces(samples: np.ndarray, most: int, seed: int) -> list[np.ndarray]:
    """The samples in pieces of any length, none among them."""
    rng, made = np.random.default_rng(seed), []
    while samples.size:
        size = int(rng.integers(0, most + 1))
        made.append(samples[:size])
        samples = samples[size:]
    return made


@pytest.mark.parametrize(("size", "hop", "lead"), [(8, 4, 0), (8, 8, 0), (5, 2, 3), (4, 7, 0), (6, 1, 6), (1, 1, 0)])
@pytest.mark.parametrize("weights", ["none", "hann"])
def test_windows_of_a_stream_are_those_of_the_whole(size: int, hop: int, lead: int, weights: str) -> None:
    samples = np.random.default_rng(3).normal(size=400).astype(np.float32)
    window = ready.window(size=size, hop=hop, most=20, lead=lead, weights=weights)
    made = np.concatenate([window(piece) for piece in pieces(samples, 20, size)])
    whole = np.concatenate([np.zeros(lead, np.float32), samples])
    wanted = np.lib.stride_tricks.sliding_window_view(whole, size)[::hop]
    shape = np.hanning(size + 1)[:-1] if weights == "hann" and size > 1 else np.ones(size)
    np.testing.assert_allclose(made, wanted * shape, atol=1e-6)


def test_windows_have_the_shape_of_the_networks_input() -> None:
    samples = np.random.default_rng(3).normal(size=100).astype(np.float32)
    plain = ready.window(size=8, hop=4, most=100)(samples)
    for shape, wanted in [((1, 8), (-1, 1, 8)), ((1, 1, -1), (-1, 1, 1, 8)), ((1, 8, 1), (-1, 1, 8, 1))]:
        window = ready.window(size=8, hop=4, most=100, shape=shape)
        made = window(samples)
        np.testing.assert_array_equal(made, plain.reshape(wanted))
        add = ready.overlap_add(size=8, hop=4, most=26, shape=shape)
        assert add.inputs["windows"] == window.outputs["windows"]
        np.testing.assert_array_equal(add(made), ready.overlap_add(size=8, hop=4, most=26)(plain))


@pytest.mark.parametrize("weights", ["none", "hann"])
def test_overlap_add_gives_the_samples_back(weights: str) -> None:
    size, hop = 16, 4
    samples = np.random.default_rng(4).normal(size=300).astype(np.float32)
    window = ready.window(size=size, hop=hop, most=40, lead=size - hop, weights=weights)
    add = ready.overlap_add(size=size, hop=hop, most=12, weights=weights)
    made = np.concatenate([add(window(piece)) for piece in pieces(samples, 40, 5)])
    delay = size - hop
    np.testing.assert_allclose(made[delay:], samples[: made.size - delay], atol=1e-5)


def inverse_stft(spectra: np.ndarray, window: np.ndarray, hop: int) -> np.ndarray:
    """As scipy.signal.istft gives it: all windows weighed again and summed, over the sum of the squared weights."""
    size = len(window)
    made, weights = np.zeros((2, (len(spectra) - 1) * hop + size))
    for i, block in enumerate(np.fft.irfft(spectra, size)):
        made[i * hop : i * hop + size] += block * window
        weights[i * hop : i * hop + size] += window**2
    return made / np.where(weights > 1e-10, weights, 1)


@pytest.mark.parametrize(("size", "hop"), [(64, 32), (64, 16), (60, 20), (64, 24), (33, 10)])
def test_overlap_add_of_changed_spectra_is_the_inverse_stft(size: int, hop: int) -> None:
    rng = np.random.default_rng(11)
    samples = rng.normal(size=40 * hop).astype(np.float32)
    cut = ready.window(size=size, hop=hop, most=len(samples), weights="hann")
    spectra = np.fft.rfft(cut(samples)) * rng.uniform(size=size // 2 + 1)  # A network's mask.
    blocks = np.fft.irfft(spectra, size).astype(np.float32)
    add = ready.overlap_add(size=size, hop=hop, most=len(blocks), weights="hann")
    made = np.concatenate([add(blocks[:7]), add(blocks[7:8]), add(blocks[8:])])
    wanted = inverse_stft(spectra, np.hanning(size + 1)[:-1], hop)
    # The first samples lie in fewer windows: scipy divides by the weight of these, a stream as everywhere.
    np.testing.assert_allclose(made[size:], wanted[size : made.size], atol=1e-5)


def test_overlap_add_without_division_is_a_sum() -> None:
    windows = np.random.default_rng(5).normal(size=(6, 8)).astype(np.float32)
    wanted = np.zeros(6 * 3 + 5)
    for i, window in enumerate(windows):
        wanted[i * 3 : i * 3 + 8] += window
    made = ready.overlap_add(size=8, hop=3, divide=False)(windows)
    np.testing.assert_allclose(made, wanted[: 6 * 3], atol=1e-5)


def resampled(samples: np.ndarray, up: int, down: int) -> np.ndarray:
    """By the definition: zeros between, a low-pass of Kaiser's window, and each `down`-th sample."""
    most = max(up, down)
    half = 10 * most
    taps = np.sinc(np.arange(-half, half + 1) / most) * np.kaiser(2 * half + 1, 5.0)
    taps *= up / taps.sum()
    spread = np.zeros(samples.size * up)
    spread[::up] = samples
    return np.convolve(spread, taps)[half : half + spread.size : down]


RATES = [(16000, 8000), (8000, 16000), (44100, 16000), (16000, 48000), (48000, 44100), (16000, 16000)]


@pytest.mark.parametrize(("rate", "to"), RATES, ids=[f"{a}-{b}" for a, b in RATES])
def test_resample_is_the_polyphase_filter(rate: int, to: int) -> None:
    divisor = np.gcd(rate, to)
    for size in (0, 1, 7, 1000):
        samples = np.random.default_rng(size).normal(size=size).astype(np.float32)
        wanted = resampled(samples, to // divisor, rate // divisor) if size else np.zeros(0)
        made = ready.resample(rate=rate, to=to, most=1000)(samples)
        np.testing.assert_allclose(made, wanted, atol=1e-5)


@pytest.mark.parametrize(("rate", "to"), RATES, ids=[f"{a}-{b}" for a, b in RATES])
def test_a_stream_is_resampled_as_the_whole(rate: int, to: int) -> None:
    divisor = np.gcd(rate, to)
    samples = np.random.default_rng(6).normal(size=2000).astype(np.float32)
    resample = ready.resample(rate=rate, to=to, most=300, stream=True)
    made = np.concatenate([resample(piece) for piece in pieces(samples, 300, 7)])
    wanted = resampled(samples, to // divisor, rate // divisor)
    late = 10 * max(to, rate) / rate + 1  # Half the filter, in samples of the result.
    assert wanted.size - late <= made.size <= wanted.size
    np.testing.assert_allclose(made, wanted[: made.size], atol=1e-5)


def mels_of(hz: Any, htk: bool) -> Any:
    if htk:
        return 2595 * np.log10(1 + hz / 700)
    return np.where(hz < 1000, hz * 3 / 200, 15 + np.log(np.maximum(hz, 1e-9) / 1000) * 27 / np.log(6.4))


def filters(rate: int, fft: int, mels: int, htk: bool, even: bool) -> np.ndarray:
    """[mels, bins], the edges found by bisection."""
    grid = np.linspace(0, rate / 2, 2_000_001)
    edges = np.interp(np.linspace(0, mels_of(rate / 2, htk), mels + 2), mels_of(grid, htk), grid)
    bins = np.arange(fft // 2 + 1) * rate / fft
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    heights = np.maximum(0, np.minimum(rising, falling))
    return heights * (2 / (edges[2:] - edges[:-2]))[:, None] if even else heights


@pytest.mark.parametrize("fft", [400, 512, 401, 48])
@pytest.mark.parametrize(("scale", "even"), [("slaney", True), ("htk", False)])
@pytest.mark.parametrize("centre", [True, False])
def test_mel_spectrogram_is_numpys(fft: int, scale: str, even: bool, centre: bool) -> None:
    samples = np.random.default_rng(8).normal(size=4000).astype(np.float32)
    padded = np.pad(samples.astype(np.float64), fft // 2, mode="reflect") if centre else samples
    parts = np.lib.stride_tricks.sliding_window_view(padded, fft)[::160] * np.hanning(fft + 1)[:-1]
    power = np.abs(np.fft.rfft(parts)) ** 2
    bands = filters(16000, fft, 20, scale == "htk", even)
    settings: dict[str, Any] = {"fft": fft, "mels": 20, "scale": scale, "even": even, "centre": centre}
    made = ready.mel_spectrogram(samples=4000, **settings)(samples)
    np.testing.assert_allclose(made[0], bands @ power.T, rtol=1e-3, atol=1e-6)
    magnitude = ready.mel_spectrogram(samples=4000, of="magnitude", **settings)(samples)
    np.testing.assert_allclose(magnitude[0], bands @ np.sqrt(power.T), rtol=1e-3, atol=1e-6)


LOGS: dict[str, Any] = {
    "natural": np.log,
    "log10": np.log10,
    "db": lambda x: 10 * np.log10(x),
    "whisper": lambda x: (np.maximum(np.log10(x), np.log10(x).max() - 8) + 4) / 4,
}


@pytest.mark.parametrize("log", LOGS)
def test_logarithms_of_loud_and_of_silent_sounds(log: str) -> None:
    samples = np.random.default_rng(9).normal(size=2000).astype(np.float32)
    samples[:1000] = 0
    plain = ready.mel_spectrogram(samples=2000)(samples)
    made = ready.mel_spectrogram(samples=2000, log=log)(samples)
    np.testing.assert_allclose(made, LOGS[log](np.maximum(plain, 1e-10)), rtol=1e-4, atol=1e-4)


def test_whispers_windows() -> None:
    made = ready.mel_spectrogram(samples=480_000, log="whisper", last=False)
    assert made.outputs == {"mels": "f32[1,80,3000]"}
    assert np.isfinite(made(np.zeros(480_000, np.float32))).all()


# Names and settings


def test_settings_may_be_arrays_and_numbers_of_numpy() -> None:
    image, mean = picture(4, 4), np.array([0.1, 0.2, 0.3])
    made = ready.normalise(size=np.array([4, 4]), mean=mean, std=np.float32(0.5))(image)
    np.testing.assert_array_equal(made, ready.normalise(size=4, mean=(0.1, 0.2, 0.3), std=0.5)(image))


def test_what_it_takes_is_told() -> None:
    fit = ready.letterbox(size=(32, 64))
    assert fit.inputs == {"image": "u8[height,width,3]"}
    assert fit.outputs == {"image": "u8[32,64,3]", "placement": "f32[6]"}
    assert repr(fit) == "penstock.ready.letterbox(size='32,64')"
    assert {"letterbox", "nms", "mel_spectrogram"} <= set(dir(ready))


def test_unknown_names_and_settings_are_refused_with_those_there_are() -> None:
    with pytest.raises(AttributeError, match="no ready-made function 'cubify'; there are: decode, resize"):
        ready.cubify(size=3)
    with pytest.raises(
        AttributeError, match="no ready-made function 'lettrbox'; did you mean 'letterbox'.*; there are: "
    ):
        ready.lettrbox(size=3)
    told = "resize: expected settings by name (size, how, channels), found (4, 5) without one"
    with pytest.raises(penstock.InvalidArgument, match=re.escape(told)):
        ready.resize((4, 5))
    with pytest.raises(penstock.NotFound, match="no setting 'sise'; did you mean 'size'"):
        ready.resize(sise=3)
    with pytest.raises(penstock.InvalidArgument, match=r"function 'resize': expected 1 input \("):
        ready.resize(size=3)()
    with pytest.raises(penstock.InvalidArgument, match=re.escape("input 'image': expected")):
        ready.resize(size=3)(np.zeros((4, 4, 3), np.float32))


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("softmax", {"shape": (1, 4), "axis": 2}, "expected -2 to 1 for a shape of 2 dimensions, found 2"),
    ("top_k", {"shape": (1, 4), "k": 5}, "of 5 ('k') or more"),
    ("top_k", {"shape": (1, "n<=9"), "k": 5}, "a last dimension of a fixed size"),
    ("overlap_add", {"size": 4, "hop": 5}, "expected at most a window's 4 samples, found 5"),
    ("window", {"size": 4, "hop": 4, "most": 9, "lead": 5}, "expected at most a window's 4 samples, found 5"),
    ("resample", {"rate": 16001, "to": 44103, "most": 9}, "expected a ratio of whole numbers up to 10000"),
    ("mel_spectrogram", {"samples": 100}, "expected 201 or more for windows of 400"),
    ("mel_spectrogram", {"samples": 900, "high": 9000}, "high at most half the rate, 8000"),
    ("mel_spectrogram", {"samples": 900, "low": 500, "high": 400}, "expected low below high"),
    ("nms", {"count": 9}, "setting 'classes' is missing"),
    ("nms", {"count": 9, "classes": 1, "background": 0}, "expected another class than the background"),
    ("nms", {"count": 9, "classes": 3, "background": 3}, "setting 'background': expected at most 2, the last"),
    ("reshape", {"shape": (3, 4), "to": (5, -1)}, "'to': expected a shape of as many elements as f32[3,4], found 5,-1"),
    ("reshape", {"shape": (3, 4), "to": (4, 4)}, "'to': expected a shape of as many elements as f32[3,4], found 4,4"),
    ("reshape", {"shape": (3, 4), "to": (-1, -1)}, "'to': expected dimensions such as 1,-1,512, one of them perhaps"),
    ("reshape", {"shape": ("n<=3", 4), "to": (3, 4)}, "'to': expected -1 where f32[n<=3,4] leaves the size open"),
    ("window", {"size": 4, "hop": 4, "most": 9, "shape": (1, 5)}, "setting 'shape': expected a shape of as many"),
    ("window", {"size": 4, "hop": 4, "most": 9, "shape": (0, 4)}, "setting 'shape': expected dimensions such as"),
    ("reshape", {"shape": (10**9, 10**9, 10**9), "to": (-1,)}, "output 'tensor': expected a type of known rank"),
    ("place_points", {"shape": ("n<=9", 5)}, "setting 'shape': expected behind the first dimension a multiple of 2"),
    ("place_points", {"shape": (10,)}, "setting 'shape': expected a first dimension of crops, and more"),
    ("place_points", {"shape": (3, "n<=9")}, "setting 'shape': expected behind the first dimension fixed sizes"),
    ("colour", {"source": "yuv"}, "expected one of 'rgb'"),
    ("crop", {"size": 4, "at": 0, "centre": True}, "settings 'centre' and 'at': expected one of them, found a part"),
    ("draw_boxes", {"colour": (1, 2)}, "one for each of the 3 channels, found 2"),
]


@pytest.mark.parametrize(("name", "settings", "told"), REFUSED)
def test_settings_that_do_not_go_together_are_refused(name: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=rf"^function '{name}': .*{re.escape(told)}"):
        ready.Ready(name, **settings)


# In applications


def test_two_networks_by_boxes_and_their_parts() -> None:
    """A detector's boxes cut out of the picture, each part looked at, drawn on the picture."""
    app = penstock.App("parts")
    app.input("picture", "u8[height<=100,width<=120,3]")
    app.input("boxes", "f32[20,4]")
    app.input("scores", "f32[20,2]")
    app.function("sort", ready.nms(count=20, classes=2, most=8), reads=["boxes", "scores"])
    app.function("cut", ready.crop_boxes(size=(8, 8), most=8), reads=["picture", "sort.boxes"])
    app.function("numbers", ready.normalise(size=(8, 8)), each=["image"], reads=["cut.images"])
    app.function("draw", ready.draw_boxes(most=(100, 120)), reads={"image": "picture", "boxes": "sort.boxes"})
    for name, source in {"found": "sort.boxes", "numbers": "numbers.tensor", "drawn": "draw.image"}.items():
        app.output(name, source)
    with app.start() as pipeline:
        for seed in range(4):
            image, (boxes, scores) = picture(90, 110, seed=seed), detections(20, 2, seed)
            result = dict(zip(["found", "numbers", "drawn"], pipeline(image, boxes, scores), strict=True))
            found = ready.nms(count=20, classes=2, most=8)(boxes, scores)[0]
            np.testing.assert_array_equal(result["found"], found)
            parts = ready.crop_boxes(size=(8, 8), most=8)(image, found)
            wanted = parts.transpose(0, 3, 1, 2)[:, None] / np.float32(255)
            np.testing.assert_allclose(result["numbers"], wanted, atol=1e-6)
            np.testing.assert_array_equal(result["drawn"], ready.draw_boxes(most=(100, 120))(image, found))


def test_landmarks_of_a_second_network_are_drawn_on_the_picture() -> None:
    """Row 3 of the page's table; the second network is a function here, [1, 10] for each crop."""
    app = penstock.App("landmarks")
    app.input("picture", "u8[height<=100,width<=120,3]")
    app.input("boxes", "f32[n<=4,4]")
    app.function("cut", ready.crop_boxes(size=(8, 8), most=4, placements=True), reads=["picture", "boxes"])
    app.function("numbers", ready.normalise(size=(8, 8)), each=["image"], reads=["cut.images"])
    corners = np.array([[0, 0, 8, 0, 0, 8, 8, 8, 4, 4]], np.float32)
    app.function(
        "marks", lambda x: corners, {"x": "f32[1,3,8,8]"}, {"points": "f32[1,10]"}, each=["x"], reads="numbers.tensor"
    )
    place = ready.place_points(shape=("n<=4", 1, 10))
    app.function("place", place, reads={"points": "marks.points", "placements": "cut.placements"})
    app.function("draw", ready.draw_points(most=(100, 120)), reads={"image": "picture", "points": "place.points"})
    app.output("points", "place.points")
    app.output("drawn", "draw.image")
    image, boxes = picture(90, 110), np.array([[10, 20, 30, 60], [-8, 70, 32, 95]], np.float32)
    with app.start() as pipeline:
        points, drawn = pipeline(image, boxes)
        left, top, right, bottom = boxes.T
        wanted = [left, top, right, top, left, bottom, right, bottom, (left + right) / 2, (top + bottom) / 2]
        np.testing.assert_allclose(points, np.array(wanted).T.reshape(-1, 2), atol=1e-4)
        np.testing.assert_array_equal(drawn, ready.draw_points(most=(100, 120))(image, points.copy()))


def test_a_sound_cut_in_windows_and_put_together_while_frames_flow() -> None:
    app = penstock.App("sound")
    app.input("samples", "f32[n<=100]")
    app.function("cut", ready.window(size=64, hop=32, most=100, lead=32, weights="hann"), reads="samples")
    app.function("add", ready.overlap_add(size=64, hop=32, most=4, weights="hann"), reads="cut.windows")
    app.output("sound", "add.samples")
    samples = np.random.default_rng(10).normal(size=1000).astype(np.float32)
    with app.start() as pipeline:
        made = np.concatenate([frame["sound"].copy() for frame in pipeline.stream(samples.reshape(10, 100))])
    np.testing.assert_allclose(made[32:], samples[: made.size - 32], atol=1e-5)


def test_a_ready_function_is_given_alone() -> None:
    app = penstock.App()
    with pytest.raises(penstock.InvalidArgument, match="declares its ports and has its settings; give it alone"):
        app.function("fit", ready.resize(size=4), {"image": "u8[4,4,3]"})


def test_a_function_that_keeps_something_takes_no_replicas() -> None:
    app = penstock.App()
    app.input("samples", "f32[n<=9]")
    app.function("cut", ready.window(size=4, hop=4, most=9), reads="samples", replicas=2)
    app.output("windows", "cut.windows")
    with pytest.raises(penstock.InvalidArgument, match="is stateful and sees the frames in order"):
        app.start()
