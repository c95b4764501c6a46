"""Where the program and the Python package under test are."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRESETS = ("dev", "release")  # where a built program is looked for, in this order


def find_program() -> Path:
    """PENSTOCK_BIN, or the program of the first preset that is built; skips where there is none."""
    named = os.environ.get("PENSTOCK_BIN")
    places = [Path(named)] if named else [ROOT / "build" / preset / "bin/penstock" for preset in PRESETS]
    for place in places:
        if place.exists():
            return place.resolve()
    pytest.skip(f"no program at {', '.join(map(str, places))}: build one, or name it in PENSTOCK_BIN")


def built_package() -> Path | None:
    """The folder to import penstock from, built beside the program; None where it is installed, or nowhere."""
    program = os.environ.get("PENSTOCK_BIN")
    builds = [Path(program).resolve().parents[1]] if program else [ROOT / "build" / name for name in PRESETS]
    for build in builds:
        if list((build / "lib/python/penstock").glob("_core.*.so")):
            return build / "lib/python"
    return None
