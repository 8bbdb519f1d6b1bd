"""What `validate -o json` prints."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from hetctl.errors import Problem
from hetctl.report.documents import Document
from hetctl.report.parts import Part, PlacePart


class DiagnosticPart(Part):
    """One thing wrong with a manifest, or worth a warning."""

    code: str
    message: str
    position: PlacePart
    width: int = Field(description="Characters from `position` on that it is about.")
    source_line: str = Field(description="The line as written, secrets masked; empty when there is none.")
    hint: str
    path: tuple[str | int, ...] = Field(description="Keys that lead there.")

    @classmethod
    def about(cls, problem: Problem) -> DiagnosticPart:
        """Return the part for a problem."""
        place = problem.position
        return cls(
            code=problem.code,
            message=problem.message,
            position=PlacePart(file=place.file, line=place.line, column=place.column),
            width=problem.width,
            source_line=problem.source_line,
            hint=problem.hint,
            path=problem.path,
        )


class ValidationDocument(Document):
    """What `validate` prints."""

    valid: bool
    problems: tuple[DiagnosticPart, ...]
    warnings: tuple[DiagnosticPart, ...] = Field(description="Nothing that stops anything.")

    @classmethod
    def of(cls, problems: Sequence[Problem], warnings: Sequence[Problem]) -> ValidationDocument:
        """Return the document."""
        return cls(
            valid=not problems,
            problems=tuple(DiagnosticPart.about(problem) for problem in problems),
            warnings=tuple(DiagnosticPart.about(problem) for problem in warnings),
        )
