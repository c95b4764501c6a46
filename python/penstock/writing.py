"""How files are written: whole or not at all, with a sentence where they cannot be."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from typing import IO, Any

from penstock.checks import shown
from penstock.errors import NotFound, PenstockError, PermissionDenied, ResourceExhausted

_KINDS: dict[int, type[PenstockError]] = {
    errno.ENOENT: NotFound,
    errno.ENOTDIR: NotFound,
    errno.ENOSPC: ResourceExhausted,
    errno.EDQUOT: ResourceExhausted,
}


def writing(work: Callable[[], Any], file: str, what: str = "") -> Any:
    """What ``work`` gives. Raises unwritable() where the system refuses it."""
    try:
        return work()
    except OSError as error:
        raise unwritable(error, file, what) from error


def unwritable(error: OSError, file: str, what: str = "", about: str = "") -> PenstockError:
    """NotFound, ResourceExhausted or PermissionDenied with the system's reason.

    what: stands before the file's name. about: at the end; of a folder that is not there, what to do.
    """
    kind = _KINDS.get(error.errno or 0, PermissionDenied)
    folder = os.path.dirname(file)
    if error.errno == errno.ENOENT and folder and not os.path.exists(folder):
        about = f"; make the folder '{shown(folder)}' first"
    return kind(f"{what}'{shown(file)}': cannot be written: {error.strerror or error}{about}")


def write_whole_file(file: str, work: Callable[[IO[bytes]], Any], what: str = "") -> None:
    """Gives ``work`` the file to write. Where that fails no part of it stays."""
    out = writing(lambda: open(file, "wb"), file, what)

    def write() -> None:
        with out:
            work(out)

    try:
        writing(write, file, what)
    except BaseException:  # Ctrl-C, too.
        _remove_part(file)
        raise


def _remove_part(file: str) -> None:
    """Devices and pipes stay."""
    with contextlib.suppress(OSError):
        if os.path.isfile(file) and not os.path.islink(file):
            os.remove(file)


class LineFile:
    """A file of a line for each frame, which ends with a whole one also where the disk is full."""

    _BLOCK = 8192  # Bytes that are written at once.

    def __init__(self, file: str) -> None:
        self._file_name = file
        self._file = writing(lambda: open(file, "wb", buffering=0), file)
        self._pending = bytearray()
        self._size = self._part = self._lines = 0  # Of the file; the part is a line's that is not yet whole.

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def write(self, line: str) -> None:
        self._pending += line.encode()
        if len(self._pending) >= self._BLOCK:
            self._flush()

    def close(self) -> None:
        try:
            self._flush()
        finally:
            self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_part"):
            with contextlib.suppress(PenstockError):
                self.close()

    def _flush(self) -> None:
        try:
            while self._pending:
                self._note(self._file.write(self._pending))
        except OSError as error:
            self._pending.clear()
            self._size, self._part = self._size - self._part, 0
            with contextlib.suppress(OSError):  # A device or a pipe has no end to cut off.
                self._file.truncate(self._size)
                self._file.seek(self._size)
            frames = f"{self._lines} frame{' is' if self._lines == 1 else 's are'}"
            raise unwritable(error, self._file_name, about=f"; {frames} in it") from error

    def _note(self, written: int) -> None:
        whole = self._pending.rfind(b"\n", 0, written) + 1
        self._lines += self._pending.count(b"\n", 0, written)
        self._part = written - whole if whole else self._part + written
        self._size += written
        del self._pending[:written]
