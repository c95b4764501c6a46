"""Runs a page as its reader does: writes its files and types its commands, in order, in a folder of its own.

A block of ```console holds commands behind `$ ` (a line that ends in a backslash goes on) and what they print. A block
with title="FILE" is that file. Where a page writes … anything may stand, on a line of its own any lines. Numbers before
a unit of time, rate or share are measured: they match any others. Spaces count as one, since tables are as wide as
their numbers."""

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MEASURED = re.compile(r"\d[\d.,]*(?=\s?(ns|us|ms|s|x|%|frames a second|frames/s|/s)(?![\w-]))")
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SHELL = ["bash", "--norc", "--noprofile"]
END = "end of the command:"


class Block(NamedTuple):
    line: int
    kind: str
    title: str | None
    text: str


class Command(NamedTuple):
    line: int
    text: str
    expected: str


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(text[: at.start(3)].count("\n") + 1, at[1], at[2], at[3]) for at in FENCE.finditer(text)]


def commands_of(block: Block) -> Iterator[Command]:
    begin, command, expected, going_on = block.line, "", "", False
    for number, line in enumerate(block.text.splitlines(), block.line):
        if going_on or line.startswith("$ "):
            if not going_on:
                if command:
                    yield Command(begin, command, expected)
                begin, command, expected = number, "", ""
            command += (line if going_on else line[2:]) + "\n"
            going_on = line.endswith("\\")
        else:
            expected += line + "\n"
    if command:
        yield Command(begin, command, expected)


def plain(text: str) -> str:
    """Without what differs from run to run: measured numbers, and widths of columns."""
    lines = (re.sub(r"\s+", " ", MEASURED.sub("#", line)).strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines)


def agrees(expected: str, printed: str) -> bool:
    pattern = ""
    for line in plain(expected).splitlines():
        pattern += r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
    return re.fullmatch(pattern, plain(printed)) is not None


class Shell:
    """One bash for a whole page, so that `cd`, `export` and what runs in the background stay."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._bash = subprocess.Popen(
            SHELL,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, command: str, seconds: float) -> tuple[int, str]:
        """The exit code, and what was printed to both streams."""
        assert self._bash.stdin and self._bash.stdout
        self._bash.stdin.write(f"{{ {command}}} </dev/null\nprintf '{END}%d\\n' $?\n".encode())
        self._bash.stdin.flush()
        printed, until = b"", time.monotonic() + seconds
        while not (found := re.search(rf"{END}(\d+)\n\Z", printed.decode(errors="replace"))):
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._bash.stdout], [], [], left)[0]:
                raise TimeoutError(f"'{command.strip()}' took over {seconds:.0f} s; it printed\n{printed.decode()}")
            piece = os.read(self._bash.stdout.fileno(), 65536)
            if not piece:
                raise RuntimeError(f"'{command.strip()}' ended the shell; it printed\n{printed.decode()}")
            printed += piece
        return int(found[1]), printed.decode(errors="replace")[: found.start()]

    def close(self) -> None:
        """Ends the shell, and what it left in the background."""
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()


def run_page(page: Path, folder: Path, environment: dict[str, str], seconds: float = 240) -> int:
    """Runs the page in the folder. `seconds`: for each command at most. Gives the number of commands; raises
    AssertionError with the page's line where one fails or prints other than the page says."""
    shell, count = Shell(folder, environment), 0
    try:
        for block in blocks_of(page):
            if block.title:
                (folder / block.title).write_text(block.text, encoding="utf-8")
                continue
            assert block.kind in ("console", "text"), (
                f"{page.name}:{block.line}: a block of {block.kind} without a title"
            )
            for command in commands_of(block) if block.kind == "console" else ():
                code, printed = shell.run(command.text, seconds)
                where = f"{page.name}:{command.line}: $ {command.text}"
                assert code == 0, f"{where}ended with {code}:\n{printed}"
                assert agrees(command.expected, printed), f"{where}printed\n{printed}expected\n{command.expected}"
                count += 1
    finally:
        shell.close()
    return count
