"""How an operation says that it could not do its work."""

from __future__ import annotations

from typing import Any


class Failure(Exception):  # noqa: N818 - the name says what holds
    """An operation could not do what was asked.

    Arguments:
        what: What went wrong, one sentence.
        why: The cause, often the words of the program or the system call that failed.
        fix: What can be done about it; empty when there is nothing to say.
        kind: `failed`, `deadline`, `locked`, `refused`, `cancelled` or `bad-request`.
        details: Further facts for the other side, such as the holder of a lock.
    """

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        fix: str = "",
        kind: str = "failed",
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix
        self.kind = kind
        self.details = details or {}

    def as_json(self) -> dict[str, Any]:
        """Return the error as it goes over the wire."""
        return {"kind": self.kind, "what": self.what, "why": self.why, "fix": self.fix, **self.details}


class Interruption(BaseException):
    """Ends the running operation from outside: its deadline, a cancellation, or the end of the session.

    Not an `Exception`, so that no handler inside an operation takes it for a failure of its own.
    """

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what


def bad_request(what: str) -> Failure:
    """Return the failure for a request that makes no sense."""
    return Failure(what, kind="bad-request")
