"""A placement: one model served by one llama-server on a list of devices."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from hetctl.manifest.nodes import Env
from hetctl.manifest.secrets import SecretRef
from hetctl.manifest.section import (
    LIST,
    MAP,
    NUMBER,
    WORD,
    WORD_NUMBER_OR_MAP,
    WORD_OR_LIST,
    WORD_OR_MAP,
    Section,
    key,
)
from hetctl.manifest.values import (
    SIZE_PATTERN,
    AbsolutePath,
    Alias,
    Count,
    Label,
    Line,
    Name,
    Port,
    Positive,
    Prose,
    Seconds,
    Size,
    Text,
    reject,
    size,
)

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]


def _cache_ram(value: Any) -> Any:
    """Take a size in its unit, or one of three words."""
    if value in ("auto", "off", "unlimited"):
        return value
    try:
        return size(value)
    except PydanticCustomError as error:
        raise reject(value, "auto, off, unlimited or a size", (error.context or {})["hint"]) from error


CacheRam = Annotated[
    int | Literal["auto", "off", "unlimited"],
    BeforeValidator(_cache_ram),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["auto", "off", "unlimited"], "type": "string"},
                {"type": "string", "pattern": SIZE_PATTERN},
            ]
        }
    ),
]
"""Bytes, or a word."""


class KvCache(Section):
    """Number formats of the KV cache."""

    k: CacheType = key("f16", "Format of the keys.")
    v: CacheType = key("f16", "Format of the values; a quantised one needs flash attention.")


class Speculative(Section):
    """Speculative decoding."""

    type: Literal["draft", "eagle3", "mtp", "ngram"] = key("draft", "Method.")
    model: Label | None = key(None, "Draft model.", shown="none")
    devices: Annotated[tuple[Text, ...], Field(strict=False)] = key(
        (), "Devices of the draft model.", shown="the placement's first device"
    )
    max: Positive = key(3, "Most tokens drafted at once.")
    min: Count = key(0, "Fewest tokens drafted at once.")


class Tls(Section):
    """Certificate of the server."""

    cert: SecretRef = key(..., "Certificate chain (PEM).")
    private_key: SecretRef = key(..., "Private key (PEM).", alias="key")


class Server(Section):
    """The HTTP server of a placement."""

    node: Name | None = key(None, "Node llama-server runs on: the head.", shown="the first device's node")
    listen: Annotated[tuple[Text, ...], Field(strict=False, min_length=1)] | None = key(
        None, "IP addresses it listens on.", shown="the head's address; 127.0.0.1 on a local node"
    )
    port: Port = key(8080, "TCP port.")
    api_keys: dict[Label, SecretRef] = key(
        {},
        "API keys by the name of who has them. Always references, never the key itself.",
        shown="none: open to all",
    )
    tls: Tls | None = key(None, "Certificate and key for HTTPS.", shown="plain HTTP")
    allow_from: Annotated[tuple[Text, ...], Field(strict=False)] = key(
        (), "Networks (CIDR) and addresses that may connect.", shown="everyone"
    )


class Rpc(Section):
    """Traffic between the head and its workers. llama.cpp's RPC has no authentication and no encryption."""

    exposure: Literal["firewall", "address", "loopback"] = key(
        "firewall",
        "What keeps strangers out: a firewall rule that lets only the head in, or nothing but the address.",
    )
    port: Port | None = key(None, "Port of the workers.", shown="the lowest free one from 20052")
    workers: Literal["per-node", "per-device"] = key(
        "per-node", "One worker for all cards of a node, or one a card."
    )
    transport: Literal["tcp", "rdma"] = key("tcp", "How bytes travel.")
    cache: Size | None = key(None, "Disk space for tensors kept on the worker.", shown="no cache")


class Ready(Section):
    """When a placement counts as ready."""

    within: Seconds | None = key(None, "Time from start to proof.", shown="from model size and link")
    prompt: Prose | None = key(None, "What to ask.", shown="a fixed question that suits the task")
    expect: Prose | None = key(None, "Text the answer must contain, in any case.", shown="any answer")


class Upload(Section):
    """A file of the operator's machine whose place on the node becomes the argument."""

    upload: Text = key(..., "File, relative to this manifest file.")


class Replaces(Section):
    """Consent to stop something that hetctl did not make. Exactly one of unit, container and process.

    It is started again when this placement does not pass its proof at the switch, and when it is destroyed.
    """

    one_of: ClassVar[tuple[str, ...]] = ("unit", "container", "process")

    unit: Text | None = key(None, "systemd unit to stop and disable at the switch.", shown="none")
    container: Text | None = key(None, "Container of Docker or Podman, by name.", shown="none")
    process: AbsolutePath | None = key(None, "Program whose processes end at the switch.", shown="none")
    node: Name | None = key(None, "Node it is on.", shown="the server's node")


class Override(Section):
    """Tensors that go elsewhere than their layer."""

    tensors: Text = key(..., "Regular expression over tensor names.")
    to: Text = key(..., "Device as in `devices`, or cpu.")


