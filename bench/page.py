#!/usr/bin/env python3
"""Prints how fast the page of a build is in Chromium without a screen: when the network is drawn, and how many
pictures a second it has while it is moved and zoomed.

    bench/page.py [--nodes N] [--seconds S]

The pages are of made-up networks: residual blocks, transformer blocks, blocks of which no two are alike, nodes that
read any of the last ones, and blocks whose nodes read all before them; each folded where it can be, and with all of
its operators. "drawn" counts from the page's start to its first picture, "unfolded" from the click to the picture.
"moved" and "zoomed": pictures a second, the mean and the longest that one took, while the drawing is changed for each
picture; "all": zoomed out to where most operators are seen, "near": to where they are read.
Left out: the start of the browser, and what a graphics card would do."""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/page"))
import made_up  # noqa: E402

PENSTOCK = Path(os.environ.get("PENSTOCK_BIN", ROOT / "build/release/bin/penstock"))

# Sends the drawing a turn of the wheel before each picture, and counts the pictures.
MOVE = """
([deltaX, deltaY, ctrlKey, seconds]) => new Promise((done) => {
  const element = document.getElementById("drawing"), box = element.getBoundingClientRect();
  const times = [];
  const next = (now) => {
    times.push(now);
    if (now - times[0] >= seconds * 1000) return done(times);
    const sign = Math.floor(times.length / 30) % 2 ? -1 : 1;
    element.dispatchEvent(new WheelEvent("wheel", { deltaX: sign * deltaX, deltaY: sign * deltaY, ctrlKey,
      clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true, cancelable: true }));
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})
"""

UNFOLD = """
() => new Promise((done) => {
  const start = performance.now();
  document.querySelector("[aria-label='Unfold all repeated blocks']")?.click();
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
})
"""


def rate(page: Page, delta_x: float, delta_y: float, zoom: bool, seconds: float) -> str:
    times = page.evaluate(MOVE, [delta_x, delta_y, zoom, seconds])
    longest = max(b - a for a, b in zip(times, times[1:], strict=False))
    return f"{1000 * (len(times) - 1) / (times[-1] - times[0]):.0f}/s, {longest:.0f} ms"


def measure(page: Page, seconds: float) -> list[str]:
    drawn = page.get_attribute("#drawing", "data-drawn")
    unfolded = page.evaluate(UNFOLD)
    boxes = page.get_attribute("#drawing", "data-boxes")
    near = rate(page, 3, 40, False, seconds)
    page.click("[aria-label='Fit all of the network']")
    page.locator("#drawing").hover()
    figures = [rate(page, 1, 3, False, seconds), rate(page, 0, 20, True, seconds)]
    return [f"{drawn} ms", f"{unfolded:.0f} ms", str(boxes), near, *figures]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=5000)
    options.add_argument("--seconds", type=float, default=3)
    arguments = options.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("bench/page.py: no chromium: run script/setup --tests")
    print("| network | drawn | unfolded | boxes | moved, near | moved, all | zoomed, all |")
    print("|---|---|---|---|---|---|---|")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = made_up.package_of(PENSTOCK, folder)
        browser = playwright.chromium.launch(executable_path=chromium)
        for kind in ("residual", "transformer", "irregular", "tangled", "dense"):
            file = made_up.write_page(PENSTOCK, package, made_up.report(kind, arguments.nodes), folder / f"{kind}.html")
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(file.as_uri())
            page.wait_for_selector("#drawing[data-drawn]")
            print("|", " | ".join([kind, *measure(page, arguments.seconds)]), "|")
            page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
