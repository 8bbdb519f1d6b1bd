"""What a person should know about one code of a manifest error."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One code, explained.

    Arguments:
        title: A few words.
        meaning: What is wrong, and why it matters where that is not plain.
        example: YAML that has it; empty where no single text can show it. For E1xx and E2xx a fragment, the
            rest of the manifest being EXAMPLE_BASE.
        fix: What to do.
    """

    title: str
    meaning: str
    example: str
    fix: str