class Lora(Section):
    """An adapter."""

    source: Text = key(..., "GGUF file, relative to this manifest file.")
    scale: Annotated[float, Field(ge=0, le=100)] = key(1.0, "Strength.")


class Placement(Section):
    """One model, served by one llama-server, on these devices."""

    model: Label = key(..., "Model to serve.")
    build: Label | None = key(None, "Build of llama.cpp.", shown="the only one")
    task: Literal["chat", "embedding", "rerank"] = key(
        "chat", "What it is for; decides endpoints and the proof."
    )
    pooling: Literal["none", "mean", "cls", "last", "rank"] | None = key(
        None, "Pooling of embeddings.", shown="the model's own; rank for rerank"
    )
    devices: Annotated[
        Annotated[Literal["auto"], WORD]
        | Annotated[tuple[Text, ...], Field(strict=False, min_length=1), LIST],
        WORD_OR_LIST,
    ] = key(
        "auto",
        "Devices in order, as node/name. `<head>/cpu` is the head's own CPU. `auto`: with a single node, all"
        " its cards and CPU workers, its CPU if it has none.",
    )
    layers: Annotated[Annotated[Literal["auto"], WORD] | Annotated[dict[Prose, Count], MAP], WORD_OR_MAP] = (
        key(
            "auto",
            "Repeating layers on each device, the output layer not counted; `cpu` is the head's own CPU.",
        )
    )
    shares: (
        Annotated[
            Annotated[Literal["equal"], WORD] | Annotated[dict[Prose, Positive], MAP],
            WORD_OR_MAP,
        ]
        | None
    ) = key(None, "Shares of each device in split modes row and tensor.", shown="equal")
    n_cpu_moe: Annotated[
        Annotated[Literal["auto"], WORD] | Annotated[Count, NUMBER] | Annotated[dict[Prose, Count], MAP],
        WORD_NUMBER_OR_MAP,
    ] = key(0, "How many of the first layers keep their experts in the head's memory.")
    context: Positive = key(8192, "Tokens of context of each slot.")
    slots: Positive = key(1, "Requests served at once.")
    kv_unified: bool = key(default=False, description="Whether slots share one pool of context.")
    kv_cache: KvCache = key({}, "Number formats of the KV cache.", shown="f16")
    flash_attention: Literal["on", "off", "auto"] = key("on", "Flash attention.")
    split_mode: Literal["none", "layer", "row", "tensor"] = key(
        "layer", "How the model is divided over devices."
    )
    main_gpu: Text | None = key(None, "Device that works alone in split mode none.", shown="the first device")
    threads: Positive | None = key(None, "CPU threads while generating.", shown="llama.cpp's choice")
    threads_batch: Positive | None = key(None, "CPU threads while reading prompts.", shown="as threads")
    batch: Positive = key(2048, "Tokens of prompt handled in one logical step.")
    ubatch: Positive = key(512, "Tokens computed at once; larger needs more memory.")
    load_mode: Literal["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"] = key(
        "auto", "How the model file is read."
    )
    cache_ram: CacheRam = key(
        "auto", "Host memory for prompts kept. `auto`: 8GiB, off where a worker takes part."
    )
    mmproj: Text | None = key(None, "Projector file for images and sound.", shown="none")
    lora: Annotated[tuple[Lora, ...], Field(strict=False)] = key((), "Adapters.", shown="none")
    chat_template: Annotated[Annotated[Text, WORD] | Annotated[Upload, MAP], WORD_OR_MAP] | None = key(
        None, "Name of a chat template built into llama.cpp.", shown="the model's own"
    )
    speculative: Speculative | None = key(None, "Speculative decoding.", shown="off")
    alias: Alias | None = key(
        None, "Model name in the API.", shown="the model's alias, else the placement's name"
    )
    server: Server = key({}, "The HTTP server.", shown="see below")
    rpc: Rpc = key({}, "Traffic to workers.", shown="see below")
    ready: Ready = key({}, "When it counts as ready.", shown="see below")
    state: Literal["running", "stopped"] = key(
        "running", "Whether it runs. A stopped one stays installed; nothing of it is started."
    )
    group: Name | None = key(
        None,
        "Members of a group may share cards and ports; one runs at a time, which one is up to "
        "`hetctl switch`.",
        shown="none",
    )
    replaces: Replaces | None = key(
        None, "Something to stop and disable when this takes over.", shown="nothing"
    )
    overrides: Annotated[tuple[Override, ...], Field(strict=False)] = key(
        (), "Tensors that go elsewhere than their layer.", shown="none"
    )
    env: Env = key({}, "Environment of llama-server and the workers of this placement.", shown="empty")
    args: Annotated[
        tuple[Annotated[Annotated[Line, WORD] | Annotated[Upload, MAP], WORD_OR_MAP], ...],
        Field(strict=False),
    ] = key(
        (),
        "More arguments for llama-server. One that a key stands for is refused, naming the key.",
        shown="none",
    )
    renamed_from: Name | None = key(
        None, "Its name before, so that what there is of it is kept.", shown="none"
    )
