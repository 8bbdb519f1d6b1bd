"""Builds of llama.cpp and model files."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from hetctl.manifest.section import LIST, WORD, WORD_OR_LIST, Section, key
from hetctl.manifest.values import (
    AbsolutePath,
    Alias,
    Architecture,
    Commit,
    Label,
    Name,
    Option,
    Sha256,
    Text,
    Variable,
    Version,
    reject,
)

BackendName = Literal["cpu", "cuda", "hip", "sycl", "vulkan"]


class BuildSource(Section):
    """Where the source code comes from. Exactly one of archive, git, pypi, release, url and path."""

    one_of: ClassVar[tuple[str, ...]] = ("archive", "git", "pypi", "release", "url", "path")

    archive: Text | None = key(
        None,
        "Source archive (.tar.gz, .tar.xz, .zip) on the operator's machine, relative to this file.",
        shown="none",
    )
    git: Text | None = key(None, "Repository to clone at `commit`.", shown="none")
    pypi: Text | None = key(None, "Package whose source distribution holds llama.cpp.", shown="none")
    release: Text | None = key(None, "Tag of a release with ready binaries.", shown="none")
    url: Text | None = key(None, "Address of a source archive.", shown="none")
    path: Text | None = key(None, "node:/path of a build that exists already.", shown="none")
    commit: Commit | None = key(
        None, "Commit the source is of.", shown="the first 10 digits of the archive's sha256"
    )
    sha256: Sha256 | None = key(None, "Digest the archive must have.", shown="not checked")
    subdirectory: Text | None = key(
        None, "Directory inside the archive that holds llama.cpp's CMakeLists.txt.", shown="found"
    )


class Ui(Section):
    """The web interface to build in."""

    source: Text = key(..., "Archive with the built interface, relative to this file.")
    sha256: Sha256 = key(..., "Digest the archive must have.")


class NodeBuild(Section):
    """What is different about a build on one node."""

    toolkit: AbsolutePath | None = key(None, "GPU toolkit to build with.", shown="found")
    cmake: dict[Variable, Option] = key({}, "CMake options that replace the build's.", shown="none")


def _sources(value: Any) -> Any:
    """Take a single source for a list of one."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, dict):
        return [value]
    raise reject(value, "a mapping", "for example {archive: llama.cpp.tar.gz}")


def _files(value: Any) -> Any:
    """Take a single file for a list of one."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, str):
        return [value]
    raise reject(value, "a file name", "for example ./gemma.gguf")


Alternatives = Annotated[tuple[BuildSource, ...], Field(min_length=1)]
Parts = Annotated[tuple[Text, ...], Field(min_length=1)]


class Build(Section):
    """One version of llama.cpp, built once for each kind of node that needs it."""

    version: Version = key(..., "Version that the binaries will report, such as b11434.")
    source: Annotated[
        tuple[BuildSource, ...],
        Field(strict=False, min_length=1),
        BeforeValidator(_sources, json_schema_input_type=BuildSource | Alternatives),
    ] = key(..., "Where the source comes from; in a list, alternatives for one and the same code.")
    backends: Annotated[
        Annotated[Literal["auto"], WORD]
        | Annotated[tuple[BackendName, ...], Field(strict=False, min_length=1), LIST],
        WORD_OR_LIST,
    ] = key("auto", "Backends to build. `auto`: what the declared cards need, cpu where there are none.")
    cuda_architectures: Annotated[
        Annotated[Literal["auto"], WORD]
        | Annotated[tuple[Architecture, ...], Field(strict=False, min_length=1), LIST],
        WORD_OR_LIST,
    ] = key("auto", "CUDA architectures to compile for. `auto`: those of the declared cards.")
    cmake: dict[Variable, Option] = key({}, "More CMake options.", shown="none")
    on: Name | None = key(
        None, "Node that compiles, or `local`.", shown="the first node using it that has the toolchain"
    )
    per_node: dict[Name, NodeBuild] = key({}, "What differs on single nodes.", shown="none")
    ui: Ui | None = key(None, "Web interface to build in.", shown="none")
    renamed_from: Label | None = key(
        None, "Its name before, so that what there is of it is kept.", shown="none"
    )


class Model(Section):
    """A model file."""

    source: Annotated[
        tuple[Text, ...],
        Field(strict=False, min_length=1),
        BeforeValidator(_files, json_schema_input_type=Text | Parts),
    ] = key(..., "GGUF file on the operator's machine, relative to this manifest file.")
    sha256: Sha256 | None = key(None, "Digest the file must have.", shown="not checked")
    alias: Alias | None = key(
        None, "Model name in the API for placements that give none.", shown="the placement's name"
    )
    renamed_from: Label | None = key(
        None, "Its name before, so that what there is of it is kept.", shown="none"
    )
