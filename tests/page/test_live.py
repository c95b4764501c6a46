"""What a person does with the page of a running pipeline, and with recordings of it."""

import contextlib
import http.server
import json
import math
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import made_up
import made_up_run
import numpy as np
import onnx
import pytest
from built_program import find_program
from onnx import TensorProto, helper, numpy_helper
from test_page import CUT_OFF, violations

ROOT = Path(__file__).resolve().parents[2]
# Of load in test_some_time_of_load: PENSTOCK_LIVE_SECONDS=600 is ten minutes.
PATIENCE_MS = 120_000  # With what is on its way, on a machine that has much to do.
SECONDS = float(os.environ.get("PENSTOCK_LIVE_SECONDS", "5"))


@pytest.fixture(scope="session")
def program_of_page(write_page) -> str:
    """The script that Penstock puts into its pages."""
    return write_page(made_up.report()).read_text().partition('<script id="program">')[2].partition("</script>")[0]


@pytest.fixture
def open_url(browser):
    """open_url(url, **context) -> the page. At the end nothing may have failed in it."""
    opened = []

    def open_url(url: str, **context):
        context = {"viewport": {"width": 1200, "height": 900}, "accept_downloads": True} | context
        page = browser.new_context(**context).new_page()
        page.set_default_timeout(PATIENCE_MS)
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        opened.append((page, errors))
        page.goto(url)
        page.wait_for_selector("#drawing[data-drawn]")
        return page

    yield open_url
    for page, errors in opened:
        page.context.close()
        assert errors == []


@pytest.fixture
def open_recording(open_url, program_of_page, tmp_path):
    def open_recording(data: dict, **context):
        return open_url(made_up_run.write_page(program_of_page, data, tmp_path / "made_up.html").as_uri(), **context)

    return open_recording


@pytest.fixture
def page(open_recording):
    return open_recording(made_up_run.recording())


def until(page, condition, what: str) -> None:
    end = time.monotonic() + PATIENCE_MS / 1000
    while not condition():
        assert time.monotonic() < end, what
        page.wait_for_timeout(20)


def wait_until(page, expression: str) -> None:
    """As wait_for_function(), which a page's Content-Security-Policy forbids."""
    until(page, lambda: page.evaluate(expression), expression)


def figure(page, name: str, what: str = ".figure-value") -> str:
    return page.locator("#figures div", has=page.locator(f"dt:text-is('{name}')")).locator(what).inner_text()


def shown(page) -> int:
    return int(page.evaluate("document.body.dataset.sample"))


# Recordings


def test_figures_are_those_of_the_last_moment(page):
    assert figure(page, "frames out") == "6000" and figure(page, "errors") == "2"
    assert figure(page, "frames/s") == "97.8" and figure(page, "frames/s", ".hint") == "98 % of the predicted 100"
    assert figure(page, "memory") == "286 MiB" and figure(page, "memory", ".hint") == "12 KiB for the queues"
    assert "A recording of" in page.locator("#status").inner_text()
    assert page.locator("h1").inner_text() == "<b>made</b> up"  # Text is never markup.


CAUSE = "the pipeline stopped at its first error: stage 'stage1': frame 71: no such row"


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        ({"closed": "the pipeline is closed", "stopped": False, "errors": 0}, "well, 5998 frames came out."),
        (
            {"closed": "the pipeline is closed", "stopped": False, "drops": 1, "cancelled": 3},
            "5998 frames came out, 2 ended with errors, 3 were cancelled, 1 was dropped.",
        ),
        ({"closed": CAUSE, "stopped": True}, f"{CAUSE}."),
        ({"closed": "the pipeline is closed"}, "the pipeline is closed."),  # Of an older version.
    ],
)
def test_a_recording_says_how_its_run_ended(open_recording, ended, told):
    data = made_up_run.recording()
    data["samples"][-1] |= {"in_flight": 0} | ended
    status = open_recording(data).locator("#status").inner_text()
    assert re.fullmatch(r"A recording of [\d:]+, 2023-11-14[.] It ended at [\d:]+: " + re.escape(told), status), status


