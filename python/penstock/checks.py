"""What options are checked with, so that a wrong one is told in a sentence that names it."""

from __future__ import annotations

import contextlib
import itertools
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from penstock.errors import InvalidArgument

_SHOWN = 100  # Characters of a value in a sentence: a model's bytes would fill pages.


def unexpected(name: str, expected: str, found: object) -> InvalidArgument:
    """The error of an option that is none of what it may be; ``expected`` ends with an example."""
    try:
        shown = " ".join(repr(found).split())
    except Exception:  # Of an integer of thousands of digits, say.
        shown = object.__repr__(found)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
    return InvalidArgument(f"{name}: expected {expected}, found {type(found).__name__} {shown}")


def seconds(name: str, value: Any) -> float | None:
    """A waiting time; None: as long as it takes."""
    if value is None:
        return None
    return number(name, value, "a number of seconds or None, such as 0.5")


def number(name: str, value: Any, expected: str) -> float:
    """A number of Python's or numpy's; ``expected`` ends with an example."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and value == value:
        with contextlib.suppress(OverflowError):
            return float(value)
    raise unexpected(name, expected, value)


def flag(name: str, value: Any) -> bool:
    """Not whatever counts as true: ``"no"`` would."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise unexpected(name, "True or False", value)


def called(name: str, value: Any, expected: str) -> None:
    """Refuses what is neither None nor callable; ``expected`` ends with an example."""
    if value is not None and not callable(value):
        raise unexpected(name, f"None or {expected}", value)


def whole(name: str, value: Any, example: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise unexpected(name, f"a whole number, such as {example}", value) from None


def counted(name: str, value: Any, example: int) -> int:
    """A whole number that fits into 64 bits without a sign."""
    count = whole(name, value, example)
    if 0 <= count < 2**64:
        return count
    raise unexpected(name, "a number from 0 to 2**64 - 1", count)


def sizes(name: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(operator.index(value) for value in values)
    except TypeError:
        raise unexpected(name, "a list of whole numbers, such as (720, 1280, 3)", values) from None


def row(what: str, values: Any, count: int, names: str, *, more: bool = False) -> list[int]:
    """The numbers of a box or a point, rounded; ``more``: what follows them, such as a score, is left out."""
    try:
        found = [round(float(value)) for value in (itertools.islice(values, count) if more else values)]
    except (TypeError, ValueError, OverflowError):
        found = []
    if len(found) != count:
        raise InvalidArgument(f"{what}: expected {names} in pixels, found {values!r}")
    return found


def name_text(what: str, name: object, example: str = "node.port") -> str:
    if isinstance(name, str):
        return name
    raise unexpected(what, f"a name, such as {example!r}", name)


def path_text(name: str, path: object) -> str:
    if isinstance(path, str | os.PathLike):
        return str(os.fspath(path))
    raise unexpected(name, "a path, such as 'folder/file'", path)


def shown(file: str) -> str:
    """A file's name for a sentence: where it is not UTF-8, with escapes, as no stream takes such text."""
    return file.encode(errors="backslashreplace").decode()


def listed(name: str, values: Any) -> list[Any]:
    """A single value given for a list is that list: ``cuts="conv1"``."""
    if isinstance(values, str | int | os.PathLike):
        return [values]
    if not isinstance(values, Iterable):
        raise unexpected(name, f"a list, such as {name}=['a', 'b']", values)
    return list(values)


def mapping(name: str, values: Any, example: str) -> Mapping[Any, Any]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise unexpected(name, f"a dict, such as {name.rpartition(' ')[2]}={example}", values)
    return values


def backend_options_text(values: Mapping[str, Mapping[str, object]] | None) -> dict[str, dict[str, str]]:
    example = "{'onnxruntime': {'graph_optimization_level': 1}}"
    options = {}
    for name, settings in mapping("backend_options", values, example).items():
        if not isinstance(settings, Mapping):
            expected = f"a dict of the settings of that backend, as in backend_options={example}"
            raise unexpected(f"backend_options[{name!r}]", expected, settings)
        options[str(name)] = settings_text(f"backend_options[{name!r}]", settings)
    return options


def settings_text(name: str, values: Mapping[str, object] | None) -> dict[str, str]:
    given = mapping(name, values, "{'key': 1}")
    return {str(key): plain_text(f"{name}[{key!r}]", value) for key, value in given.items()}


def plain_text(name: str, value: object) -> str:
    """As str() has it, which goes into lists in lists as deep as Python's stack allows."""
    try:
        return str(value)
    except RecursionError:
        raise unexpected(name, "a number or a text, such as 1", value) from None
