"""Threads of the package's own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock import _core
from penstock.errors import ResourceExhausted


def start_thread(name: str, run: Callable[[], object]) -> threading.Thread:
    """A thread that does not keep the process from ending.

    Raises ResourceExhausted where the system has no more, or less memory is left than a thread may need. Memory is
    looked at beforehand: where a new thread finds none for Python's state of it, Thread.start() waits for ever.
    """
    _core.check_memory_for_thread()
    thread = threading.Thread(target=run, name=f"penstock-{name}", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise ResourceExhausted(
            f"no thread could be started: {error}; raise the limit of threads (ulimit -u) or of memory (ulimit -v), "
            "or run less at once"
        ) from None
    return thread