def test_a_pipeline_that_is_not_busy_is_not_measured_by_the_prediction(open_recording):
    data = made_up_run.recording()
    for stage in data["samples"][-1]["stages"]:
        stage["load"] = 0.2
    data["samples"][-1]["fps"] = 30
    assert figure(open_recording(data), "frames/s", ".hint") == "not busy; 100 are predicted"


def test_the_slider_goes_back_and_follow_returns(page):
    assert shown(page) == 120
    page.focus("#moment")
    page.keyboard.press("Home")
    assert shown(page) == 1 and figure(page, "frames out") == "50"
    assert page.get_attribute("#follow", "aria-pressed") == "false"
    page.keyboard.press("ArrowRight")
    assert shown(page) == 2
    assert re.fullmatch(r"\d\d:\d\d:\d\d", page.get_attribute("#moment", "aria-valuetext"))
    page.click("#follow")
    assert shown(page) == 120 and page.get_attribute("#follow", "aria-pressed") == "true"


def test_charts_show_as_much_as_is_asked_for(open_recording):
    page = open_recording(made_up_run.recording(count=300))  # 150 s.
    points = lambda: page.locator("path.curve0").first.get_attribute("d").count(",")  # noqa: E731
    assert points() == 121  # The last minute.
    page.select_option("#span", label="all")
    assert points() == 300
    page.select_option("#span", label="the last ten minutes")
    assert points() == 300


def test_a_gap_in_a_curve_stays_one(open_recording):
    data = made_up_run.recording(count=20)
    for sample in data["samples"][5:8]:
        sample["latency_us"] = None
    page = open_recording(data)
    assert page.locator("figure", has_text="From push to pop").locator("path.curve0").get_attribute("d").count("M") == 2


def test_a_prediction_is_marked(page, open_recording):
    assert page.locator("path.level").count() == 4
    assert page.locator("path.level[d]").count() == 1
    unknown = made_up_run.recording()
    unknown["about"]["predicted"] = {"period_seconds": 0, "latency_seconds": 0}
    page = open_recording(unknown)
    assert page.locator("path.level[d]").count() == 0 and figure(page, "frames/s", ".hint") == ""


def test_charts_have_scales(page):
    scales = [figure.inner_text().split("\n") for figure in page.locator(".chart .scale").all()]
    assert scales[0] == ["150", "75", "0"]  # Some more than what is predicted, whose line would lie on the edge.
    assert scales[2:] == [["100 %", "50 %", "0 %"], ["300 MiB", "150 MiB", "0 B"]]
    times = page.locator(".chart .times").first
    assert times.inner_text().split("\n")[-1] == page.locator("#moment-text").inner_text()
    before = times.inner_text()
    page.select_option("#span", label="all")
    assert times.inner_text() <= before


def test_errors_lead_to_their_stage(page):
    errors = page.locator("#errors li")
    assert errors.count() == 2
    assert "frame 93" in errors.first.inner_text() and "no <i>such</i> row" in errors.first.inner_text()
    errors.first.get_by_role("button").click()
    assert page.get_attribute("#drawing", "data-selected") == "1"
    assert "stage1" in page.locator("#details").inner_text()
    assert page.evaluate("document.activeElement.id") == "drawing"


def test_the_table_of_stages_leads_to_the_drawing(page):
    page.get_by_role("button", name="stage0", exact=True).click()
    assert page.get_attribute("#drawing", "data-selected") == "0"
    assert "computes" in page.locator("#details").inner_text()


def test_queues_and_cpus_are_there(page):
    assert "8 of 8" in page.locator("#section-queues").inner_text()
    assert "93 %" in page.locator("#section-cpus").inner_text()


def test_operators_are_drawn_where_the_build_is_known(open_recording):
    page = open_recording(made_up_run.recording(made_up.report()))
    assert page.locator("#color option").all_inner_texts() == ["load", "stage", "backend", "time"]
    page.fill("#search", "softmax")
    page.keyboard.press("Enter")
    assert "Softmax" in page.locator("#details").inner_text()


