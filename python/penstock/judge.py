"""Whether a package computes what its model computes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from penstock import _core
from penstock.checks import backend_options_text, path_text, unexpected
from penstock.show import Verdict
from penstock.types import Path


def verify(
    package: Path,
    model: Path | None = None,
    frames: Iterable[Any] | int | None = None,
    *,
    tolerance: float | None = None,
    optimised: bool = False,
    seed: int = 0,
    integer_limit: int = 2,
    backend_options: Mapping[str, Mapping[str, object]] | None = None,
    native_code: bool = True,
) -> Verdict:
    """Whether a package computes what its model computes, as ``penstock verify --json`` has it.

    ``report["verdict"]`` is ``"right"``, ``"wrong"`` or ``"inconclusive"`` (wrong outputs could have passed:
    give other frames), ``report["ok"]`` whether it is right; each of ``report["outputs"]`` has its own
    ``verdict``, ``reason``, and what was ``allowed``. ``docs/cli.md`` tells how that is measured.

    model: the file that the package was made from (default: that file, if unchanged).
    frames: values by input, ``[{"x": array}, ...]``, or of an only input the arrays, as of ``penstock.io.wav``; or
        how many random ones (20).
    tolerance: relative error allowed (default: what ``build`` was given, else 1e-3).
    optimised: lets ONNX Runtime optimise the reference.
    seed, integer_limit: of random frames; integers of 16 bits and more stay under the limit.
    backend_options: by backend, settings of its own for the package's stages, as in :func:`load`; not for
        the reference.
    native_code: False refuses a package that holds libraries.
    Raises what :func:`load` raises, and InvalidArgument for a model with other inputs or outputs.
    """
    count = frames if isinstance(frames, int) else 0
    if isinstance(frames, bool) or count < 0 or (isinstance(frames, int) and count == 0):
        raise unexpected("frames", "frames or how many, 1 or more", frames)
    given = [] if frames is None or isinstance(frames, int) else given_frames(frames)
    options = {
        "model": "" if model is None else path_text("model", model),
        "frames": given,
        "count": count,
        "tolerance": tolerance,
        "optimised": bool(optimised),
        "seed": seed,
        "integer_limit": integer_limit,
        "backend_options": backend_options_text(backend_options),
        "native_code": bool(native_code),
    }
    return Verdict(json.loads(_core.verify(path_text("package", package), options)))


def given_frames(frames: Iterable[Any]) -> list[Any]:
    """A dict of values for each frame, or what is the only input's, as the sources of ``penstock.io`` give it."""
    if isinstance(frames, Mapping | str | bytes) or hasattr(frames, "shape") or not isinstance(frames, Iterable):
        raise unexpected("frames", "a list of frames, such as [{'x': array}] or [array]", frames)
    given = [dict(frame) if isinstance(frame, Mapping) else frame for frame in frames]
    if not given:
        raise unexpected("frames", "one frame or more, such as [{'x': array}]; None for random ones", given)
    return given
