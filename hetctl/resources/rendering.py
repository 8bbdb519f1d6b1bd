"""From a placement to the command lines, environments and unit files of its processes. Pure.

Every setting that decides placement or memory is rendered, so that a default that changes upstream moves
nothing. Spellings come from the catalogue by build number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hetctl.catalog.flags import FlagSet, Setting, Value
from hetctl.catalog.issues import Situation, adjustment
from hetctl.catalog.logs import verbosity
from hetctl.fit.placement import SplitArguments
from hetctl.manifest.placements import Placement
from hetctl.manifest.references import DeviceKind
from hetctl.resources import layout
from hetctl.resources.topology import (
    Topology,
    Worker,
    visibility_environment,
    worker_device_names,
)
from hetctl.resources.unit import Service

GPU_GROUPS = frozenset({"render", "video"})
"""Groups that may open GPU device nodes; a unit that names one that is missing does not start."""

FOREIGN_CONFIGURATION = ("/etc/llama.cpp",)
"""Files that newer builds read by themselves and that would change a declared process."""

BASE_ENVIRONMENT: Mapping[str, str] = {"GGML_NO_BACKTRACE": "1"}
"""Without it an abort starts a debugger where one is installed, and takes minutes to die."""


@dataclass(frozen=True, slots=True)
class ServerOrder:
    """Everything a server's command line follows from.

    Arguments:
        placement: As declared.
        topology: Who runs what.
        split: How layers are divided; None when everything runs on the head's own CPU.
        executable: llama-server's absolute path.
        model_path: First GGUF file on the node.
        alias: Model id of the API.
        listen: Addresses the API listens on.
        key_file: File with the API keys as the process sees it; empty for none.
        number: Build number.
        situation: What the catalogue asks about the placement.
    """

    placement: Placement
    topology: Topology
    split: SplitArguments | None
    executable: str
    model_path: str
    alias: str
    listen: Sequence[str]
    key_file: str
    number: int
    situation: Situation


def server_settings(order: ServerOrder) -> list[tuple[Setting, Value]]:
    """Return the settings of a server in the order they are rendered; `rpc` has to come before `device`."""
    placement, topology = order.placement, order.topology
    settings: list[tuple[Setting, Value]] = []
    if topology.workers:
        settings.append((Setting.RPC, [worker.endpoint for worker in topology.workers]))
    if topology.offloads and order.split is not None:
        settings += [
            (Setting.DEVICES, [name for name in topology.device_names if name]),
            (Setting.GPU_LAYERS, order.split.gpu_layers),
            (Setting.SPLIT_MODE, placement.split_mode),
            (Setting.TENSOR_SPLIT, list(order.split.tensor_split)),
            (Setting.MAIN_GPU, _main_gpu(placement, topology)),
        ]
        if experts := experts_on_head(placement):
            settings.append((Setting.EXPERTS_ON_CPU, experts))
    else:
        settings += [(Setting.DEVICES, ["none"]), (Setting.GPU_LAYERS, 0)]
    settings += [
        (Setting.MODEL, order.model_path),
        (Setting.ALIAS, order.alias),
        (Setting.CONTEXT, placement.context * placement.slots),
        (Setting.SLOTS, placement.slots),
        (Setting.KV_UNIFIED, placement.kv_unified),
        (Setting.CACHE_TYPE_K, placement.kv_cache.k),
        (Setting.CACHE_TYPE_V, placement.kv_cache.v),
        (Setting.FLASH_ATTENTION, placement.flash_attention),
        (Setting.BATCH, placement.batch),
        (Setting.UBATCH, placement.ubatch),
        (Setting.LOAD_MODE, placement.load_mode),
        *_cache_ram(order),
        (Setting.FIT, "off"),
        (Setting.WEB_INTERFACE, False),
        (Setting.LOG_VERBOSITY, verbosity(order.number)),
        (Setting.LOG_COLORS, "off"),
        (Setting.OFFLINE, True),
        (Setting.HOST, list(order.listen)),
        (Setting.PORT, placement.server.port),
    ]
    if placement.threads is not None:
        settings.append((Setting.THREADS, placement.threads))
    if placement.threads_batch is not None:
        settings.append((Setting.THREADS_BATCH, placement.threads_batch))
    if isinstance(placement.chat_template, str):
        settings.append((Setting.CHAT_TEMPLATE, placement.chat_template))
    settings += task_settings(placement)
    if order.key_file:
        settings.append((Setting.API_KEY_FILE, order.key_file))
    return settings


def task_settings(placement: Placement) -> list[tuple[Setting, Value]]:
    """Return the settings that a task other than chat needs."""
    if placement.task == "rerank":
        return [(Setting.RERANK, True)]
    if placement.task == "embedding":
        pooling: list[tuple[Setting, Value]] = (
            [(Setting.POOLING, placement.pooling)] if placement.pooling else []
        )
        return [(Setting.EMBEDDINGS, True), *pooling]
    return []


def experts_on_head(placement: Placement) -> int:
    """Return how many of the first layers keep their experts in the head's memory."""
    return placement.n_cpu_moe if isinstance(placement.n_cpu_moe, int) else 0