def test_colours_follow_the_load(page):
    picture = lambda: page.evaluate("document.querySelector('canvas').toDataURL()")  # noqa: E731
    page.focus("#moment")
    page.wait_for_timeout(50)
    before = picture()
    page.keyboard.press("PageDown")
    while picture() == before:
        page.wait_for_timeout(20)
    page.select_option("#color", "stage")
    assert "stage 1" in page.locator(".legend").inner_text()


def test_what_is_saved_opens_again(page, open_url, tmp_path):
    with page.expect_download() as download:
        page.click("#save")
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    again = open_url(file.as_uri())
    assert again.locator("#figures").inner_text() == page.locator("#figures").inner_text()
    assert again.locator("#errors li").count() == 2
    with again.expect_download() as download:  # And may be saved from there.
        again.click("#save")


def test_a_recording_opens_in_the_page_of_another(page, open_recording, program_of_page, tmp_path):
    other = made_up_run.recording(count=30)
    other["about"]["model"] = "the other"
    file = made_up_run.write_page(program_of_page, other, tmp_path / "other.html")
    page.set_input_files("#open", file)
    wait_until(page, "document.querySelector('h1').innerText === 'the other'")
    assert shown(page) == 30
    bad = tmp_path / "bad.html"
    bad.write_text("<p>nothing</p>")
    page.set_input_files("#open", bad)
    wait_until(page, "document.querySelector('#file-said').innerText !== ''")
    assert "no recording" in page.locator("#file-said").inner_text()


@pytest.mark.parametrize(
    "text",
    [
        '{"about": {"stages": []}, "samples": []}',
        '{"about": {"stages": [{}]}, "samples": [{}]}',
        json.dumps(made_up_run.recording(count=9) | {"samples": [{}, made_up_run.sample(2, cpus=[0.5])]}),
        json.dumps(made_up_run.recording({"nodes": 5})),
    ],
)
def test_a_file_that_is_half_a_recording_is_refused(page, tmp_path, text):
    (tmp_path / "half.json").write_text(text)
    page.set_input_files("#open", tmp_path / "half.json")
    wait_until(page, "document.querySelector('#file-said').innerText !== ''")
    assert "half.json': this file is no recording" in page.locator("#file-said").inner_text()
    assert page.locator("h1").inner_text() == "<b>made</b> up" and shown(page) == 120
    page.click("#follow")  # It is the page that was there, not a picture of it.
    assert page.get_attribute("#follow", "aria-pressed") == "false"


def test_samples_of_other_stages_are_left_out(page, open_recording, tmp_path):
    other = made_up_run.recording(count=30)
    other["samples"][7]["stages"].append(other["samples"][7]["stages"][0])
    (tmp_path / "other.json").write_text(json.dumps(other))
    page.set_input_files("#open", tmp_path / "other.json")
    wait_until(page, "document.querySelector('#moment').max === '28'")
    assert open_recording(other).get_attribute("#moment", "max") == "28"


def test_a_drawing_that_is_gone_hears_of_no_colours(page, tmp_path):
    (tmp_path / "other.json").write_text(json.dumps(made_up_run.recording(count=30)))
    page.set_input_files("#open", tmp_path / "other.json")
    wait_until(page, "document.body.dataset.sample === '30'")
    page.evaluate("""() => {
        const style = getComputedStyle;
        globalThis.styled = [];
        globalThis.getComputedStyle = (element) => (styled.push(element.isConnected), style(element));
    }""")
    page.emulate_media(color_scheme="dark")
    wait_until(page, "styled.includes(true)")
    assert page.evaluate("styled") == [True]


def test_no_two_elements_have_one_id(page):
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))


