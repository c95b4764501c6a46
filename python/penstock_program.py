"""The command ``penstock`` of an installed wheel: it becomes the program that lies in the package.

A module of its own, as importing the package would load NumPy first.
"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    """Replaces this process by the program, with the same arguments."""
    package = importlib.util.find_spec("penstock")
    folders = package.submodule_search_locations if package else None
    program = Path(folders[0] if folders else "penstock", "_bin", "penstock")
    if not program.is_file():
        sys.exit(f"penstock: error: no program at '{program}': only wheels have one; install penstock's wheel again")
    os.execv(program, ["penstock", *sys.argv[1:]])
