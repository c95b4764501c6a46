"""Modules of functions that an application's file names: ``functions: functions.py``."""

from __future__ import annotations

import sys
import threading
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.app import Function
from penstock.errors import InvalidArgument, PenstockError

_PLACES = 3  # Told at each end of many.
_EXAMPLE = "half = penstock.Function('half', ...)"

# By their text, with the path that each was run from: a package's copy is the module that the application's file named.
# They last as long as the process.
_modules: dict[bytes, tuple[str, list[Function]]] = {}
_lock = threading.RLock()


def load(path: str) -> list[dict[str, Any]] | str:
    """The declarations of the module's functions, or why there are none."""
    try:
        text = Path(path).read_bytes()
        with _lock:
            if text not in _modules:
                _modules[text] = path, _functions_of(_run(path, text))
            path, functions = _modules[text]
        return [function._declaration() | {"module": path} for function in functions]
    except BaseException as error:
        return told(error, path)


def told(error: BaseException, path: str) -> str:
    """In one line: what was raised, and where the module at ``path`` stood then."""
    name, text = type(error).__name__, " ".join(str(error).split())
    said = text if isinstance(error, PenstockError) else f"{name}: {text}" if text else name
    frames = traceback.extract_tb(error.__traceback__)
    inside = _folded([f"line {frame.lineno} in {frame.name}" for frame in frames if frame.filename == path])
    if not inside or isinstance(error, SyntaxError):  # Which says it itself.
        return said
    last = frames[-1]
    beyond = "" if last.filename == path else f"; from {last.filename}, line {last.lineno}"
    return f"{said} ({Path(path).name}, {', '.join(inside)}{beyond}){_beside(error, Path(path))}"


def _folded(places: list[str]) -> list[str]:
    """With the first and last few of a recursion's."""
    left_out = len(places) - 2 * _PLACES
    return places if left_out < 1 else [*places[:_PLACES], f"{left_out} more", *places[-_PLACES:]]


def _beside(error: BaseException, path: Path) -> str:
    """What to do where the module that is missing lies beside this one, as a script would find it."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    name = error.name.partition(".")[0]
    found = [file for file in (path.with_name(f"{name}.py"), path.with_name(name)) if file.exists()]
    if not found:
        return ""
    return (
        f"; '{found[0].name}' lies beside it, but a package carries '{path.name}' alone: write into that file what it "
        f"needs of it, or install '{name}' in the Python that runs it"
    )


def _run(path: str, text: bytes) -> ModuleType:
    """Not by importlib, which would write what it compiles beside the file."""
    module = ModuleType(f"penstock_functions_{len(_modules)}_{Path(path).stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # Where dataclasses and pickle look for their own.
    # Without the `from __future__` of this file.
    exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
    return module


def _functions_of(module: ModuleType) -> list[Function]:
    named = {id(value): value for value in vars(module).values() if isinstance(value, Function)}
    if not named:
        raise InvalidArgument(f"declares no function: expected a name of the module such as {_EXAMPLE}")
    return list(named.values())
