"""The processes of a placement and their packet filters as desired resources. Pure but for secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetctl.catalog.flags import Program, flags_for
from hetctl.catalog.issues import Situation
from hetctl.catalog.llama import executable_name
from hetctl.catalog.logs import rpc_buffer
from hetctl.errors import HetctlError, Position
from hetctl.fit.placement import Capacity, SplitArguments, auto_layers, split_arguments
from hetctl.manifest.references import DeviceKind, ResolvedPlacement
from hetctl.manifest.resolved import gpus_of
from hetctl.resources import layout
from hetctl.resources.arrangement import Inputs, listen_address, source_address
from hetctl.resources.base import Desired
from hetctl.resources.desired_build import BuildDecision
from hetctl.resources.desired_filter import guard_of
from hetctl.resources.member import member_address
from hetctl.resources.rendering import (
    ServerOrder,
    experts_on_head,
    server_command,
    server_service,
    situation_of,
    worker_command,
    worker_service,
)
from hetctl.resources.scripts import KEEP_ALIVE, WAIT, WATCH
from hetctl.resources.topology import LOOPBACK, Topology, Worker
from hetctl.resources.unit import render_service
from hetctl.resources.watch import WatchOrder, may_sleep, watch_spec
from hetctl.transport.base import Json

SECONDS_TO_START = 90
BYTES_PER_SECOND = 30_000_000
"""What a model is assumed to load at without `ready.within`: a slow disk or a gigabit link."""

DEFAULT_PROMPT = "Name three colours of the rainbow."


@dataclass(frozen=True, slots=True)
class Binaries:
    """The build that a placement's processes run.

    Arguments:
        decision: What the build is.
        protocol: RPC protocol its source declares.
    """

    decision: BuildDecision
    protocol: str


def model_resource(inputs: Inputs, model: str, node: str) -> Desired:
    """Return the model file that a server on a node needs."""
    path = inputs.resolved.models[model]
    sha256 = inputs.digests[path]
    directory = _recorded_directory(inputs, model, node, sha256) or layout.model_directory(
        inputs.paths(node), inputs.cluster, model, sha256
    )
    size = path.stat().st_size
    return Desired(
        address=f"model/{model}@{node}",
        kind="model",
        node=node,
        spec={
            "model": model,
            "directory": directory,
            "path": f"{directory}/{path.name}",
            "sha256": sha256,
            "size": size,
            "summary": f"{path.name}, {size / 1e6:.0f} MB",
        },
        depends_on=(member_address(node),),
        position=inputs.position("models", model),
        explain={"path": inputs.position("nodes", node, "paths", "models")},
    )


def _recorded_directory(inputs: Inputs, model: str, node: str, sha256: str) -> str:
    """Return where a node has the very file already: a model that was renamed stays where it lies.

    Empty when it has none, or `paths` says that models lie elsewhere now.
    """
    reading = inputs.reading(node)
    mark = reading.marks.get(f"model/{model}@{node}") if reading is not None else None
    if mark is None or mark.spec["sha256"] != sha256:
        return ""
    directory = str(mark.spec["directory"])
    return directory if directory.startswith(f"{inputs.paths(node).models}/") else ""


def _python(inputs: Inputs, node: str) -> str:
    return inputs.program(node, "python3", "/usr/bin/python3")


def _script(inputs: Inputs, name: str) -> str:
    """Return where a script that units run lies on a node."""
    return layout.script_path(inputs.cluster, name, inputs.scripts[name])


def _groups(inputs: Inputs, node: str) -> frozenset[str]:
    reading = inputs.reading(node)
    return reading.facts.groups if reading is not None else frozenset()


def _variable_lines(
    inputs: Inputs, item: ResolvedPlacement, node: str, environment: Mapping[str, str]
) -> dict[str, Position]:
    """Return for the variables of a process the lines that set them."""
    declared = item.placement.env
    return {
        f"environment.{name}": inputs.position("placements", item.name, "env", name)
        if name in declared
        else inputs.position("nodes", node, "env", name)
        for name in environment
    }


def worker_resource(
    inputs: Inputs,
    item: ResolvedPlacement,
    worker: Worker,
    binaries: Binaries,
    firewall: Desired | None,
) -> Desired:
    """Return a worker of a placement."""
    decision, protocol = binaries.decision, binaries.protocol
    directory = layout.build_directory(inputs.paths(worker.node), decision.key)
    executable = f"{directory}/{executable_name('worker', decision.number)}"
    command = worker_command(worker, executable, flags_for(decision.number, Program.WORKER))
    sources: list[str] = []
    if firewall is not None or worker.listen == LOOPBACK:
        sources = sorted(
            {
                "127.0.0.0/8",
                worker.listen,
                *([source_address(inputs, item.head, worker)] if firewall else []),
            }
        )
    keep_alive = _script(inputs, KEEP_ALIVE)
    service = worker_service(
        worker,
        cluster=inputs.cluster,
        placement=item.placement,
        name=item.name,
        command=command,
        node_environment=inputs.resolved.nodes[worker.node].env,
        sources=sources,
        guard=guard_of(firewall),
        groups=_groups(inputs, worker.node),
        after_start=[[_python(inputs, worker.node), "-I", keep_alive, "--listening", str(worker.port)]],
    )
    where = ("placements", item.name)
    return Desired(
        address=worker.address,
        kind="worker",
        node=worker.node,
        spec={
            "placement": item.name,
            "build": decision.key,
            "version": decision.identity["version"],
            "executable": executable,
            "arguments": command[1:],
            "listen": worker.listen,
            "port": worker.port,
            "devices": [device.reference for device in worker.devices],
            "threads": next((device.threads for device in worker.devices if device.threads), None),
            "environment": dict(service.environment),
            "protocol": protocol,
            "head": item.head,
            "exposure": item.placement.rpc.exposure,
            "support_files": [keep_alive],
            "unit": service.unit,
            "unit_path": layout.unit_path(service.unit),
            "unit_text": render_service(service),
        },
        depends_on=(
            member_address(worker.node),
            f"build/{decision.name}@{worker.node}",
            *([firewall.address] if firewall else []),
        ),
        gang=item.name,
        position=inputs.position(*where),
        explain={
            "build": inputs.position("builds", decision.name),
            "version": inputs.position("builds", decision.name, "version"),
            "devices": inputs.position(*where, "devices"),
            **_variable_lines(inputs, item, worker.node, service.environment),
            "port": inputs.position(*where, "rpc", "port"),
            "listen": inputs.position("nodes", worker.node, "rpcAddress"),
            "threads": inputs.position("nodes", worker.node, "cpuWorkers", worker.part),
            "executable": inputs.position("nodes", worker.node, "paths", "builds"),
            "exposure": inputs.position(*where, "rpc", "exposure"),
            "head": inputs.position(*where, "server", "node"),
            "state": inputs.position(*where, "state"),
        },
    )


def placement_situation(
    inputs: Inputs, item: ResolvedPlacement, topology: Topology, number: int
) -> Situation:
    """Return what the catalogue of faults asks about a placement that runs build `number`."""
    variables = [*item.placement.env]
    for node in topology.nodes:
        variables += inputs.resolved.nodes[node].env
    return situation_of(
        item.placement,
        topology,
        number=number,
        largest_tensor=inputs.shapes[item.model].model.largest_tensor,
        environment=variables,
    )


def _layers(inputs: Inputs, item: ResolvedPlacement, topology: Topology) -> tuple[tuple[int, ...], int]:
    """Return the layers of each offloaded device and those on the head's own CPU."""
    blocks = inputs.shapes[item.model].block_count
    offloaded = [device for device in topology.devices if device.kind is not DeviceKind.HEAD_CPU]
    if not offloaded:
        return (), blocks
    layers = item.placement.layers
    if layers != "auto":
        return tuple(layers.get(device.reference, 0) for device in offloaded), layers.get("cpu", 0)
    recorded = _recorded_layers(inputs, item, [device.reference for device in offloaded], blocks)
    if recorded is not None:
        return recorded, 0
    capacities = []
    for device in offloaded:
        if device.kind is DeviceKind.GPU:
            gpu = gpus_of(inputs.resolved.cluster, device.node)[device.name]
            capacities.append(Capacity(memory=gpu.memory or 0, reserve=gpu.reserve))
        else:
            capacities.append(Capacity(memory=None))
    return tuple(auto_layers(capacities, blocks)), 0


