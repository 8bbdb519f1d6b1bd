"""What `apply` and `destroy` share: showing a plan, asking, watching the run, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hetctl.cli.surroundings import exit_code
from hetctl.engine.operations import ApplyResult
from hetctl.engine.outcome import Reporter, Result
from hetctl.errors import ExitCode, LockHeld, UsageError
from hetctl.report.console import Console
from hetctl.report.figures import counted
from hetctl.report.outcome import endpoints_text, outcome_text, standing_endpoints
from hetctl.report.plan import plan_text
from hetctl.report.progress import Together, progress_for
from hetctl.resources.provider import Plan


class Asking:
    """Shows a plan and asks for consent, unless it was given on the command line.

    Arguments:
        console: Where.
        prune: Removals are agreed to.
        given: Consent was given on the command line.
        question: Asks about a plan; returns whether it may be executed.
    """

    def __init__(
        self, console: Console, *, prune: bool, given: bool, question: Callable[[Plan], bool]
    ) -> None:
        self._console = console
        self._prune = prune
        self._given = given
        self._question = question
        self.shown: Plan | None = None

    def agreed(self, plan: Plan, *, changed: bool) -> bool:
        """Show the plan and return whether it may be executed."""
        if changed:
            self._console.note("The nodes changed in the meantime; this is the plan now:\n")
        self.show(plan)
        return self._given or self._question(plan)

    def waiting(self, held: LockHeld) -> None:
        """Say who is waited for."""
        self._console.note(f"waiting for the lock: {held.why}\n")

    def show(self, plan: Plan, *, next_command: str = "") -> None:
        """Write the plan: as the result, or beside it when that is JSON."""
        self.shown = plan
        if self._console.json:
            self._console.note(
                plan_text(plan, self._console.err, next_command=next_command, prune=self._prune)
            )
        else:
            text = plan_text(plan, self._console.out, next_command=next_command, prune=self._prune)
            self._console.result(text)


def require_answer(console: Console, *, given: bool, option: str) -> None:
    """Refuse to start where consent would be asked for and nobody can answer.

    Raises:
        UsageError: There is no terminal, and consent was not given on the command line.
    """
    if not given and not console.interactive:
        raise UsageError(
            "nobody can be asked for consent here",
            why="standard input or standard error is no terminal",
            fix=f"give it on the command line: {option}",
        )


@contextmanager
def watching(console: Console, events: str | None) -> Iterator[Reporter]:
    """Return what reports the run to a person, and to a program that reads the file `events`."""
    person = progress_for(console.stderr, console.err)
    if events is None:
        yield person
        return
    from hetctl.report.events import EventWriter  # noqa: PLC0415 - loads pydantic, which only this needs

    try:
        stream = Path(events).open("w", encoding="utf-8")  # noqa: SIM115 - closed below; this only guards opening
    except OSError as error:
        raise UsageError("cannot write events", where=events, why=str(error)) from error
    with stream:
        yield Together(person, EventWriter(stream))


def finish(
    console: Console,
    asking: Asking,
    result: ApplyResult,
    manifest: str,
    *,
    next_command: Callable[[ExitCode], str],
) -> int:
    """Print what came of it and return the exit code.

    Arguments:
        console: Where.
        asking: What was shown already.
        result: What came of it.
        manifest: Path of the manifest.
        next_command: What to type next after an exit code; empty for nothing.
    """
    code = exit_code(result.codes)
    following = next_command(ExitCode(code))
    if console.json:
        from hetctl.report.documents import ApplyDocument  # noqa: PLC0415 - as above

        console.document(ApplyDocument.of(result, manifest, ExitCode(code)))
    elif result.declined:
        console.note("Nothing was changed.\n")
    elif result.report is None:
        if asking.shown is not result.situation.plan:
            asking.show(result.situation.plan, next_command=following)
    else:
        console.result("\n" + outcome_text(result.report, console.out, next_command=following))
        if not any(result.report.with_result(bad) for bad in Result if bad is not Result.DONE):
            console.result(endpoints_text(standing_endpoints(result), console.out))
    for bug in result.report.bugs if result.report is not None else ():
        console.bug(bug)
    return code


def count_question(plan: Plan, *, prune: bool) -> str:
    """Return the question about a plan."""
    chosen = plan.executable(prune=prune)
    return f"Execute {counted(len(chosen), 'change')} on {plan.cluster}?"