def _main_gpu(placement: Placement, topology: Topology) -> int:
    """Return the index in `--device` of the device that works alone in split mode none."""
    references = [device.reference for device in topology.devices]
    return references.index(placement.main_gpu) if placement.main_gpu is not None else 0


def _cache_ram(order: ServerOrder) -> list[tuple[Setting, Value]]:
    size = cache_ram(order.placement, order.number, order.situation)
    return [] if size is None else [(Setting.CACHE_RAM, size)]


def cache_ram(placement: Placement, number: int, situation: Situation) -> int | None:
    """Return MiB of host memory for cached prompts: -1 is no limit, None leaves it to llama.cpp.

    Arguments:
        placement: As declared.
        number: Build number.
        situation: The placement; whether it keeps prompts is what follows from this.
    """
    match placement.cache_ram:
        case "auto":
            found = adjustment(Setting.CACHE_RAM, number, replace(situation, prompt_cache=False))
            return found.value if found is not None else None
        case "off":
            return 0
        case "unlimited":
            return -1
        case size:
            return max(1, int(size) >> 20)


def situation_of(
    placement: Placement,
    topology: Topology,
    *,
    number: int,
    largest_tensor: int,
    environment: Iterable[str],
) -> Situation:
    """Return what the catalogue asks about a placement.

    Arguments:
        placement: As declared.
        topology: Who runs what.
        number: Build number.
        largest_tensor: Bytes of the model's largest tensor.
        environment: Names of the variables that the manifest sets, for any of its processes.
    """
    offloaded = [device for device in topology.devices if device.kind is not DeviceKind.HEAD_CPU]
    formats = placement.kv_cache
    speculative = placement.speculative
    found = Situation(
        rpc=bool(topology.workers),
        endpoints=len(topology.workers),
        devices=len(offloaded),
        split_mode=placement.split_mode,
        kv_types=frozenset({formats.k, formats.v}),
        kv_pair=f"{formats.k}-{formats.v}",
        backends=frozenset(device.backend or "cpu" for device in topology.devices),
        worker_exposed=placement.rpc.exposure == "address"
        and any(worker.node != topology.head for worker in topology.workers),
        tensor_cache=placement.rpc.cache is not None and bool(topology.workers),
        speculative=speculative is not None and speculative.type != "ngram",
        embedding=placement.task in ("embedding", "rerank"),
        largest_tensor=largest_tensor,
        environment=frozenset(environment),
    )
    return replace(found, prompt_cache=cache_ram(placement, number, found) != 0)


def server_command(order: ServerOrder, flags: FlagSet) -> list[str]:
    """Return the server's command line; the user's own arguments come last."""
    extra = [argument for argument in order.placement.args if isinstance(argument, str)]
    return [order.executable, *flags.render(server_settings(order)), *extra]


def worker_command(worker: Worker, executable: str, flags: FlagSet) -> list[str]:
    """Return a worker's command line."""
    settings: list[tuple[Setting, Value]] = [
        (Setting.HOST, worker.listen),
        (Setting.PORT, worker.port),
        (Setting.DEVICES, list(worker_device_names(worker))),
    ]
    if threads := next((device.threads for device in worker.devices if device.threads), 0):
        settings.append((Setting.THREADS, threads))
    return [executable, *flags.render(settings)]


