#!/usr/bin/env python3
"""Writes the drawings of docs/explained.md and the plots of docs/measured.md, whose numbers it reads there.

Colours have enough contrast on white, which every drawing brings as its ground: so it reads in dark pages too.
`--check`: fails where a file is not what would be written."""

import argparse
import html
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
BLUE, RED, GREEN, GREY, INK = "#1b6ca8", "#b03a2e", "#1e7a45", "#6b7280", "#1f2933"
COLOURS = (BLUE, RED, GREEN)


class Drawing:
    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="14" role="img">',
            f"<title>{html.escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]

    def box(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{fill}"/>')

    def text(self, x: float, y: float, text: str, fill: str = INK, anchor: str = "start", more: str = "") -> None:
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" fill="{fill}" text-anchor="{anchor}"{more}>{html.escape(text)}</text>'
        )

    def line(self, points: list[tuple[float, float]], colour: str, width: float = 2, more: str = "") -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{more}/>')

    def done(self) -> str:
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def stage() -> str:
    """Three CPUs, seven frames: time goes to the right."""
    drawing = Drawing(680, 220, "Three stages on three CPUs, each with another frame at any moment")
    for row, colour in enumerate(COLOURS):
        y = 20 + 50 * row
        drawing.text(10, y + 25, f"stage {row} on cpu:{row}")
        for frame in range(7 - row):
            x = 140 + 75 * (frame + row)
            drawing.box(x, y, 71, 38, colour)
            drawing.text(x + 36, y + 24, f"frame {frame}", "white", "middle")
    drawing.line([(140, 178), (665, 178)], INK)
    drawing.line([(657, 173), (665, 178), (657, 183)], INK)
    drawing.text(660, 200, "time", anchor="end")
    drawing.line([(290, 168), (365, 168)], GREY, 3)
    drawing.text(327, 200, "period", GREY, "middle")
    return drawing.done()


def proof() -> str:
    drawing = Drawing(680, 260, "The best plan falls, the lower bound rises, until they meet")
    drawing.line([(60, 20), (60, 215), (660, 215)], INK)
    drawing.text(660, 238, "time of the search", anchor="end")
    drawing.text(68, 32, "period")
    found = [(60, 60), (120, 60), (120, 95), (210, 95), (210, 112), (380, 112), (380, 122), (640, 122)]
    bound = [(60, 200), (100, 200), (100, 172), (190, 172), (190, 150), (330, 150), (330, 134), (470, 134), (470, 122)]
    drawing.line(found, BLUE, 3)
    drawing.line(bound, RED, 3)
    drawing.text(225, 85, "best plan found", BLUE)
    drawing.text(225, 190, "no plan can be better than this", RED)
    drawing.line([(290, 112), (290, 150)], GREY, 2, ' stroke-dasharray="4 3"')
    drawing.text(298, 137, "gap", GREY)
    drawing.parts.append(f'<circle cx="470" cy="122" r="6" fill="{GREEN}"/>')
    drawing.text(480, 150, "they meet: proved", GREEN)
    return drawing.done()


STEPS = (
    ("Import", "constants folded, shapes known"),
    ("Reference", "plain ONNX Runtime, and how far its results move"),
    ("Simple ways", "what you would have tried yourself"),
    ("Whole networks", "each backend, in a process of its own"),
    ("Units", "at most ten even pieces"),
    ("Parts", "timed on each backend"),
    ("Covers and plans", "exact, with a bound"),
    ("Contest", "plans run for real, in turn"),
    ("Gate", "outputs compared with the reference"),
    ("Comparison", "the best plan beside the simple ways"),
)


