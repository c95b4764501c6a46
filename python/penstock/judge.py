"""Whether a package computes what its model computes."""

from __future__ import annotations

import json
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.checks import backend_options_text, counted, flag, path_text, unexpected
from penstock.errors import InvalidArgument
from penstock.show import Verdict
from penstock.types import Path

if TYPE_CHECKING:
    from penstock.app import Function


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
    functions: Sequence[Function] = (),
) -> Verdict:
    """Whether a package computes what its model computes, as ``penstock verify --json`` has it.

    ``report["verdict"]`` is ``"right"``, ``"wrong"`` or ``"inconclusive"`` (wrong outputs could have passed:
    give other frames), ``report["ok"]`` whether it is right; each of ``report["outputs"]`` has its own
    ``verdict``, ``reason``, and what was ``allowed``. ``docs/judging.md`` tells how that is measured.

    model: the file that the package was made from (default: that file, if unchanged).
    frames: values by input, ``[{"x": array}, ...]``, or of an only input the arrays, as of ``penstock.io.wav``
        where it is [samples] (of [1,samples]: ``[block[None] for block in wav(...)]``), inputs that a frame
        leaves out being random; or how many random ones (20).
    tolerance: relative error allowed (default: what ``build`` was given, else 1e-3).
    optimised: lets ONNX Runtime optimise the reference.
    seed, integer_limit: of random frames; integers of 16 bits and more stay under the limit.
    backend_options: by backend, settings of its own for the package's stages, as in :func:`load`; not for
        the reference.
    native_code: False refuses a package that holds libraries.
    functions: the Python callables that its stages name, as for :func:`load`.
    Raises what :func:`load` raises, and InvalidArgument for a model with other inputs or outputs.
    """
    asked, given = _asked(frames)
    options = {
        "model": "" if model is None else path_text("model", model),
        "frames": given,
        "count": asked,
        "tolerance": tolerance,
        "optimised": flag("optimised", optimised),
        "seed": counted("seed", seed, 7),
        "integer_limit": counted("integer_limit", integer_limit, 2),
        "backend_options": backend_options_text(backend_options),
        "native_code": flag("native_code", native_code),
        "functions": declarations(functions_of(functions)),
    }
    return Verdict(json.loads(_core.verify(path_text("package", package), options)))


def _asked(frames: Any) -> tuple[int, list[Any]]:
    """How many random frames, or those that are given; neither: as many as are usual."""
    if frames is None:
        return 0, []
    if not isinstance(frames, numbers.Integral):
        return 0, given_frames(frames)
    count = int(frames)
    if isinstance(frames, bool) or not 0 < count < 2**64:
        raise unexpected("frames", "frames or how many, 1 or more", frames)
    return count, []


def functions_of(functions: Any) -> list[Function]:
    """A list of callables with their types, or one."""
    from penstock.app import Function

    listed = list(functions) if isinstance(functions, Sequence) else [functions]
    for one in listed:
        if not isinstance(one, Function):
            wanted = "penstock.Function(name, call, inputs, outputs)"
            raise InvalidArgument(f"functions: expected a list of {wanted}, found {type(one).__name__}")
    return listed


def declarations(functions: Sequence[Function]) -> list[dict[str, Any]]:
    """As the library takes them."""
    return [function._declaration() for function in functions]


def given_frames(frames: Iterable[Any]) -> list[Any]:
    """A dict of values for each frame, or what is the only input's, as the sources of ``penstock.io`` give it."""
    if isinstance(frames, Mapping | str | bytes) or hasattr(frames, "shape") or not isinstance(frames, Iterable):
        raise unexpected("frames", "a list of frames, such as [{'x': array}] or [array]", frames)
    given = [dict(frame) if isinstance(frame, Mapping) else frame for frame in frames]
    if not given:
        raise unexpected("frames", "one frame or more, such as [{'x': array}]; None for random ones", given)
    return given
