"""Pages of `penstock explain --html` in a real browser: Debian's Chromium, driven by playwright."""

import shutil
from pathlib import Path

import made_up
import pytest
from built_program import find_program

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")  # It keeps an event loop running, beside which asyncio.run() of other tests cannot.
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium: run script/setup --tests")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright in this environment: run script/setup")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def write_page(tmp_path_factory):
    """write_page(report) -> the file of its page."""
    folder = tmp_path_factory.mktemp("pages")
    program = find_program()
    package = made_up.package_of(program, folder)
    pages = iter(range(1000))
    return lambda report: made_up.write_page(program, package, report, folder / f"{next(pages)}.html")


@pytest.fixture
def open_page(browser, write_page):
    """open_page(report, **context) -> the page, drawn. At the end nothing may have failed in it, or have been
    asked of the network."""
    opened = []

    def open_page(report: dict, **context):
        file = write_page(report)
        page = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | context)).new_page()
        page.set_default_timeout(120_000)
        errors, requests = [], []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: requests.append(request.url))
        opened.append((page, file, errors, requests))
        page.goto(file.as_uri())
        page.wait_for_selector("#drawing[data-drawn]")
        return page

    yield open_page
    for page, file, errors, requests in opened:
        page.context.close()
        assert errors == []
        assert requests == [file.as_uri()]