def build() -> str:
    drawing = Drawing(680, 30 + 44 * len(STEPS) + 60, "What build does in ten steps")
    drawing.text(20, 24, "model.onnx", GREY)
    for index, (name, what) in enumerate(STEPS):
        y = 34 + 44 * index
        drawing.box(20, y, 190, 34, GREEN if 5 <= index <= 7 else BLUE)
        drawing.text(32, y + 22, f"{index + 1}  {name}", "white")
        drawing.text(226, y + 22, what)
        if index:
            drawing.line([(115, y - 10), (115, y)], GREY)
    top, bottom = 34 + 44 * 5 + 17, 34 + 44 * 7 + 17
    drawing.line([(490, bottom), (530, bottom), (530, top), (490, top)], GREEN)
    drawing.line([(498, top - 5), (490, top), (498, top + 5)], GREEN)
    drawing.text(540, (top + bottom) / 2 - 4, "again, as long", GREEN)
    drawing.text(540, (top + bottom) / 2 + 14, "as it gets better", GREEN)
    drawing.text(20, 34 + 44 * len(STEPS) + 22, "model.penstock, with its reasons", GREY)
    return drawing.done()


def networks(measured: str) -> list[tuple[str, float, float]]:
    """Of the first table: network, frames a second over the best simple way, and over ONNX Runtime's default."""
    table = measured.split("```")[1].splitlines()[2:]
    rows = [line.split() for line in table]
    return [(row[0], float(row[6]), float(row[7])) for row in rows if len(row) > 8 and re.fullmatch(r"[\d.]+", row[6])]


def gains(rows: list[tuple[str, float, float]]) -> str:
    """A bar for each network: times ONNX Runtime's default, and the mark of the best simple way."""
    rows = sorted(rows, key=lambda row: -row[2])
    most, left, right, height = max(row[2] for row in rows), 190, 640, 22
    drawing = Drawing(680, 60 + height * len(rows), "How many times as many frames a second as the engines alone")
    scale = (right - left) / most
    drawing.text(left, 20, "times ONNX Runtime's default", BLUE)
    drawing.text(right, 20, "the best simple way", RED, "end")
    for index, (name, over_best, over_default) in enumerate(rows):
        y = 32 + height * index
        drawing.text(left - 8, y + 14, name, anchor="end", more=' font-size="12"')
        drawing.box(left, y + 2, scale * over_default, height - 6, BLUE)
        x = left + scale * over_default / over_best
        drawing.line([(x, y), (x, y + height - 2)], RED, 3)
        end = max(left + scale * over_default, x)
        drawing.text(end + 6, y + 14, f"{over_default:.2f}", more=' font-size="12"')
    return drawing.done()


def faults(measured: str) -> str:
    """Of the table of faults: the least and the median rate after each return, as shares of the rate before."""
    table = re.search(r"^fault .*\n((?:\w+ +\d.*\n)+)", measured, re.MULTILINE)
    assert table, "docs/measured.md has no table that begins with 'fault'"
    rows = [(row[0], float(row[4]), float(row[5])) for row in (line.split() for line in table[1].splitlines())]
    drawing = Drawing(680, 70 + 26 * len(rows), "How much of the rate is there after each fault")
    left, scale = 150, 400
    drawing.text(left, 20, "median second after a return, as a share of the rate before", BLUE)
    drawing.text(left, 38, "the worst second", RED)
    for index, (name, least, median) in enumerate(rows):
        y = 48 + 26 * index
        drawing.text(left - 8, y + 16, name, anchor="end")
        drawing.box(left, y + 3, scale * median, 18, BLUE)
        drawing.line([(left + scale * least, y), (left + scale * least, y + 24)], RED, 3)
        drawing.text(left + scale * max(median, least) + 8, y + 17, f"{median:.2f}")
    return drawing.done()


def drawn() -> dict[Path, str]:
    measured = (DOCS / "measured.md").read_text(encoding="utf-8")
    texts = {
        "stage": stage(),
        "proof": proof(),
        "build": build(),
        "gains": gains(networks(measured)),
        "faults": faults(measured),
    }
    return {DOCS / f"{name}.svg": text for name, text in texts.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file would change")
    check, stale = parser.parse_args().check, []
    for file, text in drawn().items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(file.name)
            if not check:
                file.write_text(text, encoding="utf-8")
    if check and stale:
        print(f"docs/{', docs/'.join(stale)}: not as tools/drawings.py draws it; run it")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
