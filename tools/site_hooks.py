"""What mkdocs does for Penstock's site beside its own: the root's documents become pages, so do headers, the
program's help and the schema of applications (reference.py), links out of docs/ mended.

The documents are written to be read in the repository; a link there to a file that is no page becomes its name."""

import posixpath
import re
from pathlib import Path
from typing import Any

import reference  # Beside this file, where mkdocs looks.

ROOT = Path(__file__).resolve().parents[1]
OF_THE_ROOT = {  # Document, page
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_config(config: Any, **_: Any) -> Any:
    """The menu's entry for headers gets a page for each folder."""
    for section in config["nav"]:
        for entries in section.values():
            for entry in entries:
                if isinstance(entry, dict) and entry.get("Headers in C++") == "headers":
                    entry["Headers in C++"] = [f"headers/{folder}.md" for folder in reference.by_folder()]
    return config


def on_files(files: Any, config: Any, **_: Any) -> Any:
    from mkdocs.structure.files import File

    for document, page in OF_THE_ROOT.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / document)))
    for page, text in reference.pages().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    folder = "docs"
    for document, name in OF_THE_ROOT.items():
        if page.file.src_uri == name:
            folder, page.edit_url = "", document
    here = posixpath.dirname(posixpath.join("docs", page.file.src_uri))
    return LINK.sub(lambda found: mended(found, folder and here, here), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """A table's empty corner is no heading."""
    return re.sub(r"<th[^>]*></th>", "<td></td>", html)


def on_post_page(output: str, **_: Any) -> str:
    """The theme's search has no name for those who hear it."""
    return output.replace(' role="dialog">', ' role="dialog" aria-label="Search">')


def mended(found: re.Match[str], folder: str, here: str) -> str:
    """The link as the site has it. `folder`: where the document lies in the tree; `here`: where its page does."""
    text, target = found[1], found[2]
    if "://" in target or target.startswith(("#", "mailto:")):
        return found[0]
    path, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(folder, path))
    if path in OF_THE_ROOT:
        path = posixpath.join("docs", OF_THE_ROOT[path])
    elif not path.startswith("docs/"):
        if not (ROOT / path).exists():
            raise ValueError(f"a link to '{target}': no such file in the tree")
        return text if "`" in text else f"{text} (`{path}`)"
    return f"[{text}]({posixpath.relpath(path, here)}{'#' + anchor if anchor else ''})"
