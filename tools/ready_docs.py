#!/usr/bin/env python3
"""Writes the reference part of docs/ready_functions.md from what the functions declare.

    PYTHONPATH=build/dev/lib/python tools/ready_docs.py [--check]

It needs the Python package, which is built. `--check` writes nothing, and fails where the page is not what it
would write.
"""

import sys
from pathlib import Path

from penstock import _core

PAGE = Path(__file__).resolve().parents[1] / "docs/ready_functions.md"
MARK = "<!-- From here on written by tools/ready_docs.py -->\n"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    text = page.partition(MARK)[0] + MARK + reference()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    elif text != page:
        print("docs/ready_functions.md: differs from the declarations; run tools/ready_docs.py")
        return 1
    return 0


def reference() -> str:
    return "".join(section(*declaration) for declaration in _core.ready_functions())


def section(name: str, says: str, settings: list[tuple[str, str, str, str]]) -> str:
    rows = [
        f"| `{setting}` | {usual_of(usual)} | {told} {capital(takes)}. |" for setting, takes, usual, told in settings
    ]
    table = "\n".join(["| setting | usual | |", "|---|---|---|", *rows])
    return f"\n### {name}\n\n{says}\n\n{ports(name, settings)}\n\n{table}\n"


def usual_of(usual: str) -> str:
    return f"`{usual}`" if usual else "has to be given"


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


# A value for each setting that has to be given, so that ports can be shown.
SHOWN = {
    "size": "480,640",
    "shape": "1,1000",
    "count": "8400",
    "classes": "80",
    "source": "nv12",
    "hop": "160",
    "most": "16000",
    "rate": "48000",
    "to": "16000",
    "samples": "16000",
}
SHOWN_OF = {"window": {"size": "400"}, "overlap_add": {"size": "400"}}


def ports(name: str, settings: list[tuple[str, str, str, str]]) -> str:
    values = SHOWN | SHOWN_OF.get(name, {})
    given = {setting: values[setting] for setting, _, usual, _ in settings if not usual}
    made = _core.Ready(name, given)
    sides = [", ".join(f"`{port}` {type}" for port, type in side) for side in (made.inputs(), made.outputs())]
    with_what = ", ".join(f"`{key}: {value}`" for key, value in given.items())
    return f"{sides[0]} → {sides[1]}" + (f" (with {with_what})" if with_what else "")


if __name__ == "__main__":
    sys.exit(main())
