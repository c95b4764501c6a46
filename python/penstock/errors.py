"""What can go wrong, one class for each cause. The sentences are those of the command line."""

from __future__ import annotations

from penstock.types import Place


class PenstockError(Exception):
    """Every error of Penstock. ``str()`` is one sentence: what is wrong, where, and what to do.

    A program reads the parts: ``code``, ``reason``, ``places``.
    """

    code: str = "unknown"
    """The cause in one word, the same in JSON and on the wire: ``"invalid_argument"``."""

    places: tuple[Place, ...] = ()
    """Where it is wrong, the outermost place first; each has a ``kind``, and a ``name`` or a ``number``."""

    frame: int | None = None
    """The number of the frame that it belongs to, if it belongs to one."""

    _reason: str | None = None

    @property
    def reason(self) -> str:
        """What is wrong and what to do, without the places."""
        return str(self) if self._reason is None else self._reason

    @property
    def stage(self) -> str | None:
        """The name of the stage that it belongs to, if it belongs to one."""
        return next((place["name"] for place in self.places if place["kind"] == "stage"), None)


class Cancelled(PenstockError):
    """The pipeline was cancelled or is closed, or the server is."""

    code = "cancelled"


class Unknown(PenstockError):
    """An engine failed without saying how."""

    code = "unknown"


class InvalidArgument(PenstockError, ValueError):
    """What was given is wrong in itself: a shape, a dtype, a name that is missing."""

    code = "invalid_argument"


class DeadlineExceeded(PenstockError, TimeoutError):
    """A timeout, or a frame's ``max_age_ms``, ran out."""

    code = "deadline_exceeded"


class NotFound(PenstockError, FileNotFoundError, LookupError):
    """A file, node, tensor, device or backend that does not exist."""

    code = "not_found"


class AlreadyExists(PenstockError, FileExistsError):
    """Something would be overwritten."""

    code = "already_exists"


class PermissionDenied(PenstockError, PermissionError):
    """The operating system or a server refused."""

    code = "permission_denied"


class ResourceExhausted(PenstockError):
    """Memory, slots or an edge's capacity ran out."""

    code = "resource_exhausted"


class FailedPrecondition(PenstockError, RuntimeError):
    """The right call at the wrong time, or on the wrong machine."""

    code = "failed_precondition"


class Aborted(PenstockError):
    """A frame was dropped by a policy that the user chose."""

    code = "aborted"


class OutOfRange(PenstockError, IndexError):
    """An index past the end."""

    code = "out_of_range"


class Unimplemented(PenstockError, NotImplementedError):
    """No backend runs this, or Python has no form of it."""

    code = "unimplemented"


class Internal(PenstockError, RuntimeError):
    """A bug of Penstock's."""

    code = "internal"


class Unavailable(PenstockError, ConnectionError):
    """An engine, worker or library that is needed is not there."""

    code = "unavailable"


class DataLoss(PenstockError, ValueError):
    """A file is truncated, changed or corrupt."""

    code = "data_loss"


class Unauthenticated(PenstockError, PermissionError):
    """A server does not know who asks: a token or certificate is missing or wrong."""

    code = "unauthenticated"


class PenstockWarning(UserWarning):
    """Something is legitimate and yet seldom meant."""


_CLASSES: dict[str, type[PenstockError]] = {
    cls.code: cls
    for cls in (
        Cancelled,
        Unknown,
        InvalidArgument,
        DeadlineExceeded,
        NotFound,
        AlreadyExists,
        PermissionDenied,
        ResourceExhausted,
        FailedPrecondition,
        Aborted,
        OutOfRange,
        Unimplemented,
        Internal,
        Unavailable,
        DataLoss,
        Unauthenticated,
    )
}


def make_error(code: str, message: str, reason: str, places: list[Place], frame: int | None = None) -> PenstockError:
    """The exception of a cause. Called by the library."""
    error = _CLASSES.get(code, PenstockError)(message)
    error._reason = reason
    error.places = tuple(places)
    error.frame = frame
    if frame is None:
        error.frame = next((place["number"] for place in places if place["kind"] == "frame"), None)
    return error