def test_stages_are_called_stages(page, open_recording):
    assert page.get_attribute("#drawing", "aria-label") == "Network of 2 stages"
    page.fill("#search", "stage1")
    assert page.locator("#found").inner_text() == "1 stage"
    assert "operator" not in page.locator("#help").inner_text()
    built = open_recording(made_up_run.recording(made_up.report()))
    assert built.get_attribute("#drawing", "aria-label") == "Network of 62 operators"


def test_all_controls_are_reached_by_tab(page):
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"follow", "moment", "span", "save", "open", "search", "color", "drawing"} <= reached


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_hangs_over_the_edge(open_recording, width):
    page = open_recording(made_up_run.recording(), viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT_OFF) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_axe_finds_no_violation(open_recording, scheme, width):
    page = open_recording(made_up_run.recording(), color_scheme=scheme, viewport={"width": width, "height": 900})
    assert violations(page) == []
    page.get_by_role("button", name="Show stage1").first.click()
    page.focus("#moment")
    page.keyboard.press("Home")
    assert violations(page) == []


# Servers


class MadeUpServer(http.server.ThreadingHTTPServer):
    """Serves a page, and goes on with samples that nobody has seen, ten a second, up to the number `until`."""

    daemon_threads = True

    def __init__(self, page: str):
        super().__init__(("127.0.0.1", 0), MadeUpAnswers)
        self.page = page
        self.refuses = False
        self.until = math.inf
        self.sample = made_up_run.sample
        self.about = None  # What listeners are told of another plan.
        self.delay = lambda: None  # Before each answer but events.
        self.asked = []  # Each path and when.

    def times(self, path: str) -> list[float]:
        return [when for asked, when in self.asked if asked == path]