def _recorded_layers(
    inputs: Inputs, item: ResolvedPlacement, references: Sequence[str], blocks: int
) -> tuple[int, ...] | None:
    """Return how layers were divided before, while devices, model and `layers: auto` are the same."""
    for mark in inputs.marks():
        if mark.address != f"server/{item.name}" or not mark.spec["settings"].get("layersAuto"):
            continue
        settings = mark.spec["settings"]
        layers = settings["layers"]  # stored with its keys sorted: the order of devices is in the list
        if settings["devices"] == list(references) and sum(layers.values()) == blocks:
            return tuple(layers[reference] for reference in references)
    return None


def server_resource(
    inputs: Inputs,
    item: ResolvedPlacement,
    topology: Topology,
    binaries: Binaries,
    firewall: Desired | None,
) -> Desired:
    """Return the server of a placement."""
    decision, protocol = binaries.decision, binaries.protocol
    placement, node = item.placement, item.head
    shape = inputs.shapes[item.model]
    offloaded, on_cpu = _layers(inputs, item, topology)
    split: SplitArguments | None = None
    if offloaded:
        split = split_arguments(offloaded, cpu=on_cpu, block_count=shape.block_count)
    directory = layout.build_directory(inputs.paths(node), decision.key)
    model = model_resource(inputs, item.model, node)
    unit = layout.unit_name(inputs.cluster, item.name, "server")
    secrets = _secrets(inputs, item)
    listen = item.listen or (listen_address(inputs, node),)
    order = ServerOrder(
        placement=placement,
        topology=topology,
        split=split,
        executable=f"{directory}/{executable_name('server', decision.number)}",
        model_path=str(model.spec["path"]),
        alias=item.alias,
        listen=listen,
        key_file=layout.credential_path(unit, "api-keys") if "api-keys" in secrets else "",
        number=decision.number,
        situation=placement_situation(inputs, item, topology, decision.number),
    )
    command = server_command(order, flags_for(decision.number, Program.SERVER))
    within = placement.ready.within or SECONDS_TO_START + int(model.spec["size"]) // BYTES_PER_SECOND
    secret_files = {name: layout.secret_path(inputs.cluster, item.name, name) for name in secrets}
    script, python = _script(inputs, WAIT), _python(inputs, node)
    endpoints = [worker.endpoint for worker in topology.workers]
    waiting = [[python, "-I", script, "--deadline", str(within), "--expect", protocol, *endpoints]]
    local_url = _local_url(listen, item.port)
    service = server_service(
        order,
        cluster=inputs.cluster,
        name=item.name,
        command=command,
        node_environment=inputs.resolved.nodes[node].env,
        before_start=waiting if topology.workers else [],
        credentials=secret_files,
        guard=guard_of(firewall),
        start_seconds=within + 5 if topology.workers else 0,
        groups=_groups(inputs, node),
    )
    watch = WatchOrder(
        cluster=inputs.cluster,
        placement=item.name,
        server=unit,
        url=local_url,
        model=item.alias,
        task=placement.task,
        endpoints=endpoints,
        key_file=secret_files.get("api-keys", ""),
        batch=placement.batch,
        within=within,
        may_sleep=may_sleep(command, service.environment),
        python=python,
        script=_script(inputs, WATCH),
        keep_alive=_script(inputs, KEEP_ALIVE),
    )
    where = ("placements", item.name)
    references = [device.reference for device in topology.devices if device.kind is not DeviceKind.HEAD_CPU]
    layers: dict[str, Json] = dict(zip(references, offloaded, strict=True))
    if on_cpu:
        layers["cpu"] = on_cpu
    settings = _settings(item, layers)
    return Desired(
        address=f"server/{item.name}",
        kind="server",
        node=node,
        spec={
            "placement": item.name,
            "build": decision.key,
            "version": decision.identity["version"],
            "number": decision.number,
            "commit": decision.commit,
            "executable": order.executable,
            "arguments": command[1:],
            "settings": settings,
            "environment": dict(service.environment),
            "model": item.model,
            "model_path": order.model_path,
            "model_sha256": model.spec["sha256"],
            "alias": item.alias,
            "listen": list(listen),
            "port": item.port,
            "local_url": local_url,
            "protocol": protocol,
            "workers": [
                {"address": worker.address, "node": worker.node, "listen": worker.listen, "port": worker.port}
                for worker in topology.workers
            ],
            "endpoints": endpoints,
            "buffers": _expected_buffers(topology, offloaded),
            "secret_files": secret_files,
            "support_files": [script] if topology.workers else [],
            "watch": watch_spec(watch),
            "ready": {
                "task": placement.task,
                "prompt": placement.ready.prompt or DEFAULT_PROMPT,
                "expect": placement.ready.expect,
                "within": within,
                "dimensions": (shape.model.embedding_length or None)
                if placement.task == "embedding"
                else None,
            },
            "unit": unit,
            "unit_path": layout.unit_path(unit),
            "unit_text": render_service(service),
        },
        depends_on=(
            member_address(node),
            f"build/{decision.name}@{node}",
            f"model/{item.model}@{node}",
            *([firewall.address] if firewall else []),
            *(worker.address for worker in topology.workers),
        ),
        gang=item.name,
        position=inputs.position(*where),
        explain=_explain(inputs, item, settings, decision)
        | _variable_lines(inputs, item, node, service.environment),
        secrets=secrets,
    )


