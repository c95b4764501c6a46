"""Scores every picture of a folder, one line of JSON each. Start it again after an interruption: it goes on.

python score.py PACKAGE PICTURES SCORES.jsonl
"""

import json
import os
import sys
from pathlib import Path

import penstock
from penstock import io

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp")
START = b'{"file": "'


def scored_before(scores):
    """The names in SCORES. What an interruption left of a last line is cut off; a file of others stays as it is."""
    if not scores.exists():
        return set()
    names, whole = set(), 0
    with scores.open("rb+") as file:
        for number, line in enumerate(file, 1):
            try:
                if not START.startswith(line[: len(START)]):
                    raise ValueError
                if not line.endswith(b"\n"):
                    break
                names.add(json.loads(line)["file"])
            except ValueError:
                sys.exit(f"score: '{scores}': line {number} is no score; name a new file, or one of this program's")
            whole += len(line)
        file.truncate(whole)
    return names


def main(package, pictures, scores):
    before = scored_before(scores)
    names = sorted(name for name in os.listdir(pictures) if name.lower().endswith(ENDINGS) and name[0] != ".")
    left = [name for name in names if name not in before]
    print(f"{len(names)} pictures, {len(names) - len(left)} scored before")
    failed = 0
    with penstock.load(package) as pipeline, scores.open("a", encoding="utf-8") as lines:
        picture = pipeline.get_inputs()[0]

        def read(name):
            return io.prepare(io.read_image(pictures / name), picture)

        stream = pipeline.stream(left, feed=read)
        for name in left:
            try:
                result = {"place": next(stream)["place"].tolist()}
            except penstock.Unavailable:  # Nothing here reads pictures, or computes: no fault of this one.
                raise
            except penstock.PenstockError as error:  # Of this picture; the next one follows.
                result, failed = {"error": str(error)}, failed + 1
            lines.write(json.dumps({"file": name} | result) + "\n")
    print(f"{len(left)} scored now, {failed} of them failed")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], *map(Path, sys.argv[2:4])) if len(sys.argv) == 4 else __doc__)
    except KeyboardInterrupt:
        sys.exit("interrupted; start it again to go on")
    except (OSError, penstock.PenstockError) as error:  # No such folder, or no room for the scores: start it again.
        sys.exit(f"score: {error}")