class MadeUpAnswers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path.partition("?")[0], time.monotonic()))
        if not self.path.startswith("/events"):
            self.server.delay()
        if self.server.refuses:
            self.answer(503, "application/json", '{"error": "too many look on"}')
        elif self.path.startswith("/events"):
            self.go_on(int(self.path.partition("after=")[2]))
        else:
            self.answer(200, "text/html", self.server.page)

    def answer(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def go_on(self, number: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(b"retry: 100\n\n")
            told = None
            while not self.server.refuses:
                if self.server.about is not told:
                    told = self.server.about
                    self.wfile.write(f"event: about\ndata: {json.dumps(told)}\n\n".encode())
                if number < self.server.until:
                    number += 1
                    sample = json.dumps(self.server.sample(number))
                    self.wfile.write(f"event: sample\nid: {number}\ndata: {sample}\n\n".encode())
                time.sleep(0.1)

    def log_message(self, *_):
        pass


@pytest.fixture
def serve(program_of_page, tmp_path):
    """serve(recording) -> a server of it that goes on."""
    with contextlib.ExitStack() as servers:

        def serve(data: dict) -> tuple[MadeUpServer, str]:
            page = made_up_run.write_page(program_of_page, data | {"live": True}, tmp_path / "served.html")
            server = servers.enter_context(MadeUpServer(page.read_text()))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            servers.callback(server.shutdown)
            servers.callback(setattr, server, "refuses", True)  # So that what goes on ends.
            return server, f"http://127.0.0.1:{server.server_address[1]}/"

        yield serve


def test_a_moment_stays_while_older_samples_are_thinned_out(serve, open_url):
    server, url = serve(made_up_run.recording(count=2330))
    server.until = 2330
    page = open_url(url)
    page.locator("#moment").fill("1000")
    held, when = shown(page), page.locator("#moment-text").inner_text()
    server.until = math.inf
    wait_until(page, "Number(document.querySelector('#moment').max) < 2000")
    assert shown(page) == held and page.locator("#moment-text").inner_text() == when
    assert 400 < int(page.locator("#moment").input_value()) < 600
    page.click("#follow")
    assert shown(page) > 2396


def test_a_page_that_was_refused_tries_again(serve, open_url):
    server, url = serve(made_up_run.recording())
    page = open_url(url)
    wait_for_samples(page, 122)
    server.refuses = True
    page.wait_for_selector("#status[data-state='lost']")
    wait_until(page, "document.querySelector('#status').innerText.includes('too many look on')")
    before = shown(page)
    server.refuses = False
    page.wait_for_selector("#status[data-state='running']")
    wait_for_samples(page, before + 2)


def test_a_refusal_that_comes_late_is_told(serve, open_url):
    server, url = serve(made_up_run.recording())
    page = open_url(url)
    wait_for_samples(page, 122)
    server.delay = lambda: time.sleep(1.5)  # Longer than until it is asked again at first.
    server.refuses = True
    wait_until(page, "document.querySelector('#status').innerText.includes('too many look on')")


@pytest.fixture
def another(program_of_page, tmp_path) -> str:
    """The page of another plan."""
    data = made_up_run.recording(count=30) | {"about": made_up_run.about(**ANOTHER), "live": True}
    return made_up_run.write_page(program_of_page, data, tmp_path / "another.html").read_text()


ANOTHER = {"model": "another", "generation": 2}


def test_another_plan_leaves_focus_and_place(serve, open_url, another):
    server, url = serve(made_up_run.recording())
    page = open_url(url)
    page.focus("#span")
    page.evaluate("scrollTo(0, 300)")
    page.evaluate("""() => {
        globalThis.told = [];
        new MutationObserver(() => told.push(document.querySelector("#status").textContent.trim()))
            .observe(document.body, {childList: true});
    }""")
    server.page, server.about = another, made_up_run.about(**ANOTHER)
    wait_until(page, "document.querySelector('h1').innerText === 'another'")
    assert page.evaluate("[document.activeElement.id, scrollY]") == ["span", 300]
    assert page.evaluate("told") == [""]  # Only what changes in a status that is there is read out.
    page.wait_for_selector("#status[data-state='running']")
    wait_until(page, "document.querySelector('#status').innerText === 'Running.'")


@pytest.mark.parametrize("refuses", [False, True])
def test_a_recording_stays_when_another_plan_is_told_late(serve, open_url, another, tmp_path, refuses):
    server, url = serve(made_up_run.recording())
    page = open_url(url)
    let_go = threading.Event()
    server.delay = let_go.wait
    server.page, server.about = another, made_up_run.about(**ANOTHER)
    until(page, lambda: len(server.times("/")) == 2, "the page of the other plan")
    (tmp_path / "other.json").write_text(json.dumps(made_up_run.recording(count=60)))
    page.set_input_files("#open", tmp_path / "other.json")
    wait_until(page, "document.body.dataset.sample === '60'")
    listeners, server.refuses = server.times("/events"), refuses
    let_go.set()
    page.wait_for_timeout(1500)  # In which it would come, or be asked for again.
    assert page.locator("h1").inner_text() == "<b>made</b> up" and shown(page) == 60
    assert server.times("/events") == listeners


def test_another_plan_that_does_not_come_is_asked_for_less_and_less(serve, open_url):
    server, url = serve(made_up_run.recording())
    page = open_url(url)
    server.page, server.about = "no page", made_up_run.about(**ANOTHER)
    until(page, lambda: len(server.times("/")) == 4, "the page of the other plan, three times")
    assert server.times("/")[3] - server.times("/")[2] > 1.9


def test_errors_that_come_while_a_button_is_held_are_shown_after_it(serve, open_url):
    server, url = serve(made_up_run.recording())
    server.until = 120
    server.sample = lambda n: made_up_run.sample(n, errors=3, failures=[made_up_run.failure(99)])
    page = open_url(url)
    page.locator("#errors li button").first.hover()
    page.mouse.down()
    server.until = 121  # The last one.
    wait_for_samples(page, 121)
    assert page.locator("#errors li").count() == 2
    page.mouse.up()
    wait_until(page, "document.querySelectorAll('#errors li').length === 3")


# Pipelines


def save_lookup(folder: Path) -> Path:
    """y = relu(table[i]): fails for an index over 3."""
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["g"], "gather"),
        helper.make_node("Relu", ["g"], ["y"], "relu"),
    ]
    table = numpy_helper.from_array(np.arange(4, dtype=np.float32), "table")
    ports = [
        helper.make_tensor_value_info("i", TensorProto.INT64, [2]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]),
    ]
    graph = helper.make_graph(nodes, "lookup", ports[:1], ports[1:], [table])
    file = folder / "lookup.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