def _settings(item: ResolvedPlacement, layers: Mapping[str, Json]) -> dict[str, Json]:
    """Return what a person would compare, under the names of the manifest's keys."""
    placement = item.placement
    return {
        "task": placement.task,
        "pooling": placement.pooling,
        "allowFrom": list(placement.server.allow_from),
        "devices": [device.text for device in item.devices],
        "layers": dict(layers),
        "layersAuto": placement.layers == "auto",
        "context": placement.context,
        "slots": placement.slots,
        "kvUnified": placement.kv_unified,
        "kvCache": {"k": placement.kv_cache.k, "v": placement.kv_cache.v},
        "flashAttention": placement.flash_attention,
        "splitMode": placement.split_mode,
        "mainGpu": placement.main_gpu,
        "nCpuMoe": experts_on_head(placement),
        "threads": placement.threads,
        "threadsBatch": placement.threads_batch,
        "batch": placement.batch,
        "ubatch": placement.ubatch,
        "loadMode": placement.load_mode,
        "cacheRam": placement.cache_ram,
        "chatTemplate": placement.chat_template if isinstance(placement.chat_template, str) else None,
        "args": [argument for argument in placement.args if isinstance(argument, str)],
    }


def _explain(
    inputs: Inputs, item: ResolvedPlacement, settings: Mapping[str, Json], decision: BuildDecision
) -> dict[str, Position]:
    where = ("placements", item.name)
    found = {f"settings.{key}": inputs.position(*where, key) for key in settings}
    found |= {f"settings.kvCache.{key}": inputs.position(*where, "kvCache", key) for key in ("k", "v")}
    layers = settings["layers"]
    found |= {f"settings.layers.{key}": inputs.position(*where, "layers", key) for key in layers}
    found |= {key: inputs.position(*where, key) for key in ("model", "alias", "env", "state")}
    found |= {key: inputs.position(*where, "server", key) for key in ("port", "listen")}
    found["settings.allowFrom"] = inputs.position(*where, "server", "allowFrom")
    found["api-keys"] = found["secret_files"] = inputs.position(*where, "server", "apiKeys")
    found["endpoints"] = inputs.position(*where, "rpc")
    found["executable"] = inputs.position("nodes", item.head, "paths", "builds")
    found["model_path"] = inputs.position("nodes", item.head, "paths", "models")
    found["build"] = inputs.position("builds", decision.name)
    found["version"] = inputs.position("builds", decision.name, "version")
    found["model_sha256"] = inputs.position("models", item.model)
    found |= {f"ready.{key}": inputs.position(*where, "ready", key) for key in ("prompt", "expect", "within")}
    return found


