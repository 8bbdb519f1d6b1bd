"""Where a command's words go: the result to standard output, everything else to standard error."""

from __future__ import annotations

import contextlib
import os
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from hetctl.errors import ExitCode, HetctlError, Interrupted
from hetctl.report.errors import bug_text, error_text
from hetctl.report.terminal import Terminal, terminal_for

if TYPE_CHECKING:  # pydantic takes 90 ms to load, and only `-o json` needs it
    from hetctl.report.documents import Document

PATIENCE = 2.0
"""Seconds of silence before a command says what it waits for."""


@dataclass
class Console:
    """The streams of a command.

    Arguments:
        stdin: Where answers to questions come from.
        stdout: Where the result goes.
        stderr: Where progress, questions and errors go.
        environment: The environment variables.
        json: True with `-o json`.
    """

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    environment: Mapping[str, str]
    json: bool = False
    _asking: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _waiting: threading.Timer = field(default_factory=lambda: threading.Timer(0, int), repr=False)

    @cached_property
    def out(self) -> Terminal:
        """What standard output can show."""
        return terminal_for(self.stdout, self.environment)

    @cached_property
    def err(self) -> Terminal:
        """What standard error can show."""
        return terminal_for(self.stderr, self.environment)

    @property
    def interactive(self) -> bool:
        """True when somebody can be asked."""
        return self.stdin.isatty() and self.stderr.isatty()

    def result(self, text: str) -> None:
        """Write the result, or a part of it.

        Raises:
            Interrupted: Whoever read it is gone (`| head`): going on would change things nobody sees.
        """
        self._waiting.cancel()
        try:
            self.stdout.write(text)
            self.stdout.flush()
        except BrokenPipeError as error:
            self._let_go_of_output()
            raise Interrupted("nobody reads the output any more") from error

    def _let_go_of_output(self) -> None:
        # Python would flush once more at its end, and complain.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())

    def document(self, document: Document) -> None:
        """Write the result as JSON."""
        self.result(document.text())

    def note(self, text: str) -> None:
        """Write something that is not the result; where standard error is gone there is nobody to tell."""
        self._waiting.cancel()
        with contextlib.suppress(BrokenPipeError):
            self.stderr.write(text)
            self.stderr.flush()

    def ask(self, question: str) -> str:
        """Return a line of answer, without spaces around it; empty at the end of input.

        May be called from any thread: questions are asked one after the other.
        """
        with self._asking:
            self.note(f"{question} ")
            return self.stdin.readline().strip()

    def confirm(self, question: str) -> bool:
        """Return True only for an explicit yes."""
        return self.ask(f"{question} [y/N]").lower() in {"y", "yes"}

    def failure(self, error: BaseException, code: ExitCode) -> None:
        """Report an error: as text to standard error, with `-o json` as a document to standard output too."""
        if isinstance(error, HetctlError):
            if not self.json:
                self.note(error_text(error, self.err))
        else:
            self.bug(error)
        if self.json:
            from hetctl.report.documents import ErrorDocument  # noqa: PLC0415 - see above

            self.document(ErrorDocument.of(error, code))

    def bug(self, error: BaseException) -> None:
        """Report an exception that should never have come this far."""
        self.note(bug_text(error, self.err))

    @contextmanager
    def patience(self, text: str, *, after: float = PATIENCE) -> Iterator[None]:
        """Say what is waited for when nothing at all was written for `after` seconds."""
        self._waiting = threading.Timer(after, self.note, (f"{text}\n",))
        self._waiting.daemon = True
        self._waiting.start()
        try:
            yield
        finally:
            self._waiting.cancel()


def command_line(*words: str) -> str:
    """Return a command as a person would type it."""
    return shlex.join(word for word in words if word)