GOOD, BAD = np.zeros(2, np.int64).tobytes(), np.full(2, 9, np.int64).tobytes()
ENDLESS = ["--frames", "100000000", "--rate", "80"]


@pytest.fixture
def run(tmp_path):
    """run(*options) -> the process of a pipeline, and where its page is. Each 8th frame fails; or with `by_hand`,
    frames are what is written to its standard input."""
    processes = []
    package = tmp_path / "lookup.penstock"
    split = [find_program(), "split", save_lookup(tmp_path), "--cut", "gather", "-o", package]
    subprocess.run(split, check=True, capture_output=True)
    np.savez(tmp_path / "frames.npz", **{f"{n}/i": np.full(2, 9 if n == 5 else 0, np.int64) for n in range(8)})

    def run(*options: str, page: str = "127.0.0.1:0", by_hand: bool = False) -> tuple[subprocess.Popen, str]:
        source = ["--input", "i=-"] if by_hand else ["--inputs", str(tmp_path / "frames.npz")]
        command = [find_program(), "run", package, *source, "--page", page, *options]
        processes.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        )
        for line in processes[-1].stderr:
            if found := re.search(r"page at (http://\S+)", line.decode()):
                return processes[-1], found[1]
        raise AssertionError("it told no address")

    yield run
    for process in processes:
        process.kill()
        process.wait()


def give(process: subprocess.Popen, *frames: bytes) -> None:
    process.stdin.write(b"".join(frames))
    process.stdin.flush()


def wait_for_samples(page, count: int) -> None:
    wait_until(page, f"Number(document.body.dataset.sample) >= {count}")


def test_a_running_pipeline_is_seen_alive(run, open_url):
    page = open_url(run(*ENDLESS)[1])
    assert page.locator("#status").inner_text() == "Running."
    wait_for_samples(page, 3)
    before = int(figure(page, "frames out"))
    wait_for_samples(page, 6)
    assert int(figure(page, "frames out")) > before
    page.wait_for_selector("#errors li")
    assert "gather" in page.locator("#errors li").first.inner_text()
    assert violations(page) == []


def test_another_plan_brings_its_own_drawing(run, open_url, tmp_path):
    package = tmp_path / "lookup.penstock"

    def rebuild(mark: str) -> None:
        report = made_up.report()
        report["nodes"][0]["name"] = mark
        made_up.put_report(package, report)

    rebuild("the_first")
    process, url = run(*ENDLESS)
    page = open_url(url)
    assert page.get_attribute("#drawing", "aria-label") == "Network of 62 operators"
    rebuild("the_second")
    process.send_signal(signal.SIGHUP)
    found = "document.querySelector('#search').value = 'the_second',"
    found += "document.querySelector('#search').dispatchEvent(new Event('input')),"
    wait_until(page, f"({found} document.querySelector('#found').innerText === '1 operator')")
    assert page.get_attribute("#drawing", "aria-label") == "Network of 62 operators"


def test_buttons_of_errors_stay_while_more_errors_come(run, open_url):
    page = open_url(run(*ENDLESS)[1])
    page.wait_for_selector("#errors li button")
    page.locator("#errors li button").first.focus()
    frame = page.evaluate("document.activeElement.parentElement.textContent")
    count = page.locator("#errors li").count()
    wait_until(page, f"document.querySelectorAll('#errors li').length > {count}")
    assert page.evaluate("document.activeElement.parentElement?.textContent") == frame
    page.locator("#errors li button").first.hover()
    page.mouse.down()  # And is held for longer than it takes more to come.
    wait_for_samples(page, shown(page) + 3)
    page.mouse.up()
    assert page.get_attribute("#drawing", "data-selected") == "0"


