"""Rules about cards: can what is built drive them? Pure."""

from __future__ import annotations

from collections.abc import Collection

from hetctl.errors import Position
from hetctl.rules.finding import Finding, Severity


def needs_backend(
    card: str, backend: str, build: str, backends: Collection[str], position: Position | None
) -> list[Finding]:
    """Return a finding when a build cannot drive a card: the server would not start, or not use the card.

    Arguments:
        card: The card, as `node/name`.
        backend: What drives it.
        build: Name of the build.
        backends: What is built.
        position: The manifest line that uses the card.
    """
    if backend in backends:
        return []
    return [
        Finding(
            code="BACKEND_MISSING",
            severity=Severity.ERROR,
            where=card,
            what=f"build {build} cannot drive this card",
            why=f"the card needs the backend {backend}, and the build has {', '.join(sorted(backends))}",
            fix="use CPU workers: hetctl compiles for processors only so far",
            position=position,
        )
    ]
