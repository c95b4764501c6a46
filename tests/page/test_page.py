"""What a person does with the page of a build: each control, by mouse, by keys, in the dark, on a small screen."""

import json
import os
import re
from pathlib import Path

import pytest
from made_up import application, limit, report, way

ROOT = Path(__file__).resolve().parents[2]
# Regions that show less than all that is in them; the timeline may.
CUT_OFF = """() => [...document.querySelectorAll('.scroll')]
    .filter((region) => region.scrollWidth > region.clientWidth).map((region) => region.ariaLabel)"""
IN_A_BLOCK = "softmax_54"  # Of the last transformer block. The first one differs: it lies beside the mask.


@pytest.fixture
def page(open_page):
    return open_page(report())


def data(page, name: str) -> str:
    """What the drawing says of itself, once it was painted again."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.get_attribute("#drawing", f"data-{name}")


def camera(page) -> tuple[float, float, float]:
    return tuple(float(data(page, name)) for name in ("x", "y", "scale"))


def details(page) -> str:
    return page.locator("#details").inner_text()


def find(page, text: str) -> None:
    page.fill("#search", text)
    page.press("#search", "Enter")


def pixels(page) -> str:
    """Of the drawing."""
    data(page, "boxes")
    return page.evaluate("() => document.querySelector('canvas').toDataURL()")


def middle(page) -> tuple[float, float]:
    box = page.locator("#drawing").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def place_of(page, node: int) -> tuple[float, float]:
    """On the screen, of a box that the search has just brought into the middle or left where it was seen: by trying
    where a click selects it."""
    window = page.locator("#drawing").bounding_box()
    for y in range(10, int(window["height"]), 12):
        for x in range(10, int(window["width"]), 50):
            page.mouse.click(window["x"] + x, window["y"] + y)
            if page.get_attribute("#drawing", "data-selected") == str(node):
                return window["x"] + x, window["y"] + y
    raise AssertionError(f"no click selects node {node}")


def test_says_what_was_chosen(page):
    text = page.locator("header").inner_text()
    assert "transformer.onnx" in text and "two stages" in text and "the gap is 25 %" in text
    assert page.title() == "transformer.onnx: a build of Penstock"
    assert data(page, "boxes") == "62"


def test_begins_with_the_figures_that_one_wants_to_know(page, open_page):
    figures = " ".join(page.locator("#figures").inner_text().split())
    assert "frames/s 579" in figures
    assert "of the best simple way 1.11× which is openvino-throughput" in figures
    assert "gap to the bound 25 %" in figures and "of the machine's limit 30 % by computing" in figures
    made = report(goal="latency", latency_seconds=8e-3, simple=[way("penstock", 100)])
    figures = open_page(made).locator("#figures").inner_text()
    assert "8 ms" in figures and "best simple way" not in figures and "gap" not in figures


def test_a_simple_way_that_was_faster_is_told(page, open_page):
    assert "simple way" not in page.locator("header p").first.inner_text()
    made = report(simple=[way("onnxruntime", 80), way("openvino-per-core", 125), way("penstock", 100)])
    told = open_page(made).locator("header p").first.inner_text()
    assert "the simple way openvino-per-core was 25 % faster than this plan; --refresh measures all again" in told


def test_shows_the_stages_where_nothing_is_selected(page):
    rows = page.locator("#details .bars li").all_inner_texts()
    assert len(rows) == 2 and all("31 operators, openvino and onednn" in row for row in rows)


def test_text_of_the_report_is_never_markup(page):
    assert "left out: other: it is <i>not there</i>" in page.locator("#section-notes").inner_text()
    assert "no kernel for <b>this</b> & </script> that" in page.locator("#section-partitions").inner_text()


def test_the_buttons_zoom_and_fit(page):
    before = camera(page)
    page.click("[aria-label='Zoom in']")
    assert camera(page)[2] > before[2]
    page.click("[aria-label='Zoom out']")
    assert camera(page)[2] == pytest.approx(before[2], rel=0.01)
    page.click("[aria-label='Fit all of the network']")
    assert camera(page)[2] < before[2]


@pytest.mark.parametrize("how", ["the button", "the key"])
def test_fit_shows_all_of_a_deep_network(open_page, how):
    nodes = [{"name": f"n{i}", "op": f"Op{i % 7}{i * i % 11}", "inputs": [i - 1] if i else []} for i in range(3000)]
    for node in nodes:
        node |= {"stage": 0, "backend": "one", "seconds": 1e-6, "limit_seconds": 0}
    page = open_page(report(nodes=nodes, parts=[], limit=limit(1.0) | {"handovers": []}))
    page.click("[aria-label='Unfold all repeated blocks']")
    page.focus("#drawing")
    page.keyboard.press("End")
    x, y, scale = camera(page)
    last = y + page.locator("#drawing").bounding_box()["height"] / 2 / scale
    if how == "the button":
        page.click("[aria-label='Fit all of the network']")
    else:
        page.keyboard.press("0")
    x, y, scale = camera(page)
    rounded = 0.0005  # Scales are told in thousandths.
    assert y < 100 and y + page.locator("#drawing").bounding_box()["height"] / (scale - rounded) > last
    page.click("[aria-label='Zoom in']")
    assert scale < camera(page)[2] < 2 * scale


def test_the_wheel_zooms_where_the_mouse_is_and_a_drag_moves(page):
    x, y = middle(page)
    before = camera(page)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -200)
    zoomed = camera(page)
    assert zoomed[2] > before[2]
    page.mouse.down()
    page.mouse.move(x - 60, y - 80, steps=4)
    page.mouse.up()
    moved = camera(page)
    assert moved[2] == zoomed[2]
    assert (moved[0] - zoomed[0]) * moved[2] == pytest.approx(60, abs=2)
    assert (moved[1] - zoomed[1]) * moved[2] == pytest.approx(80, abs=2)
    assert page.get_attribute("#drawing", "data-selected") in (None, "")  # A drag is no click.


def test_a_click_tells_of_an_operator_and_one_beside_all_of_nothing(page):
    place_of(page, 0)
    text = details(page)
    assert "Conv" in text and "/block0/conv_0" in text and "33 % less time" in text
    assert "95 % within" in text and "left out: no kernel for <b>this</b>" in text
    window = page.locator("#drawing").bounding_box()
    page.mouse.click(window["x"] + 3, window["y"] + 3)
    assert "Click an operator" in details(page)


def test_a_double_click_folds_repeated_blocks(open_page):
    page = open_page(report("residual", 21))
    x, y = place_of(page, 2)
    page.mouse.dblclick(x, y)
    assert data(page, "boxes") == "2"  # The first operator, and four blocks.


def test_the_search_finds_by_operator_and_by_name_and_goes_there(page):
    page.fill("#search", "softmax")
    assert page.locator("#found").inner_text() == "4 operators"
    assert page.locator(".found button").count() == 4
    page.locator(".found button").nth(1).click()
    assert "Softmax" in details(page)
    assert page.evaluate("() => document.activeElement.id") == "drawing"
    page.fill("#search", "block0/cast")
    assert page.locator("#found").inner_text() == "1 operator"
    page.fill("#search", "nothing has this name")
    assert page.locator("#found").inner_text() == "0 operators"
    page.press("#search", "Escape")
    assert page.locator("#found").inner_text() == ""


def test_what_is_found_is_marked_in_the_drawing(page):
    before = pixels(page)
    page.fill("#search", "softmax")
    marked = pixels(page)
    assert marked != before
    page.fill("#search", "")
    assert pixels(page) == before


@pytest.mark.parametrize(("color", "key"), [("stage", "stage 1"), ("time", "0")])
def test_colours_say_backend_stage_or_time(page, color, key):
    before = pixels(page)
    assert page.locator(".legend").inner_text().split() == ["onednn", "openvino"]
    page.select_option("#color", color)
    assert key in page.locator(".legend").inner_text().split("\n")
    assert pixels(page) != before


def test_colours_say_how_far_from_the_limit_an_operator_is(page):
    before = pixels(page)
    page.select_option("#color", "limit")
    assert "fraction of the machine's limit" in page.locator("#color").inner_text()
    key = page.locator(".legend").inner_text().split("\n")
    assert [line for line in key if line] == ["0 %", "25 %", "50 %", "75 %", "100 %", "moves only, or not known"]
    assert pixels(page) != before
    find(page, "softmax")
    assert "40 % of what its device could do" in details(page)
    assert "at least, by computing" in details(page)  # Of its part.
    find(page, "transpose")
    assert "of what its device could do" not in details(page)


def test_the_page_says_where_the_time_goes(page):
    section = page.locator("#section-how-far-from-the-limit")
    text = " ".join(section.inner_text().split())
    assert "30 % of what the devices together could do" in text
    assert "2 GFLOP of fp32 at 200 GFLOP/s" in text and "3 MiB to move at 50 GB/s from L3" in text
    rows = section.locator(".bars li")
    names = rows.all_inner_texts()
    assert any("MatMul" in name and "40 % of the limit" in name for name in names)
    assert any("engine onednn" in name for name in names) and "waiting and handing over" in names[-1]
    table = section.locator("table")
    assert "12 KiB" in table.locator("tbody tr").first.inner_text()  # The largest first.
    table.locator("button").nth(1).click()
    assert data(page, "selected") == "47"


def test_a_report_of_an_unknown_limit_has_no_colour_for_it(open_page):
    made = report()
    for one in [*made["nodes"], *made["parts"]]:
        one["limit_seconds"] = 0
    made["limit"] |= {"seconds": 0, "handovers": []}
    page = open_page(made)
    assert page.locator("#color option").all_inner_texts() == ["backend", "stage", "time"]
    assert page.locator("#section-how-far-from-the-limit").count() == 0


def test_repeated_blocks_fold_and_unfold(page):
    page.click("[aria-label='Fold all repeated blocks']")
    folded = int(data(page, "boxes"))
    assert folded < 30
    page.click("[aria-label='Unfold all repeated blocks']")
    assert data(page, "boxes") == "62"
    find(page, IN_A_BLOCK)
    page.click("#toggle-run")
    assert int(data(page, "boxes")) == folded
    text = details(page)
    assert "operators" in text and "block 0" in text and "Unfold" in text
    page.click("#toggle-run")
    assert data(page, "boxes") == "62"


def test_details_lead_to_neighbours(page):
    find(page, "softmax")
    page.locator("#details .links button").first.click()
    assert "Add" in page.locator("#details h3").inner_text()


def test_keys_do_all_that_the_mouse_does(page):
    page.focus("#drawing")
    page.keyboard.press("Home")
    assert data(page, "selected") == "0"
    page.keyboard.press("ArrowDown")
    reader = data(page, "selected")
    assert reader != "0"
    page.keyboard.press("ArrowUp")
    assert data(page, "selected") == "0"
    find(page, "query")  # Nothing; the focus stays.
    find(page, "matmul_3")
    beside = data(page, "selected")
    page.keyboard.press("ArrowRight")
    right = data(page, "selected")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert len({beside, right, data(page, "selected")}) >= 2
    page.keyboard.press("End")
    assert data(page, "selected") == "61"
    before = camera(page)
    page.keyboard.press("+")
    assert camera(page)[2] > before[2]
    page.keyboard.press("-")
    page.keyboard.press("Shift+ArrowUp")
    assert camera(page)[1] < before[1]
    page.keyboard.press("0")
    assert camera(page)[2] < before[2]
    find(page, IN_A_BLOCK)
    page.keyboard.press("f")
    assert int(data(page, "boxes")) < 62
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "details"
    page.focus("#drawing")
    page.keyboard.press("Escape")
    assert data(page, "selected") == ""
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.id") == "search"


def test_all_controls_are_reached_by_tab(page):
    page.focus("#search")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("""() => {
            const element = document.activeElement;
            return element.id || element.getAttribute("aria-label");
        }""")
        )
    wanted = {"color", "Zoom in", "Zoom out", "drawing", "what-devices", "what-way", "what-backend"}
    assert wanted <= reached


def test_a_screen_reader_hears_the_selection(page):
    find(page, "softmax")
    said = page.locator("#said").inner_text()
    assert re.fullmatch(r"Softmax /block0/softmax_\d+, stage 0, openvino, [\d.]+ \S+, 1 input, 1 reader", said)
    tree = page.locator("#drawing").aria_snapshot()
    assert "Network of 62 operators" in tree


def test_bars_show_the_simple_ways_with_their_spread(page):
    rows = page.locator("#section-simple-ways .bars li")
    assert rows.count() == 3
    first = " ".join(rows.nth(0).inner_text().split())
    assert "onnxruntime" in first and "± 2.0 %" in first and "chosen is 2.5×" in first
    assert page.locator("#section-simple-ways .whisker").count() == 3
    longest = page.locator("#section-simple-ways .bar.own").bounding_box()["width"]
    shortest = page.locator("#section-simple-ways .bar").first.bounding_box()["width"]
    assert shortest / longest == pytest.approx(0.4, abs=0.02)
    assert "left out: wrong output" in page.locator("#section-plans").inner_text()


def test_latencies_are_compared_where_they_are_the_goal(open_page):
    made = report(goal="latency", latency_seconds=8e-3)
    for one, seconds in zip(made["simple"], (0.02, 0.01, 0.008), strict=True):
        one["latency_seconds"] = seconds
    page = open_page(made)
    assert "8 ms from push to pop, measured" in page.locator("header").inner_text()
    assert "No plan with" not in page.locator("header").inner_text()
    assert "20 ms ± 2.0 %; chosen is 2.5×" in page.locator("#section-simple-ways .bars li").nth(0).inner_text()


def test_the_timeline_shows_the_trace(page):
    timeline = page.locator("#section-timeline")
    assert "stage0/0 on cpu:0 busy 86 %, 12 calls" in timeline.inner_text()
    assert "12 frames came out in it, 960 a second; measured in all: 579." in timeline.inner_text()
    assert timeline.locator(".span").count() == 24
    assert timeline.locator(".times").inner_text().split("\n") == ["0", "3.13 ms", "6.25 ms", "9.38 ms", "12.5 ms"]
    assert timeline.locator(".span").first.get_attribute("title") == "frame 0: waited 200 µs, ran 900 µs"
    width = timeline.locator(".span").first.bounding_box()["width"]
    page.click("[aria-label='Stretch the timeline']")
    assert timeline.locator(".span").first.bounding_box()["width"] == pytest.approx(2 * width, rel=0.1)
    page.click("[aria-label='Shrink the timeline']")
    assert timeline.locator(".span").first.bounding_box()["width"] == pytest.approx(width, rel=0.1)


def test_a_rate_that_is_not_known_is_not_told(open_page):
    timeline = open_page(report(period_seconds=0)).locator("#section-timeline").inner_text()
    assert "12 frames came out in it, 960 a second." in timeline


def test_a_call_that_ends_after_the_trace_counts_until_there(open_page):
    made = report()
    made["trace"]["lanes"][0]["spans"] = [{"frame": 0, "ready": 0, "start": 0, "end": 10 * made["trace"]["seconds"]}]
    assert "busy 100 %, 1 call" in open_page(made).locator("#section-timeline").inner_text()


def test_a_report_without_a_trace_says_so(open_page):
    page = open_page(report(trace={"seconds": 0, "frames": 0, "lanes": []}))
    assert "holds no trace" in page.locator("#section-timeline").inner_text()


def predicted(page) -> float:
    return float(re.search(r"Predicted: ([\d.]+) frames/s", page.locator("#predicted").inner_text())[1])


def test_what_if_computes_the_bottleneck(open_page):
    made = report()
    seconds = [node["seconds"] for node in made["nodes"]]
    page = open_page(made)
    assert "A prediction" in page.locator("#section-what-if").inner_text()
    assert predicted(page) == pytest.approx(2 / sum(seconds), rel=0.01)  # Two devices, each the whole.
    page.fill("#what-devices", "4")
    assert predicted(page) == pytest.approx(4 / sum(seconds), rel=0.01)
    page.select_option("#what-way", "stages")
    best = least_bottleneck(seconds, 4)
    assert predicted(page) == pytest.approx(1 / best, rel=0.01)
    assert page.locator("#section-what-if .bars li").count() == 4
    page.select_option("#what-backend", "onnxruntime")
    assert predicted(page) == pytest.approx(1 / best / 1.5, rel=0.01)  # Each part takes half as long again there.


def least_bottleneck(seconds: list[float], stages: int) -> float:
    """By trying all: the least largest sum of so many pieces in a row."""
    sums = [0.0]
    for one in seconds:
        sums.append(sums[-1] + one)
    best = [sums[i] for i in range(len(sums))]
    for _ in range(stages - 1):
        best = [min(max(best[j], sums[i] - sums[j]) for j in range(i + 1)) for i in range(len(sums))]
    return best[-1]


def test_what_if_cut_after_an_operator(open_page):
    made = report("residual", 21)
    page = open_page(made)
    find(page, "add_4")
    page.click("#cut-after")
    assert page.input_value("#what-way") == "cuts"
    before = sum(node["seconds"] for node in made["nodes"][:5])
    after = sum(node["seconds"] for node in made["nodes"][5:])
    assert predicted(page) == pytest.approx(1 / max(before, after), rel=0.01)
    page.fill("#what-devices", "1")
    assert predicted(page) == pytest.approx(1 / (before + after), rel=0.01)
    page.click("text=Take all my cuts away")
    assert page.locator("#section-what-if .bars li").count() == 1
    assert page.locator("#cut-after").inner_text() == "What if cut after it"
    assert page.get_attribute("#cut-after", "aria-pressed") == "false"
    page.click("#cut-after")
    assert page.locator("#cut-after").inner_text() == "Take the cut away"


def test_partitions_lead_to_their_operators(page):
    page.locator("#section-partitions button").nth(1).click()
    assert data(page, "selected") == "16"


def showing(page) -> str:
    return page.locator("#shown option:checked").inner_text()


def test_one_network_has_nothing_to_choose(page):
    assert page.locator("#shown").count() == 0


def test_an_application_shows_how_each_of_its_networks_was_built(open_page):
    page = open_page(application())
    assert page.locator("#shown option").all_inner_texts() == [
        "the application",
        "network detect: residual.onnx",
        "network landmarks: transformer.onnx",
    ]
    assert data(page, "boxes") == "4" and "app.yaml" in page.locator("h1").inner_text()
    for index, boxes in ((1, "21"), (2, "62")):
        page.select_option("#shown", index=index)
        assert data(page, "boxes") == boxes
        assert page.locator("main").count() == 1 and page.locator("#drawing").count() == 1
        assert page.locator("#section-simple-ways .bars li").count() == 3
        assert "± 2.0 %" in page.locator("#section-simple-ways").inner_text()
        assert "Chosen: two stages" in page.locator("header").inner_text()
        find(page, "conv_0")
        assert "33 % less time" in details(page) and "95 % within" in details(page)
        page.click("[aria-label='Zoom in']")
        page.click("#cut-after")
        assert page.input_value("#what-way") == "cuts"
    page.select_option("#shown", index=0)
    assert data(page, "boxes") == "4" and "Chosen: planned" in page.locator("header").inner_text()


def test_a_network_of_an_application_leads_to_its_build(open_page):
    page = open_page(application())
    page.focus("#drawing")
    page.keyboard.press("Home")
    assert "function" in details(page) and page.locator("#own-build").count() == 0
    for node, name, boxes in (("detect/1", "detect", "21"), ("landmarks", "landmarks", "62")):
        find(page, node)
        page.focus("#own-build")
        page.keyboard.press("Enter")
        assert data(page, "boxes") == boxes and showing(page).startswith(f"network {name}:")
        assert page.evaluate("() => document.activeElement.id") == "shown"
        find(page, "conv_0")
        assert page.locator("#own-build").count() == 0
        page.select_option("#shown", index=0)


def test_keys_act_once_after_networks_were_chosen(open_page):
    page = open_page(application())
    for index in (1, 2, 0, 1):
        page.select_option("#shown", index=index)
    page.focus("#drawing")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    assert data(page, "selected") == "4"  # The Add, straight below.
    before = camera(page)
    page.keyboard.press("+")
    assert camera(page)[2] == pytest.approx(1.25 * before[2], rel=0.01)
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.id") == "search"


def test_builds_that_the_plan_does_not_use_are_told(open_page):
    hint = "faster with the networks as the application has them"
    assert hint not in open_page(application()).locator("header").inner_text()
    assert hint in open_page(application(chosen="as it is written")).locator("header").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_the_choice_of_a_network_fits_and_is_accessible(open_page, scheme, width):
    page = open_page(application(), color_scheme=scheme, viewport={"width": width, "height": 900})
    long = application()
    long["networks"][0] |= {"node": "detect" * 12, "model": "residual" * 12}
    for index in range(3):
        page.select_option("#shown", index=index)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert page.evaluate(CUT_OFF) == []
        assert violations(page) == []
    page.select_option("#shown", index=0)
    find(page, "detect/0")
    assert violations(page) == []
    page = open_page(long, viewport={"width": width, "height": 900})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_dark_has_colours_of_its_own(open_page):
    ground = "() => getComputedStyle(document.body).backgroundColor"
    light, dark = (open_page(report(), color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(ground) == "rgb(255, 255, 255)" and dark.evaluate(ground) == "rgb(21, 24, 28)"
    before = pixels(light)
    light.emulate_media(color_scheme="dark")
    assert pixels(light) != before  # The drawing follows at once.


@pytest.mark.parametrize("width", [400, 700, 1600])
def test_nothing_hangs_over_the_edge(open_page, width):
    page = open_page(report(), viewport={"width": width, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT_OFF) == []
    find(page, "softmax")
    page.select_option("#what-way", "stages")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.locator("#drawing").bounding_box()["width"] >= 0.5 * width


def test_a_finger_selects(open_page):
    page = open_page(report(), viewport={"width": 400, "height": 800}, has_touch=True)
    page.locator("#drawing").scroll_into_view_if_needed()
    place = place_of(page, 0)
    page.focus("#drawing")
    page.keyboard.press("Escape")
    assert data(page, "selected") == ""
    page.touchscreen.tap(*place)
    assert data(page, "selected") == "0"


@pytest.mark.parametrize("kind", ["residual", "transformer", "irregular", "tangled", "dense"])
def test_five_thousand_operators_are_drawn_and_searched(open_page, kind):
    page = open_page(report(kind, 5000))
    assert int(page.get_attribute("#drawing", "data-drawn")) < 10_000  # About one second on a machine that is idle.
    if kind not in ("irregular", "tangled"):
        assert int(data(page, "boxes")) < 100  # Folded at first.
        page.click("[aria-label='Unfold all repeated blocks']")
    assert int(data(page, "boxes")) > 4900
    page.click("[aria-label='Fit all of the network']")
    find(page, "conv_4" if kind != "transformer" else "softmax_4")
    assert data(page, "selected") != ""
    x, y = middle(page)
    page.mouse.move(x, y)
    for _ in range(10):
        page.mouse.wheel(0, 300)
    assert float(data(page, "scale")) < 0.2


def test_the_picture_in_the_documents_can_be_made(open_page, tmp_path):
    """PENSTOCK_SCREENSHOT names where it goes."""
    page = open_page(report(), viewport={"width": 1200, "height": 860})
    page.select_option("#color", "stage")
    find(page, "block0/gelu")
    page.focus("#search")
    page.evaluate("() => (document.activeElement.blur(), scrollTo(0, 0))")
    file = Path(os.environ.get("PENSTOCK_SCREENSHOT", tmp_path / "page.png"))
    page.screenshot(path=file)
    for picture in (file, ROOT / "docs/page.png"):
        assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size <= 200_000


def violations(page) -> list[str]:
    page.evaluate((ROOT / ".prefix/web/node_modules/axe-core/axe.min.js").read_text())
    found = page.evaluate("async () => (await axe.run()).violations")
    return [f"{one['id']}: {node['html']}" for one in found for node in one["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_axe_finds_no_violation(open_page, scheme, width):
    page = open_page(report(), color_scheme=scheme, viewport={"width": width, "height": 900})
    assert violations(page) == []
    page.fill("#search", "matmul")
    assert violations(page) == []
    find(page, IN_A_BLOCK)
    page.click("#cut-after")
    page.locator("summary").click()
    assert violations(page) == []
    page.click("#toggle-run")
    page.select_option("#color", "time")
    assert violations(page) == []


def test_names_the_libraries_that_are_in_it(page):
    page.locator("summary").click()
    text = page.locator(".licences").inner_text()
    packages = json.loads((ROOT / "web/package-lock.json").read_text())["packages"]
    shipped = [place for place, package in packages.items() if place and not package.get("dev")]
    bundled = {place.split("node_modules/")[-1] for place in shipped}
    assert bundled and all(re.search(rf"(^|[ \n]){re.escape(name)}[,:]", text) for name in bundled)
    documented = (ROOT / "docs/building.md").read_text()
    assert all(f"`{name}`" in documented for name in bundled)
