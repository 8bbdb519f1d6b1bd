"""How llama.cpp's programs spell their settings, build by build.

A setting is what hetctl wants (`Setting.LOAD_MODE`), a flag is how one build writes it. Rows are in
`data/llama_flags.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from hetctl.catalog.llama import oldest_build
from hetctl.catalog.table import Builds, Origin, Row, builds_of, origin_of, read_rows
from hetctl.errors import FlagUnavailable


class Program(StrEnum):
    """A program of llama.cpp that takes settings."""

    SERVER = "llama-server"
    WORKER = "ggml-rpc-server"


class Setting(StrEnum):
    """Everything hetctl may say to llama-server or to a worker."""

    RPC = "rpc"
    DEVICES = "devices"
    MODEL = "model"
    ALIAS = "alias"
    CONTEXT = "context"
    SLOTS = "slots"
    KV_UNIFIED = "kvUnified"
    GPU_LAYERS = "gpuLayers"
    SPLIT_MODE = "splitMode"
    TENSOR_SPLIT = "tensorSplit"
    MAIN_GPU = "mainGpu"
    EXPERTS_ON_CPU = "expertsOnCpu"
    OVERRIDES = "overrides"
    CACHE_TYPE_K = "cacheTypeK"
    CACHE_TYPE_V = "cacheTypeV"
    FLASH_ATTENTION = "flashAttention"
    BATCH = "batch"
    UBATCH = "ubatch"
    THREADS = "threads"
    THREADS_BATCH = "threadsBatch"
    HOST = "host"
    PORT = "port"
    API_KEY_FILE = "apiKeyFile"
    TLS_KEY_FILE = "tlsKeyFile"
    TLS_CERT_FILE = "tlsCertFile"
    CACHE_RAM = "cacheRam"
    LOAD_MODE = "loadMode"
    FIT = "fit"
    WEB_INTERFACE = "webInterface"
    LOG_VERBOSITY = "logVerbosity"
    LOG_COLORS = "logColors"
    EMBEDDINGS = "embeddings"
    POOLING = "pooling"
    RERANK = "rerank"
    CHAT_TEMPLATE = "chatTemplate"
    CHAT_TEMPLATE_FILE = "chatTemplateFile"
    MULTIMODAL_PROJECTOR = "multimodalProjector"
    PROJECTOR_DEVICE = "projectorDevice"
    ADAPTERS = "adapters"
    SPECULATIVE_TYPE = "speculativeType"
    DRAFT_MODEL = "draftModel"
    DRAFT_DEVICES = "draftDevices"
    DRAFT_GPU_LAYERS = "draftGpuLayers"
    DRAFT_MAX = "draftMax"
    DRAFT_MIN = "draftMin"
    NGRAM_MAX = "ngramMax"
    NGRAM_MIN = "ngramMin"
    JINJA = "jinja"
    METRICS = "metrics"
    SLOTS_ENDPOINT = "slotsEndpoint"
    WARMUP = "warmup"
    OFFLINE = "offline"
    TENSOR_CACHE = "tensorCache"


Value = str | int | float | bool | Sequence[str | int]
"""What a setting is set to: a word or number, true or false for a switch, a sequence for a list."""


@dataclass(frozen=True, slots=True)
class Flag:
    """How one range of builds spells one setting.

    Arguments:
        setting: What it sets.
        key: Manifest key that stands for it; `fixed` when hetctl always says the same; `args` when the
            manifest has no key and a user may give the flag in `args`.
        form: `value`, `list` (joined by commas), `switch` or `words` (each value has its own arguments).
        spelling: The flag as rendered.
        off: The spelling that turns a switch off; empty when leaving it away does.
        also: Other spellings of the same setting.
        values: Words it takes; empty when any.
        words: For the form `words`: arguments by value.
        most: Most elements of a list; 0 without limit.
        environment: Environment variable that sets the same; empty when there is none.
        builds: Builds that have it.
        origin: Where this was read.
    """

    setting: Setting
    key: str
    form: str
    spelling: str
    off: str
    also: tuple[str, ...]
    values: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    most: int
    environment: str
    builds: Builds
    origin: Origin

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every way to write it, the rendered one first."""
        return tuple(dict.fromkeys(name for name in (self.spelling, self.off, *self.also) if name))


