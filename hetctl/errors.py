"""Every error hetctl raises on purpose, in one tree.

    HetctlError
    ├── UsageError                 64  the command line makes no sense
    ├── ManifestInvalid             3  the manifest is wrong; carries every problem found
    ├── ModelUnreadable             3  a model file is damaged, cut short or of a kind that cannot be read
    ├── FlagUnavailable             3  the declared build of llama.cpp cannot do what the manifest asks
    ├── Refused                     9  a finding or a missing consent stops the change; nothing was changed
    ├── PlanStale                   7  what the plan rests on has changed
    ├── LockHeld                    6  somebody else is applying
    ├── GateReached                 8  a reboot or a manual step comes first
    ├── TransportError              5  a node could not be reached or spoken to
    │   ├── NodeUnreachable
    │   ├── HostKeyUnknown
    │   ├── HostKeyChanged
    │   ├── LoginRefused
    │   ├── NodeUnsuitable             no usable Python there
    │   ├── SessionLost                the connection or the agent went away in the middle
    │   └── ProtocolMismatch           the agent said something we do not understand
    ├── OperationFailed             4  a node tried and could not
    │   ├── DeadlineExceeded
    │   └── ProofFailed                it runs, but it is not what was declared
    └── Interrupted               130

Errors carry facts in fields (what, where, why, how to fix); `hetctl.report` writes the sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line: part of the public interface."""

    DONE = 0
    BUG = 1
    CHANGES_PENDING = 2
    MANIFEST_INVALID = 3
    APPLIED_IN_PART = 4
    UNREACHABLE = 5
    LOCKED = 6
    PLAN_STALE = 7
    GATE = 8
    REFUSED = 9
    UNHEALTHY = 10
    USAGE = 64
    INTERRUPTED = 130


EXIT_PRECEDENCE = (
    ExitCode.INTERRUPTED,
    ExitCode.BUG,
    ExitCode.USAGE,
    ExitCode.MANIFEST_INVALID,
    ExitCode.LOCKED,
    ExitCode.PLAN_STALE,
    ExitCode.REFUSED,
    ExitCode.APPLIED_IN_PART,
    ExitCode.GATE,
    ExitCode.UNREACHABLE,
    ExitCode.UNHEALTHY,
    ExitCode.CHANGES_PENDING,
    ExitCode.DONE,
)
"""When several outcomes hold at once, the first of these wins."""


def worst(codes: list[ExitCode]) -> ExitCode:
    """Return the exit code that takes precedence over the others; DONE for none."""
    return min(codes, key=EXIT_PRECEDENCE.index, default=ExitCode.DONE)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a manifest file.

    Arguments:
        file: Path as the user named it.
        line: 1-based; 0 when only the file is known.
        column: 1-based, in characters; 0 when only the file is known.
    """

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a manifest.

    Arguments:
        code: Stable identifier: E0xx YAML, E1xx shape, E2xx references and cross-field, E9xx not available.
        message: One sentence without place or code.
        position: Where.
        source_line: The manifest line as written; empty when there is none to show.
        width: How many characters the caret marks, at least 1.
        hint: How to fix it ("did you mean 'port'?"); empty when there is nothing to add.
        path: The keys that lead there.
    """

    code: str
    message: str
    position: Position
    source_line: str = ""
    width: int = 1
    hint: str = ""
    path: tuple[str | int, ...] = ()


class HetctlError(Exception):
    """Base of every error that is reported without a traceback.

    Arguments:
        what: What went wrong, one sentence.
        where: Node, file or resource; empty when it is about the whole run.
        why: The cause as far as it is known: often the words of the program that failed.
        fix: What the user can do about it.
    """

    exit_code: ExitCode = ExitCode.BUG

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix


class UsageError(HetctlError):
    """The command line makes no sense."""

    exit_code = ExitCode.USAGE


class SecretUnavailable(UsageError):
    """A secret is not where the manifest says, or cannot be used as one. Never carries a part of it."""


class ManifestInvalid(HetctlError):
    """The manifest is wrong. `problems` holds everything found, in file order."""

    exit_code = ExitCode.MANIFEST_INVALID

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(f"{len(problems)} problem(s) in the manifest")
        self.problems = problems


class ModelUnreadable(HetctlError):
    """A model file is damaged, cut short or of a kind that cannot be read."""

    exit_code = ExitCode.MANIFEST_INVALID


class FlagUnavailable(HetctlError):
    """The declared build of llama.cpp has no flag for what the manifest asks."""

    exit_code = ExitCode.MANIFEST_INVALID


class Refused(HetctlError):
    """A blocking finding, or a consent that was not given. Nothing was changed."""

    exit_code = ExitCode.REFUSED


class PlanStale(HetctlError):
    """What the plan rests on has changed since it was made."""

    exit_code = ExitCode.PLAN_STALE


class LockHeld(HetctlError):
    """Another hetctl is applying to one of the nodes."""

    exit_code = ExitCode.LOCKED


class GateReached(HetctlError):
    """A reboot or a manual step comes first."""

    exit_code = ExitCode.GATE


class TransportError(HetctlError):
    """A node could not be reached or spoken to. Its state is unknown."""

    exit_code = ExitCode.UNREACHABLE


class NodeUnreachable(TransportError):
    """No connection: name, route, port or time ran out."""


class HostKeyUnknown(TransportError):
    """First contact: the host key is not in known_hosts."""


class HostKeyChanged(TransportError):
    """The host key differs from the one in known_hosts."""


class LoginRefused(TransportError):
    """The node did not accept the user or the key."""


class NodeUnsuitable(TransportError):
    """No Python that can run the agent, or no way to become root."""


class SessionLost(TransportError):
    """The connection or the agent went away in the middle of something."""


class ProtocolMismatch(TransportError):
    """The agent said something this version does not understand."""


class OperationFailed(HetctlError):
    """A node tried and could not."""

    exit_code = ExitCode.APPLIED_IN_PART


class DeadlineExceeded(OperationFailed):
    """It did not finish in the time it was given."""


class ProofFailed(OperationFailed):
    """It runs, but it is not what was declared."""


class Unhealthy(HetctlError):
    """A placement does not do what it is for, and that is all that was asked."""

    exit_code = ExitCode.UNHEALTHY


class Interrupted(HetctlError):
    """Ctrl-C."""

    exit_code = ExitCode.INTERRUPTED
