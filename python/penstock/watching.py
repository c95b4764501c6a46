"""A running pipeline that others may look at."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.checks import path_text
from penstock.closing import Closing

if TYPE_CHECKING:
    from penstock.types import Path


class Watching(Closing):
    """A port at which a pipeline is to be seen, until the ``with`` block or the program ends, or :meth:`close`.

    It stays when the pipeline has ended, and shows how. Every method may be called from any thread.
    """

    def __init__(self, core: _core.Watching) -> None:
        self._core = core
        self._end = weakref.finalize(self, core.stop)

    @property
    def address(self) -> str:
        """ "HOST:PORT", with the port that was chosen."""
        return self._core.address

    @property
    def url(self) -> str:
        """ "http://HOST:PORT/", for a browser."""
        return f"http://{self.address}/"

    def close(self) -> None:
        """Tells who looks that it is over, writes the recording, and closes the port; the pipeline goes on."""
        self._end()

    def __repr__(self) -> str:
        return f"<penstock.Watching at {self.address}{'' if self._end.alive else ', closed'}>"


def watch(pipeline: _core.Pipeline, *, tokens: Path | None, **options: Any) -> Watching:
    """What Pipeline.serve_page() gives; `options` are those of the library."""
    options["tokens"] = "" if tokens is None else path_text("tokens", tokens)
    return Watching(_core.watch(pipeline, options))
