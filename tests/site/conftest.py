"""The site of the documents: made once, opened in Debian's Chromium."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def make_site(tmp_path_factory):
    """make_site(docs) -> the folder of the site of those documents, and what mkdocs said; strict: a warning fails."""
    mkdocs = ROOT / ".site/bin/mkdocs"
    if not mkdocs.exists():
        pytest.skip("no mkdocs: run script/setup --tests")

    def make_site(docs: Path) -> tuple[Path | None, str]:
        folder = tmp_path_factory.mktemp("site")
        settings = folder / "mkdocs.yml"
        text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
        text = text.replace("docs_dir: docs", f"docs_dir: {docs}").replace("[tools/", f"[{ROOT}/tools/")
        settings.write_text(text, encoding="utf-8")
        command = [mkdocs, "build", "--strict", "--config-file", settings, "--site-dir", folder / "site"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (folder / "site" if done.returncode == 0 else None), done.stdout + done.stderr

    return make_site


@pytest.fixture(scope="session")
def site(make_site) -> Path:
    folder, said = make_site(ROOT / "docs")
    assert folder, said
    return folder


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
