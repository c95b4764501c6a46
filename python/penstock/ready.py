"""Ready-made functions around a network: pictures, scores, boxes and sounds.

    from penstock import ready

    fit = ready.letterbox(size=(640, 640))
    framed, placement = fit(image)                      # on arrays alone
    app.function("fit", fit, reads="image")             # or as a node of a penstock.App

Every function of ``docs/ready_functions.md`` is here by its name, and takes its settings by theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock import _core
from penstock.checks import plain_text
from penstock.errors import InvalidArgument, NotFound
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
        self.settings = {key: _setting_text(key, value) for key, value in settings.items()}
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
    return _core.ready_functions()


@dataclass(frozen=True)
class Option:
    """What a ready-made function may be told.

    usual: what it is where nobody says; None: it has to be given.
    takes, says: what may stand there, and what it means, in words.
    """

    name: str
    usual: str | None
    takes: str
    says: str


@dataclass(frozen=True)
class Description:
    """A ready-made function as ``penstock functions NAME`` shows it; ``str()`` is the same for people.

    given: an example of each option that has to be given. inputs, outputs: names and types with these.
    yaml: a node of an application in YAML.
    """

    name: str
    says: str
    options: tuple[Option, ...]
    given: dict[str, str]
    inputs: dict[str, str]
    outputs: dict[str, str]
    yaml: str

    def __str__(self) -> str:
        ports = [f"{name}: {type}" for name, type in self.inputs.items()]
        results = [f"{name}: {type}" for name, type in self.outputs.items()]
        options = [
            f"  {option.name}={option.usual or '(has to be given)'}  {option.says} It is {option.takes}."
            for option in self.options
        ]
        head = f"penstock.ready.{self.name}: {self.says}"
        return "\n".join([head, f"{', '.join(ports)} -> {', '.join(results)}", *options, "", self.yaml])


def describe(name: str) -> Description:
    """What the ready-made function ``name`` takes and gives.

    Raises NotFound: the message names the functions there are.
    """
    says, settings, given, inputs, outputs, yaml = _core.ready_sheet(name)
    options = tuple(Option(option, usual or None, takes, told) for option, takes, usual, told in settings)
    return Description(name, says, options, given, dict(inputs), dict(outputs), yaml)


def _setting_text(name: str, value: object) -> str:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(plain_text(name, one) for one in value)
    return plain_text(name, value)


def __getattr__(name: str) -> Callable[..., Ready]:
    try:
        return _maker(name)
    except NotFound as error:  # It tells the nearest name.
        raise AttributeError(str(error)) from None


@functools.cache
def _maker(name: str) -> Callable[..., Ready]:
    def make(*values: object, **settings: object) -> Ready:
        if values:
            names = ", ".join(option.name for option in describe(name).options)
            raise InvalidArgument(f"{name}: expected settings by name ({names}), found {values[0]!r} without one")
        return Ready(name, **settings)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = str(describe(name))
    return make


def __dir__() -> list[str]:
    return [*globals(), *functions()]
