#!/usr/bin/env python3
"""Writes the reference part of docs/ready_functions.md from what the functions declare.

    PYTHONPATH=build/dev/lib/python tools/ready_docs.py [--check]

It needs the Python package, which is built. `--check` writes nothing, and fails where the page is not what it
would write.
"""

import sys
from pathlib import Path

from penstock import ready

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
    return "".join(section(ready.describe(name)) for name in ready.functions())


def section(function: ready.Description) -> str:
    rows = [
        f"| `{option.name}` | {usual_of(option.usual)} | {option.says} {capital(option.takes)}. |"
        for option in function.options
    ]
    table = "\n".join(["| setting | usual | |", "|---|---|---|", *rows])
    return f"\n### {function.name}\n\n{function.says}\n\n{ports(function)}\n\n{table}\n"


def usual_of(usual: str | None) -> str:
    return f"`{usual}`" if usual else "has to be given"


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def ports(function: ready.Description) -> str:
    sides = [
        ", ".join(f"`{port}` {type}" for port, type in side.items()) for side in (function.inputs, function.outputs)
    ]
    with_what = ", ".join(f"`{key}: {value}`" for key, value in function.given.items())
    return f"{sides[0]} → {sides[1]}" + (f" (with {with_what})" if with_what else "")


if __name__ == "__main__":
    sys.exit(main())