@dataclass(frozen=True, slots=True)
class FlagSet:
    """The flags of one program at one build."""

    program: Program
    build: int
    flags: Mapping[Setting, Flag]

    def spellings(self) -> Mapping[str, str]:
        """Return every spelling known at this build, with the key that stands for it (see `Flag.key`)."""
        return {name: flag.key for flag in self.flags.values() for name in flag.spellings}

    def render(self, settings: Iterable[tuple[Setting, Value]]) -> list[str]:
        """Return the arguments that make these settings, in order.

        `Setting.RPC` goes first wherever it stands: llama.cpp looks devices up while it parses, and the
        devices of workers exist only once `--rpc` was parsed (tried at b11434).

        Raises:
            FlagUnavailable: This build has no flag for a setting or a value, or cannot express it.
        """
        ordered = sorted(settings, key=lambda pair: pair[0] is not Setting.RPC)
        return [argument for setting, value in ordered for argument in self.arguments(setting, value)]

    def arguments(self, setting: Setting, value: Value) -> list[str]:
        """Return the arguments that set one setting.

        Raises:
            FlagUnavailable: As `render`.
        """
        flag = self.flags.get(setting)
        if flag is None:
            raise self._unavailable(setting, value, "", _known_builds(self.program, setting))
        match flag.form:
            case "switch":
                return [flag.spelling] if value else [flag.off] if flag.off else []
            case "words":
                if str(value) not in flag.words:
                    raise self._unavailable(setting, value, f"it takes {', '.join(flag.words)}", "")
                return list(flag.words[str(value)])
            case "list":
                return [flag.spelling, self._joined(flag, value)]
            case _:
                text = str(value)
                if flag.values and text not in flag.values:
                    raise self._unavailable(setting, value, f"it takes {', '.join(flag.values)}", "")
                return [flag.spelling, text]

    def _joined(self, flag: Flag, value: Value) -> str:
        items = [str(item) for item in ([value] if isinstance(value, str | int | float) else value)]
        if flag.most and len(items) > flag.most:
            raise self._unavailable(flag.setting, value, f"it takes {flag.most} at most", "")
        for item in items:
            if "," in item or not item:
                raise self._unavailable(flag.setting, value, "its elements are separated by commas", "")
        return ",".join(items)

    def _unavailable(self, setting: Setting, value: Value, why: str, fix: str) -> FlagUnavailable:
        shown = value if isinstance(value, str | int | float) else ", ".join(map(str, value))
        return FlagUnavailable(
            f"{self.program} b{self.build} has no way to set {setting} to {shown}",
            where=f"b{self.build}",
            why=why or "this build has no flag for it",
            fix=fix or "choose another value, or another build",
        )


@cache
def all_flags() -> tuple[tuple[Program, Flag], ...]:
    """Return every row of the catalogue."""
    return tuple((Program(row["program"]), _flag(row)) for row in read_rows("llama_flags.json"))


def _flag(row: Row) -> Flag:
    values = row.get("values", ())
    words = {key: tuple(arguments) for key, arguments in values.items()} if isinstance(values, dict) else {}
    return Flag(
        setting=Setting(row["setting"]),
        key=row["key"],
        form=row["form"],
        spelling=row["flag"],
        off=row.get("off", ""),
        also=tuple(row["also"]),
        values=() if words else tuple(values),
        words=words,
        most=row.get("most", 0),
        environment=row["environment"] or "",
        builds=builds_of(row),
        origin=origin_of(row),
    )


def _known_builds(program: Program, setting: Setting) -> str:
    ranges = [str(flag.builds) for owner, flag in all_flags() if owner is program and flag.setting is setting]
    return f"a build that has it: {', '.join(ranges)}" if ranges else ""


@cache
def flags_for(build: int, program: Program = Program.SERVER) -> FlagSet:
    """Return the flags of `program` at `build`.

    Raises:
        FlagUnavailable: The build is older than anything the catalogue was made from.
    """
    if build < oldest_build():
        raise FlagUnavailable(
            f"b{build} is older than any build hetctl knows",
            where=f"b{build}",
            why=f"its flags were never checked; the catalogue begins with b{oldest_build()}",
            fix=f"declare b{oldest_build()} or later",
        )
    return FlagSet(
        program,
        build,
        {flag.setting: flag for owner, flag in all_flags() if owner is program and build in flag.builds},
    )
