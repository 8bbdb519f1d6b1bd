"""What the commands that only look bring: where a placement answers, how it is, what it logs and says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hetctl.resources.base import Address


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a placement answers.

    Arguments:
        placement: Its name.
        url: Base URL for clients, such as `http://192.168.10.5:8080/v1`.
        model: The API model id.
        key_reference: Which secret opens it, such as `env CHAT_KEY`; empty when none is needed.
        task: chat, completions, embedding or rerank: which request an example shows.
        certificate: File a client needs to trust the server; empty for none.
    """

    placement: str
    url: str
    model: str
    key_reference: str = ""
    task: str = "chat"
    certificate: str = ""


class Health(StrEnum):
    """How a placement or one of its members is."""

    READY = "ready"
    STARTING = "starting"
    STOPPED = "stopped"  # as declared
    FAILED = "failed"
    ABSENT = "absent"  # declared, never applied
    UNKNOWN = "unknown"

    @property
    def healthy(self) -> bool:
        """True when nothing needs attention."""
        return self in {Health.READY, Health.STOPPED}


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One worker or server of a placement.

    Arguments:
        address: Its resource address.
        node: Where it stands.
        health: How it is.
        detail: What systemd or the process says, such as `active since 10:42, 3 restarts`.
    """

    address: Address
    node: str
    health: Health
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PlacementStatus:
    """How a placement is.

    Arguments:
        placement: Its name.
        health: As a whole.
        detail: Why, when it is not ready.
        members: Its parts in start order.
        endpoint: Where it answers.
        fix: The next command; empty when there is nothing to do.
    """

    placement: str
    health: Health
    detail: str = ""
    members: tuple[MemberStatus, ...] = ()
    endpoint: Endpoint | None = None
    fix: str = ""


@dataclass(frozen=True, slots=True)
class JournalSource:
    """One unit whose journal belongs to a placement."""

    node: str
    address: Address
    unit: str


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One journal entry.

    Arguments:
        time: Seconds since the epoch by the node's clock.
    """

    time: float
    message: str


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask a placement.

    Arguments:
        prompt: The text.
        max_tokens: Length at which the answer is cut off, at least 1.
        patience: Longest silence to bear, in seconds.
    """

    prompt: str
    max_tokens: int = 1024
    patience: float = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a placement answered.

    Arguments:
        text: The whole answer.
        model: The model id the server reports.
        prompt_tokens: Count, None when not reported.
        completion_tokens: Count, None when not reported.
        seconds: From the request to the last byte.
        cut: It reached the greatest length that was asked for.
    """

    text: str
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    cut: bool = False
