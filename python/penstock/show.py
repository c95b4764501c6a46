"""What notebooks show of plans and reports, and progress as a bar."""

from __future__ import annotations

import html
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from penstock.checks import unexpected
from penstock.errors import Unavailable

Told = Callable[[str, float], object]


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of HTML; None is an empty cell."""
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = ""
    for row in rows:
        cells = ("" if cell is None else html.escape(str(cell)) for cell in row)
        body += f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    title = html.escape(caption)
    return f"<table><caption>{title}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


class Plan(dict[str, Any]):
    """``plan.json`` as a dict, which notebooks show as the table of its stages."""

    def _repr_html_(self) -> str:
        rows = []
        for stage in self.get("stages", ()):
            backends = dict.fromkeys(part["backend"] for part in stage["partitions"])
            rows.append((stage["name"], ", ".join(stage["devices"]), "+".join(backends)))
        return table(f"plan of '{self.get('model', '')}'", ("stage", "devices", "backend"), rows)


def _milliseconds(seconds: float | None) -> str | None:
    return f"{_digits(seconds * 1e3)} ms" if seconds else None


def _digits(number: float) -> str:
    """Four digits, and those before the point in any case."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


class BuildReport(dict[str, Any]):
    """What ``penstock.explain()`` gives: a dict, which notebooks show as the table of all that was run."""

    def _repr_html_(self) -> str:
        latency = self.get("goal") == "latency"
        rows = []
        for kind, ways in (("simple way", self.get("simple", ())), ("plan", self.get("ways", ()))):
            for way in ways:
                figures: tuple[object, ...] = (_digits(way["frames_per_second"]), way.get("failure") or way["what"])
                if latency:
                    figures = (_milliseconds(way.get("latency_seconds")), *figures)
                rows.append((kind, way["name"], *figures))
        caption = f"chosen: {self.get('chosen')}"
        if latency and (whole := _milliseconds(self.get("latency_seconds"))):
            caption += f", {whole} a frame"
        if seconds := self.get("period_seconds"):
            caption += f", {_digits(1 / seconds)} frames a second"
        head = ("latency", "frames/s") if latency else ("frames/s",)
        return table(caption, ("kind", "way", *head, "what"), rows)


class Verdict(dict[str, Any]):
    """What ``penstock.verify()`` gives: a dict, which notebooks show as the table of the outputs."""

    def _repr_html_(self) -> str:
        rows = [(out.get("name"), out.get("verdict"), out.get("reason")) for out in self.get("outputs", ())]
        if self.get("why_unjudged"):
            rows.append(("", "not judged", self["why_unjudged"]))
        return table(str(self.get("verdict")), ("output", "verdict", "why"), rows)


@contextmanager
def told(progress: Told | bool | None) -> Iterator[Told | None]:
    """Who is told of progress: True is a bar of tqdm, in a notebook or a terminal, which ends with the block: full,
    or where it was when an exception came."""
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        if not callable(progress):
            raise unexpected("progress", "True for a bar, or what is called with a text and a share", progress)
        yield progress
    else:
        with closing(_make_bar()) as bar:
            yield lambda what, share: _show(bar, what, share)
            _show(bar, "done", 1)


def _make_bar() -> Any:
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm  # By name: users' type checkers need not know it.
    except ImportError:
        text = "progress=True needs tqdm, which is not here; pip install tqdm, or give a function of a text and a share"
        raise Unavailable(text) from None
    return tqdm(total=100, unit="%", bar_format="{l_bar}{bar}| {elapsed}")


def _show(bar: Any, what: str, share: float) -> None:
    bar.set_description_str(what, refresh=False)
    bar.n = min(max(round(100 * share), bar.n), 100)
    bar.refresh()