def environment(
    node_environment: Mapping[str, str], placement: Placement, visible: Mapping[str, str]
) -> dict[str, str]:
    """Return a process's whole environment: the cards it may see win over everything."""
    return {**BASE_ENVIRONMENT, **node_environment, **placement.env, **visible}


@dataclass(frozen=True, slots=True)
class Guard:
    """A packet filter without which a process must not start.

    It is wanted and checked, not required: what a unit requires takes it along when it is started anew, and
    the filter is whenever the node's own packet filter is.

    Arguments:
        unit: That puts it in force.
        check: Succeeds while it is.
    """

    unit: str
    check: Sequence[str]


def worker_service(
    worker: Worker,
    *,
    cluster: str,
    placement: Placement,
    name: str,
    command: Sequence[str],
    node_environment: Mapping[str, str],
    sources: Sequence[str],
    guard: Guard | None,
    groups: frozenset[str],
    after_start: Sequence[Sequence[str]],
) -> Service:
    """Return the service of a worker.

    Arguments:
        worker: Who it is.
        cluster: Name of the cluster.
        placement: As declared.
        name: Of the placement.
        command: Its command line.
        node_environment: Of its node.
        sources: Addresses that may exchange packets with it; empty for no limit of its own.
        guard: The packet filter that has to be in force before; None for none.
        groups: Names of the groups that exist on its node.
        after_start: Commands run as root once it runs.
    """
    unit = layout.unit_name(cluster, name, "worker", part=worker.part)
    return Service(
        unit=unit,
        description=f"hetctl {cluster}: worker of placement {name}",
        command=command,
        after_start=after_start,
        environment=environment(node_environment, placement, visibility_environment(worker.devices)),
        wants=[guard.unit] if guard else [],
        after=[guard.unit] if guard else [],
        checks=[guard.check] if guard else [],
        allow_addresses=sources,
        devices=(nodes := device_nodes([device.backend for device in worker.devices])),
        groups=sorted(GPU_GROUPS & groups) if nodes else [],
    )


def server_service(
    order: ServerOrder,
    *,
    cluster: str,
    name: str,
    command: Sequence[str],
    node_environment: Mapping[str, str],
    before_start: Sequence[Sequence[str]],
    credentials: Mapping[str, str],
    guard: Guard | None,
    start_seconds: int,
    groups: frozenset[str],
) -> Service:
    """Return the service of a server.

    Arguments:
        order: What it follows from.
        cluster: Name of the cluster.
        name: Of the placement.
        command: Its command line.
        node_environment: Of its node.
        before_start: Commands that must succeed first.
        credentials: Secret name to root-only file.
        guard: The packet filter that has to be in force before; None for none.
        start_seconds: How long `before_start` may take.
        groups: Names of the groups that exist on its node.
    """
    local = [device for device in order.topology.devices if device.node == order.topology.head]
    visible = visibility_environment(local)
    return Service(
        unit=layout.unit_name(cluster, name, "server"),
        description=f"hetctl {cluster}: server of placement {name}",
        command=command,
        before_start=before_start,
        environment=environment(node_environment, order.placement, visible),
        wants=[layout.unit_name(cluster, name, "watch"), *([guard.unit] if guard else [])],
        after=[guard.unit] if guard else [],
        checks=[guard.check] if guard else [],
        credentials=credentials,
        hidden_paths=FOREIGN_CONFIGURATION,
        start_seconds=start_seconds,
        devices=(nodes := device_nodes([device.backend for device in local])),
        groups=sorted(GPU_GROUPS & groups) if nodes else [],
    )


DEVICE_NODES: Mapping[str, tuple[str, ...]] = {
    "cuda": ("char-nvidia", "char-nvidia-uvm", "char-nvidia-caps"),
    "hip": ("/dev/kfd", "char-drm"),
    "vulkan": ("char-nvidia", "char-nvidia-uvm", "/dev/kfd", "char-drm"),
    "sycl": ("char-drm",),
}
"""Device nodes each backend opens, as systemd's DeviceAllow= names them (man systemd.resource-control)."""


def device_nodes(backends: Sequence[str]) -> list[str]:
    """Return the device nodes that processes of these backends open, sorted."""
    return sorted({node for backend in backends for node in DEVICE_NODES.get(backend, ())})