def _secrets(inputs: Inputs, item: ResolvedPlacement) -> dict[str, str]:
    """Return the secrets of a server by name: its API keys as llama-server reads them, one a line."""
    keys = item.api_keys
    if not keys:
        return {}
    values = []
    for name, reference in keys.items():
        try:
            values.append(inputs.secret(reference))
        except HetctlError as error:
            error.where = error.where or str(
                inputs.position("placements", item.name, "server", "apiKeys", name)
            )
            raise
    return {"api-keys": "\n".join(values) + "\n"}


def _local_url(listen: Sequence[str], port: int) -> str:
    address = next((item for item in listen if item in {"0.0.0.0", "127.0.0.1"}), listen[0])  # noqa: S104 - compared, not bound
    host = LOOPBACK if address == "0.0.0.0" else f"[{address}]" if ":" in address else address  # noqa: S104 - compared, not bound
    return f"http://{host}:{port}"


def _expected_buffers(topology: Topology, layers: Sequence[int]) -> dict[str, Json]:
    """Return the name of each device's buffers in the server's log, and whether it must hold weights."""
    names: dict[str, str] = {}
    for worker in topology.workers:
        for index, device in enumerate(worker.devices):
            names[device.reference] = rpc_buffer(worker.endpoint, index)
    offloaded = [
        (device, name)
        for device, name in zip(topology.devices, topology.device_names, strict=True)
        if device.kind is not DeviceKind.HEAD_CPU
    ]
    last = len(offloaded) - 1
    return {
        names.get(device.reference, name): count > 0 or index == last
        for index, ((device, name), count) in enumerate(zip(offloaded, layers, strict=True))
    }
