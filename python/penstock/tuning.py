"""A running pipeline that is kept at the plan that is the best now."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock import _core
from penstock.checks import listed, number, path_text, unexpected
from penstock.closing import Closing

if TYPE_CHECKING:
    from penstock.pipeline import Pipeline
    from penstock.types import Path, TunerReport


class Tuner(Closing):
    """Watches a running pipeline and follows what happens to its CPUs, until the ``with`` block ends or :meth:`close`.

    Once a second it compares what the stages take with what the plan foretold. Where a neighbour comes or goes, or a
    CPU is taken or given back, and another plan of the same stages would give more frames a second by more than the
    noise, that takes the place of what runs, between two frames: nothing is lost. Where frames then come more slowly,
    it is taken back. Such plans are: the whole network on each of the pipeline's devices, on one of them, on all but
    one, and stages in each other's place; ``packages`` adds others.

    A plan that foretells nothing (of :func:`penstock.split`) is watched for the first seconds in which the pipeline is
    full; nothing should disturb it then. Every method may be called from any thread.
    """

    def __init__(self, pipeline: Pipeline, *, share: float = 0.02, packages: Path | Sequence[Path] = ()) -> None:
        """Begins.

        share: of the machine's time, 0.001 to 0.5: what each CPU is asked for whether it is idle, at the lowest
            priority, and what starting plans may take.
        packages: others of the same network, of :func:`penstock.build`, that may run too.
        Raises InvalidArgument where a package does not tell what its stages take, FailedPrecondition where the
        pipeline has a tuner that was not closed: two would swap against each other.
        """
        core = getattr(pipeline, "_core", None)
        if not isinstance(core, _core.Pipeline):
            raise unexpected("pipeline", "a pipeline, such as penstock.load('m.penstock')", pipeline)
        paths = [path_text("packages", path) for path in listed("packages", packages)]
        part = number("share", share, "a share of the machine's time, such as 0.02")
        self._core = _core.tune(core, {"share": part, "packages": paths})
        self._end = weakref.finalize(self, self._core.stop)

    @property
    def report(self) -> TunerReport:
        """What runs, and what took whose place when."""
        return self._core.report()

    def close(self) -> None:
        """What runs now stays; waits for a swap in progress."""
        self._end()

    def __repr__(self) -> str:
        return f"<penstock.Tuner: '{self.report['running']}'{'' if self._end.alive else ', closed'}>"