def test_a_pause_holds_the_moment_while_more_comes(run, open_url):
    page = open_url(run(*ENDLESS)[1])
    wait_for_samples(page, 2)
    page.click("#follow")
    held = shown(page)
    wait_until(page, f"Number(document.querySelector('#moment').max) >= {held + 2}")
    assert shown(page) == held
    page.click("#follow")
    wait_for_samples(page, held + 2)


def test_a_pipeline_that_is_killed_leaves_what_was_seen(run, open_url, tmp_path):
    process, url = run(*ENDLESS)
    page = open_url(url)
    wait_for_samples(page, 3)
    process.send_signal(signal.SIGKILL)
    page.wait_for_selector("#status[data-state='lost']")
    assert "What was seen stays" in page.locator("#status").inner_text()
    assert int(figure(page, "frames out")) > 0
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "saved.html")
    again = open_url((tmp_path / "saved.html").as_uri())
    assert "A recording of" in again.locator("#status").inner_text()


def test_a_pipeline_that_stops_by_an_error_says_why(run, open_url):
    process, url = run("--on-error", "stop", by_hand=True)
    page = open_url(url)
    give(process, GOOD, GOOD, BAD)
    page.wait_for_selector("#status[data-state='ended']")
    page.wait_for_selector("#errors li")
    assert "frame 2" in page.locator("#errors li").inner_text()
    assert "stopped at its first error" in page.locator("#status").inner_text()


def test_a_run_that_ends_says_so(run, open_url):
    process, url = run(by_hand=True)
    page = open_url(url)
    give(process, *[GOOD] * 20, BAD)
    process.stdin.close()
    page.wait_for_selector("#status[data-state='ended']")
    wait_until(page, "document.querySelector('#status').innerText !== 'Running.'")
    assert figure(page, "frames out") == "21" and figure(page, "errors") == "1"


def test_a_page_that_was_lost_shows_the_next_run(run, open_url):
    process, url = run(*ENDLESS)
    page = open_url(url)
    wait_for_samples(page, 2)
    process.kill()
    process.wait()
    page.wait_for_selector("#status[data-state='lost']")
    run(*ENDLESS, page=url.removeprefix("http://").removesuffix("/"))
    page.wait_for_selector("#status[data-state='running']")


@pytest.mark.sweep(of=3)
def test_a_page_whose_run_has_ended_shows_the_next_run(run, open_url):
    process, url = run(by_hand=True)
    page = open_url(url)
    give(process, *[GOOD] * 20)
    process.stdin.close()
    page.wait_for_selector("#status[data-state='ended']")
    process.wait()
    page.wait_for_timeout(4000)  # It has looked for the next one in vain.
    assert page.get_attribute("#status", "data-state") == "ended"
    run(*ENDLESS, page=url.removeprefix("http://").removesuffix("/"))
    page.wait_for_selector("#status[data-state='running']")


@pytest.mark.sweep(of=3)
def test_some_time_of_load(run, open_url):
    """At full speed; what the page holds is bounded."""
    page = open_url(run("--frames", "1000000000")[1])
    wait_for_samples(page, 2)
    first = shown(page)
    page.wait_for_timeout(1000 * SECONDS)
    wait_for_samples(page, first + int(SECONDS))  # Of two a second.
    assert int(page.get_attribute("#moment", "max")) < 2400
    assert page.locator("#errors li").count() <= 200
    assert page.locator("#status").inner_text() == "Running."


def test_the_picture_in_the_documents_can_be_made(open_recording, tmp_path):
    """PENSTOCK_LIVE_SCREENSHOT names where it goes."""
    data = made_up_run.recording(made_up.report())
    data["about"]["model"] = "transformer.penstock"
    page = open_recording(data, viewport={"width": 1200, "height": 1000})
    file = Path(os.environ.get("PENSTOCK_LIVE_SCREENSHOT", tmp_path / "live.png"))
    page.screenshot(path=file)
    for picture in (file, ROOT / "docs/live.png"):
        assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size <= 200_000
