"""The site of the documents: links and anchors lead somewhere, nothing comes from outside, axe-core finds nothing."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAIN = "article"
ASK_AXE = "async (rules) => (await axe.run({ resultTypes: ['violations'], preload: false, ...rules })).violations"
RULES = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}  # All else is the same in the dark.


class Page(HTMLParser):
    """The ids of a page, what it links to, and what it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := of.get(name))}
        if tag == "a" and of.get("href"):
            self.links.append(of["href"] or "")
        elif tag == "link" and of.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(of.get("href") or "")
        elif of.get("src"):
            self.loads.append(of["src"] or "")


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file.resolve(): Page(file) for file in sorted(site.rglob("*.html"))}


def is_outside(target: str) -> bool:
    parts = urlsplit(target)
    return bool(parts.scheme or parts.netloc)


def what_is_wrong(target: str, file: Path, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(target)
    if is_outside(target):
        return None
    other = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    other = other / "index.html" if other.is_dir() else other
    if not other.exists():
        return f"{file.name}: '{target}': no such page"
    if parts.fragment and other in pages and unquote(parts.fragment) not in pages[other].ids:
        return f"{file.name}: '{target}': no such place in the page"
    return None


def test_every_link_inside_leads_somewhere(pages):
    wrong = [
        what_is_wrong(target, file, pages)
        for file, page in pages.items()
        if file.name != "404.html"  # Its links begin at the server's root.
        for target in page.links + page.loads
    ]
    assert [one for one in wrong if one] == []


def test_no_page_names_anything_outside_to_load(pages):
    assert [target for page in pages.values() for target in page.loads if is_outside(target)] == []


def test_every_document_is_a_page_and_keeps_its_lists_and_tables(site, pages):
    documents = {file.relative_to(ROOT / "docs").with_suffix(".html") for file in (ROOT / "docs").rglob("*.md")}
    assert documents <= {file.relative_to(site.resolve()) for file in pages}
    torn = [
        f"{file.name}: {text.strip()[:60]}"
        for file in pages
        for text in re.findall(r"<p>.*?</p>", file.read_text(encoding="utf-8"), re.DOTALL)
        if re.search(r"^(- |\d+\. |\| |\|-)", text.removeprefix("<p>"), re.MULTILINE)
    ]
    assert torn == []


@pytest.mark.parametrize(
    ("planted", "said"),
    [("[x](nowhere.md)", "nowhere.md"), ("[x](cli.md#nowhere)", "#nowhere"), ("[x](../src/nowhere.h)", "nowhere.h")],
)
def test_a_link_to_nowhere_fails(make_site, tmp_path, planted, said):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs/cli.md").open("a") as page:
        page.write(f"\n\n{planted}\n")
    folder, output = make_site(tmp_path / "docs")
    assert folder is None
    assert said in output


@pytest.mark.sweep(of=6)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_loaded_from_outside(browser, site, scheme):
    axe = (ROOT / ".prefix/web/node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    requests, errors, found = [], [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for file in sorted(site.rglob("*.html")):
        if file.name == "404.html":
            continue
        page.goto(file.as_uri())
        page.wait_for_selector(MAIN)
        page.evaluate(axe)
        violations = page.evaluate(ASK_AXE, RULES[scheme])
        found += [f"{file.name}: {one['id']}: {node['html'][:200]}" for one in violations for node in one["nodes"]]
    context.close()
    assert found == []
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.sweep(of=6)
def test_the_pages_fit_a_telephone(browser, site):
    context = browser.new_context(viewport={"width": 400, "height": 800}, reduced_motion="reduce")
    page = context.new_page()
    wide = []
    for file in sorted(site.rglob("*.html")):
        page.goto(file.as_uri())
        wide += [file.name] if page.evaluate("document.documentElement.scrollWidth") > 400 else []
    context.close()
    assert wide == []


def test_of_a_session_in_a_shell_the_button_copies_what_is_typed(browser, site):
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.goto((site / "tutorials/vision.html").as_uri())
    block = page.locator(".highlight", has_text="$ penstock verify").first
    assert block.locator("button").count() == 1
    copied = block.locator("code").evaluate(
        "code => { code.toggleAttribute('data-md-copying', true); return code.innerText.trim(); }"  # As the theme does.
    )
    context.close()
    assert copied == "penstock verify find.penstock --input picture=pictures"


def test_the_search_finds_a_page_without_a_network(browser, site):
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    page.locator("input[name=query]").press_sequentially("watchdog")
    page.wait_for_selector(".md-search-result__link")
    found = page.locator(".md-search-result__link").evaluate_all(
        "links => links.map(link => link.getAttribute('href'))"
    )
    context.close()
    assert any(".html" in link for link in found)
