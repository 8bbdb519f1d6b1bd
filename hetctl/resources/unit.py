"""systemd services: how a unit file is written and how a node's unit is compared with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hetctl.resources import layout
from hetctl.resources.base import Reason
from hetctl.transport import quoting
from hetctl.transport.base import Json

MANAGED_NOTE = "# Written by hetctl. Changes here are undone by the next apply."

HARDENING: Mapping[str, str] = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "ProtectControlGroups": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "CapabilityBoundingSet": "",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
    "LimitMEMLOCK": "infinity",
}
"""What every service of ours may and may not do. No MemoryDenyWriteExecute, since GPU drivers compile at run
time; memory may be locked, since `loadMode: mlock` does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A long-running program under systemd.

    Arguments:
        unit: Name with `.service`.
        description: For `systemctl status`.
        command: Absolute path and arguments.
        before_start: Commands that must succeed first.
        checks: Commands run as root outside the sandbox that must succeed before those.
        after_start: Commands run as root outside the sandbox once it runs; one that fails changes nothing.
        environment: Variables of the program, spelled out.
        wants: Units that start with this one.
        after: Units to wait for.
        credentials: Name to root-only file.
        allow_addresses: The only addresses it may exchange packets with; empty for no limit.
        devices: Device nodes it may use besides the harmless ones; empty closes all others.
        groups: Supplementary groups.
        hidden_paths: Made inaccessible when they exist.
        start_seconds: How long the start may take, `before_start` included; 0 for no limit.
        stop_seconds: How long it may take to end before it is killed.
    """

    unit: str
    description: str
    command: Sequence[str]
    before_start: Sequence[Sequence[str]] = ()
    checks: Sequence[Sequence[str]] = ()
    after_start: Sequence[Sequence[str]] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    wants: Sequence[str] = ()
    after: Sequence[str] = ()
    credentials: Mapping[str, str] = field(default_factory=dict)
    allow_addresses: Sequence[str] = ()
    devices: Sequence[str] = ()
    groups: Sequence[str] = ()
    hidden_paths: Sequence[str] = ()
    start_seconds: int = 0
    stop_seconds: int = 40


def render_service(service: Service) -> str:
    """Return the text of the unit file.

    Restart=always and no start limit: ggml-rpc-server exits 0 when it loses its port, so `on-failure` would
    leave it dead (tools/rpc/rpc-server.cpp at b11434).
    """
    lines = [
        MANAGED_NOTE,
        "[Unit]",
        f"Description={quoting.unit_value(service.description)}",
        f"Wants={' '.join(['network-online.target', *service.wants])}",
        f"After={' '.join(['network-online.target', *service.after])}",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        "DynamicUser=yes",
        f"User={layout.user_name(service.unit)}",
        *([f"SupplementaryGroups={' '.join(service.groups)}"] if service.groups else []),
        *[
            f"Environment={quoting.unit_environment(name, value)}"
            for name, value in sorted(service.environment.items())
        ],
        *[
            f"LoadCredential={name}:{quoting.unit_value(path)}"
            for name, path in sorted(service.credentials.items())
        ],
        *[f"ExecStartPre=+{quoting.unit_command(command)}" for command in service.checks],
        *[f"ExecStartPre={quoting.unit_command(command)}" for command in service.before_start],
        f"ExecStart={quoting.unit_command(service.command)}",
        *[f"ExecStartPost=-+{quoting.unit_command(command)}" for command in service.after_start],
        "Restart=always",
        "RestartSec=2",
        f"TimeoutStartSec={service.start_seconds or 'infinity'}",
        f"TimeoutStopSec={service.stop_seconds}",
        *[f"{key}={value}" for key, value in HARDENING.items()],
        *[f"InaccessiblePaths=-{quoting.unit_value(path)}" for path in service.hidden_paths],
        *_device_lines(service.devices),
        *_address_lines(service.allow_addresses),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return "\n".join(lines)


def _device_lines(devices: Sequence[str]) -> list[str]:
    if not devices:
        return ["PrivateDevices=yes"]
    return ["DevicePolicy=closed", *[f"DeviceAllow={quoting.unit_value(device)} rw" for device in devices]]


def _address_lines(addresses: Sequence[str]) -> list[str]:
    if not addresses:
        return []
    return ["IPAddressDeny=any", f"IPAddressAllow={' '.join(addresses)}"]


def render_oneshot(
    *, unit: str, description: str, start: Sequence[str], stop: Sequence[str], before: str, follows: str
) -> str:
    """Return the text of a unit that does one thing at boot and undoes it when stopped.

    Arguments:
        unit: Name with `.service`; part of the description so that two of them never read alike.
        description: For `systemctl status`.
        start: Command run at start, and again when what it follows is started anew or reloaded.
        stop: Command run at stop; it may have nothing left to undo.
        before: Target or unit that must not be reached before this one is up.
        follows: Unit that undoes it whenever it is started anew or reloaded.
    """
    lines = [
        MANAGED_NOTE,
        "[Unit]",
        f"Description={quoting.unit_value(description)} ({unit.removesuffix('.service')})",
        "DefaultDependencies=no",
        "Wants=network-pre.target",
        f"Before={before} shutdown.target",
        f"After={follows} local-fs.target",
        f"PartOf={follows}",
        f"ReloadPropagatedFrom={follows}",
        "Conflicts=shutdown.target",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        f"ExecStart={quoting.unit_command(start)}",
        f"ExecReload={quoting.unit_command(start)}",
        f"ExecStop=-{quoting.unit_command(stop)}",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return "\n".join(lines)


def render_companion(
    *, unit: str, description: str, command: Sequence[str], of: str, addresses: Sequence[str]
) -> str:
    """Return the text of a unit that runs as root beside another one, and starts and stops with it.

    The other one names it under `wants`, so it has no [Install] section. What it may do as root is to reach
    the sockets of another user's process; telling systemd to end that process takes no capability.

    Arguments:
        unit: Name with `.service`; part of the description so that two of them never read alike.
        description: For `systemctl status`.
        command: Absolute path and arguments.
        of: The unit it runs beside.
        addresses: The only addresses it may exchange packets with.
    """
    allowed = {
        **{key: value for key, value in HARDENING.items() if key != "LimitMEMLOCK"},
        "CapabilityBoundingSet": "CAP_SYS_PTRACE CAP_DAC_READ_SEARCH",
        "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
    }
    lines = [
        MANAGED_NOTE,
        "[Unit]",
        f"Description={quoting.unit_value(description)} ({unit.removesuffix('.service')})",
        f"PartOf={of}",
        f"After={of}",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={quoting.unit_command(command)}",
        "Restart=always",
        "RestartSec=2",
        *[f"{key}={value}" for key, value in allowed.items()],
        *_device_lines(()),
        *_address_lines(addresses),
        "",
    ]
    return "\n".join(lines)


def unit_drift(
    unit: str,
    state: Mapping[str, Json],
    *,
    executable: str = "",
    enabled: str = "enabled",
    runs: bool = True,
) -> list[Reason]:
    """Return how a running unit differs from one that was just applied.

    Arguments:
        unit: Its name.
        state: The agent's answer for it.
        executable: What its main process must run; empty when that is not checked.
        enabled: How its enablement is called: `static` for one that another unit starts.
        runs: Whether it is meant to run.
    """
    reasons: list[str] = []
    load = state.get("load")
    if load == "masked":
        return [Reason(f"{unit} is masked", drift=True)]
    if load != "loaded":
        return [Reason(f"{unit} is {load or 'missing'}", drift=True)]
    if state.get("enabled") != enabled:
        reasons.append(f"{unit} is {state.get('enabled') or 'not enabled'}")
    if state.get("need_reload"):
        reasons.append(f"{unit} was edited and not reloaded")
    if not runs:
        if state.get("active") not in ("inactive", "failed"):
            reasons.append(f"{unit} is {state.get('active')} and should not run")
    elif state.get("active") != "active":
        reasons.append(f"{unit} is {state.get('active') or 'not running'}")
    elif executable and state.get("exe") != executable:
        found = state.get("exe") or "an unreadable program"
        reasons.append(f"{unit} runs {found}, not {executable}")
    return [Reason(text, drift=True) for text in reasons]


def file_drift(path: str, state: Mapping[str, Json], expected: Mapping[str, Json]) -> list[Reason]:
    """Return how a file differs from what was written there.

    Arguments:
        path: Where it lies.
        state: The agent's answer for it.
        expected: What the agent reported when it wrote it. Without `sha256` (a secret) size, time and inode
            are compared instead.
    """
    if not state.get("exists"):
        return [Reason(f"{path} is missing", drift=True)]
    if state.get("kind") != "file":
        return [Reason(f"{path} is a {state.get('kind')}", drift=True)]
    keys = ("sha256",) if expected.get("sha256") else ("size", "mtime_ns", "inode")
    if any(state.get(key) != expected.get(key) for key in keys):
        return [Reason(f"{path} was changed", drift=True)]
    if any(key in expected and state.get(key) != expected[key] for key in ("mode", "uid", "gid")):
        return [Reason(f"{path} has other permissions or another owner", drift=True)]
    return []
