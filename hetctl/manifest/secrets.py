"""References to secrets. A manifest lives in git, so it never holds one itself."""

from typing import Annotated, ClassVar

from pydantic import Field

from hetctl.manifest.section import Section, key
from hetctl.manifest.values import Text, Variable


class SecretRef(Section):
    """Where the operator's machine finds a secret when it is needed. Exactly one key."""

    one_of: ClassVar[tuple[str, ...]] = ("env", "file", "command")

    env: Variable | None = key(None, "Environment variable that holds it.", shown="none")
    file: Text | None = key(
        None, "File whose first line is it, relative to this manifest file.", shown="none"
    )
    command: Annotated[tuple[Text, ...], Field(strict=False, min_length=1)] | None = key(
        None, "Program and arguments that print it, run without a shell.", shown="none"
    )

    def __str__(self) -> str:
        if self.env is not None:
            return f"env {self.env}"
        if self.file is not None:
            return f"file {self.file}"
        return f"command {(self.command or ('?',))[0]}"
