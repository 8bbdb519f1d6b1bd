"""The machines: nodes, their cards, their CPU workers, and virtual machines."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from hetctl.manifest.section import Section, key
from hetctl.manifest.values import (
    AbsolutePath,
    Line,
    Name,
    Pci,
    Port,
    Positive,
    Size,
    Text,
    Uuid,
    Variable,
    Watts,
    reject,
)

Env = dict[Variable, Line]
"""Environment variables. Values are text: quote numbers."""


class Ssh(Section):
    """How to log in to a node. ~/.ssh/config is honoured, ProxyJump included."""

    user: Text | None = key(None, "Login name.", shown="root")
    port: Port | None = key(None, "TCP port of the SSH server.", shown="as in ~/.ssh/config, else 22")
    identity: Text | None = key(
        None,
        "Private key file here, relative to this manifest file; ~ is the home directory.",
        shown="as in ~/.ssh/config, else the SSH agent and the usual key files",
    )


class Paths(Section):
    """Where hetctl puts large things on a node. Absolute paths."""

    models: AbsolutePath = key("/var/lib/hetctl/models", "Model files.")
    builds: AbsolutePath = key("/var/lib/hetctl/builds", "Builds of llama.cpp.")
    cache: AbsolutePath = key(
        "/var/lib/hetctl/cache", "What may be deleted at any time: archives, RPC tensor cache."
    )


class Power(Section):
    """The power a machine has to share out."""

    psu: Watts | None = key(None, "What the power supply can deliver.", shown="not checked")
    outlet: Watts | None = key(None, "What the outlet or its fuse can deliver.", shown="not checked")
    rest: Watts | None = key(None, "What the machine draws without its cards.", shown="not checked")


class GpuDefaults(Section):
    """Settings of every card of a node that does not say otherwise."""

    power_limit: Watts | None = key(None, "Power limit of each card.", shown="unchanged")


class Match(Section):
    """Which card is meant. Exactly one of uuid, pci and model."""

    one_of: ClassVar[tuple[str, ...]] = ("uuid", "pci", "model")

    uuid: Uuid | None = key(None, "UUID as `nvidia-smi -L` prints it.", shown="any")
    pci: Pci | None = key(None, "PCI address, such as 0000:02:00.0.", shown="any")
    model: Text | None = key(
        None,
        "Whole model name without vendor and family, in any case: RTX 3090 is not RTX 3090 Ti.",
        shown="any",
    )
    nth: Positive | None = key(
        None, "Which of several equal cards, counted from 1 by PCI address. Needs `of`.", shown="the only one"
    )
    of: Positive | None = key(
        None,
        "How many equal cards there are. Another number found means that one fell off the bus.",
        shown="1",
    )


def _match(value: Any) -> Any:
    """Take a text for the model name of a card."""
    if isinstance(value, str):
        return {"model": value}
    if isinstance(value, (dict, Match)):
        return value
    raise reject(value, "a card's model name or a mapping", "for example RTX 3090, or {pci: ...}")


class Gpu(Section):
    """One card."""

    match: Annotated[Match, BeforeValidator(_match, json_schema_input_type=Text | Match)] = key(
        ..., "Which card of the machine it is: its model name, or a mapping with uuid, pci or model."
    )
    memory: Size | None = key(
        None, "Memory on the card. Tells cards of one model with different memory apart.", shown="as found"
    )
    use: Literal["serve", "passthrough"] = key(
        "serve", "`serve`: this node's llama.cpp uses it. `passthrough`: a virtual machine gets it."
    )
    backend: Literal["cuda", "hip", "sycl", "vulkan"] | None = key(
        None,
        "llama.cpp backend that drives it.",
        shown="the first of cuda, hip, sycl, vulkan that reaches it",
    )
    reserve: Size = key(2**30, "Memory left alone when layers are divided.", shown="1GiB")
    shared: bool = key(
        default=False,
        description="Whether several placements may run on it; each must then give explicit `layers`.",
    )
    power_limit: Watts | None = key(None, "Power limit.", shown="the node's gpuDefaults, else unchanged")


class CpuWorker(Section):
    """CPU threads that serve layers to a head over RPC."""

    threads: Positive | None = key(None, "Threads it computes with.", shown="as many as the node has cores")


class Driver(Section):
    """The GPU driver a machine should have."""

    branch: Positive = key(..., "Driver branch, such as 580.")
    flavour: Literal["open", "proprietary"] = key(..., "Kernel module flavour.")


class Host(Section):
    """What nodes and virtual machines have in common: how to reach them and where things go."""

    address: Text | None = key(
        None, "Host name or IP address that SSH connects to.", shown="none: needed unless `connection: local`"
    )
    rpc_address: Text | None = key(
        None,
        "IPv4 address on the fast cable, for traffic between llama.cpp processes.",
        shown="`address` if that is an IPv4 address, else the one SSH reaches; 127.0.0.1 for a local node",
    )
    ssh: Ssh = key({}, "How to log in, where it differs from the cluster's `ssh`.", shown="the cluster's")
    paths: Paths = key({}, "Where large things go.", shown="see below")
    env: Env = key({}, "Environment of every llama.cpp process on this machine.", shown="empty")
    cpu_workers: dict[Name, CpuWorker] = key(
        {}, "CPU workers by name; one namespace with gpus.", shown="none"
    )
    renamed_from: Name | None = key(
        None, "Its name before. Seldom needed: a machine is recognised by itself.", shown="none"
    )


class Node(Host):
    """A machine."""

    connection: Literal["ssh", "local"] = key(
        "ssh", "`local`: the machine hetctl itself runs on, reached without SSH."
    )
    gpus: dict[Name, Gpu] = key({}, "Cards by name.", shown="none")
    gpu_defaults: GpuDefaults = key({}, "Settings of every card.", shown="none")
    power: Power | None = key(None, "Power budget, checked against the cards' limits.", shown="not checked")
    driver: Driver | None = key(None, "GPU driver to keep installed.", shown="unchanged")
    managed: bool = key(default=True, description="`false`: a worker that hetctl only uses, at `endpoint`.")
    endpoint: Text | None = key(None, "host:port of a worker that is not managed.", shown="none")
    presence: Literal["always", "intermittent"] = key(
        "always", "`intermittent`: a machine that may be switched off without that being an error."
    )
    kernel_args: Annotated[tuple[Text, ...], Field(strict=False)] = key(
        (), "Kernel command line arguments to have set.", shown="none"
    )


class Vm(Host):
    """A virtual machine that gets cards passed through. It is a node of its own name as well."""

    on: Name = key(..., "Node it runs on.")
    provider: Literal["libvirt", "proxmox"] = key("libvirt", "What runs it.")
    gpus: Annotated[tuple[Name, ...], Field(strict=False)] = key(
        (), "Cards of that node, declared with `use: passthrough`, that it gets.", shown="none"
    )
    restart: Literal["allow", "plan-only"] = key(
        "plan-only", "Whether apply may restart it, or only says that a restart is needed."
    )
    driver: Driver | None = key(None, "GPU driver to keep installed in it.", shown="unchanged")
    memory: Size | None = key(None, "Memory, to define a new machine.", shown="adopt the existing machine")
    cpus: Positive | None = key(
        None, "Virtual CPUs, to define a new machine.", shown="adopt the existing machine"
    )
    disk: Size | None = key(None, "Disk size, to define a new machine.", shown="adopt the existing machine")
    image: Text | None = key(
        None, "Cloud image a new machine starts from.", shown="adopt the existing machine"
    )
    network: Text | None = key(None, "Network of the provider it joins.", shown="the provider's default")
    user: Text | None = key(None, "Login name made in a new machine.", shown="root")
    ssh_keys: Annotated[tuple[Text, ...], Field(strict=False)] = key(
        (), "Public keys that may log in to a new machine.", shown="none"
    )
