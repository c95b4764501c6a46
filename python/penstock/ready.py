"""Ready-made functions around a network: pictures, scores, boxes and sounds.

    from penstock import ready

    fit = ready.letterbox(size=(640, 640))
    framed, placement = fit(image)                      # on arrays alone
    app.function("fit", fit, reads="image")             # or as a node of a penstock.App

Every function of ``docs/ready_functions.md`` is here by its name, and takes its settings by theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock import _core
from penstock.types import Array


class Ready:
    """A ready-made function with its settings, as ``penstock.ready.letterbox(size=640)`` makes it.

    inputs, outputs: names and types, as a node of an application has them.

    Called with arrays in the order of ``inputs``, it gives one array, or a tuple in the order of ``outputs``. A
    function that keeps something from frame to frame, such as ``window``, keeps it from call to call.

    Raises NotFound (no such function or setting; the message names those there are) and InvalidArgument
    (a setting or an array that it cannot take).
    """

    def __init__(self, name: str, **settings: object) -> None:
        self.name = name
        self.settings = {key: _setting_text(value) for key, value in settings.items()}
        self._made = _core.Ready(name, self.settings)
        self.inputs = dict(self._made.inputs())
        self.outputs = dict(self._made.outputs())

    def __call__(self, *arrays: Any) -> Any:
        values: list[Array] = self._made.call(*arrays)
        return values[0] if len(values) == 1 else tuple(values)

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={value!r}" for key, value in self.settings.items())
        return f"penstock.ready.{self.name}({settings})"


def functions() -> list[str]:
    """The names of all ready-made functions."""
    return [name for name, _, _ in _core.ready_functions()]


def _setting_text(value: object) -> str:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)


def __getattr__(name: str) -> Callable[..., Ready]:
    if name not in functions():
        raise AttributeError(f"no ready-made function '{name}'; there are: {', '.join(functions())}")
    return lambda **settings: Ready(name, **settings)


def __dir__() -> list[str]:
    return [*globals(), *functions()]
