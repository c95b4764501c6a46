"""Which pictures classify.py and face.py read."""

import sys
from pathlib import Path

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp")


def pictures_in(place):
    """Those of a folder by name, or the file itself."""
    if not Path(place).is_dir():
        return [Path(place)]
    found = sorted(file for file in Path(place).iterdir() if file.suffix.lower() in ENDINGS)
    return found or sys.exit(f"folder '{place}': expected pictures ({', '.join(ENDINGS)}), found none")
