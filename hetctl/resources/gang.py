"""Making and removing the processes of a placement: its workers and its server stop and start together.

Order of a switch: the head stops, then the workers; the workers start and are proved, then the head, then the
proof that the placement does what it is for. A head that outlives one of its workers has lost that worker's
buffers and aborts (ggml-rpc.cpp at b11434), so no member restarts alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hetctl.errors import HetctlError, OperationFailed
from hetctl.resources import marks, packet_filter, proof
from hetctl.resources.activity import runs
from hetctl.resources.base import Change, Desired, Mark, StepContext
from hetctl.resources.process import process_objects
from hetctl.resources.scripts import source_of
from hetctl.resources.takeover import KEPT_SUFFIX, files_of, standing_before, undo_rename, units_of
from hetctl.resources.work import Work, begin, finish, put_text, standing, systemd, take_unit_away, wanted
from hetctl.transport.base import Json, Session

STOP_DEADLINE = 120.0
"""Seconds. llama-server takes up to 30 s to end while it answers somebody."""

WORKER_START_DEADLINE = 60.0
GENERATION_DEADLINE = 300.0
"""Seconds the first answer may take: kernels of some backends are compiled on first use."""


def stop_member(work: Work, context: StepContext, change: Change) -> None:  # noqa: ARG001 - all steps have one signature
    """Stop a worker or server that is to change; what is not running stays so."""
    session = context.sessions[change.node]
    unit = str((change.mark.spec if change.mark else wanted(change).spec)["unit"])
    context.progress(f"stopping {unit}")
    _stop_unit(session, unit)


def stage(work: Work, context: StepContext, changes: Sequence[Change]) -> None:
    """Leave the marks of what is about to change on one node, before anything stops.

    A node that cannot be written to, because its disk is full for one, is found out here.
    """
    for change in changes:
        begin(work, context.sessions[change.node], change)


def start_worker(work: Work, context: StepContext, change: Change) -> None:
    """Write, start and prove a worker."""
    session, spec = context.sessions[change.node], wanted(change).spec
    _stop_unit(session, spec["unit"])  # one whose mark was lost may still run as it was
    made, _ = _write(session, wanted(change))
    systemd(session, "daemon-reload")
    systemd(session, "enable", spec["unit"])
    _start_unit(session, spec["unit"], deadline=WORKER_START_DEADLINE)
    learned = proof.prove_worker(session, spec, deadline=WORKER_START_DEADLINE)
    finish(work, session, change, objects=process_objects(spec, made), facts=learned)


def prove_exposure(context: StepContext, change: Change, bystander: str) -> None:
    """Prove from a node that has no business with a worker that it cannot connect."""
    spec = wanted(change).spec
    proof.prove_closed(context.sessions[bystander], spec["listen"], spec["port"])


def rest_member(work: Work, context: StepContext, change: Change) -> None:
    """Write a worker or server that is declared stopped, ready to start, and see that it does not run."""
    session, desired = context.sessions[change.node], wanted(change)
    spec = desired.spec
    begin(work, session, change)
    made, fingerprints = _write(session, desired)
    systemd(session, "daemon-reload")
    _stop_unit(session, spec["unit"])
    systemd(session, "disable", spec["unit"])
    facts = {"secrets": fingerprints}
    finish(work, session, change, objects=process_objects(spec, made), facts=facts)


def _write(session: Session, desired: Desired) -> tuple[dict[str, Mapping[str, Json]], dict[str, Json]]:
    """Write the files of a worker or server; return their states by path and its secrets' fingerprints."""
    spec = desired.spec
    made = _write_scripts(session, spec["support_files"])
    fingerprints: dict[str, Json] = {}
    for name, path in sorted(spec.get("secret_files", {}).items()):
        _keep_secret(session, path)
        made[path], fingerprints[name] = _put_secret(session, path, desired.secrets[name])
    made |= _write_unit(session, spec)
    if "watch" in spec:
        made |= _write_watch(session, spec)
    return made, fingerprints


def start_server(work: Work, context: StepContext, change: Change) -> None:
    """Write and start a server, and prove that the placement does what it is for."""
    session, desired = context.sessions[change.node], wanted(change)
    spec = desired.spec
    _stop_unit(session, spec["unit"])
    made, fingerprints = _write(session, desired)
    systemd(session, "daemon-reload")
    systemd(session, "enable", spec["unit"])
    within = float(spec["ready"]["within"])
    context.progress("starting")
    _start_unit(session, spec["unit"], deadline=within + 10)
    learned = prove_server(session, spec, context, within=within)
    finish(
        work,
        session,
        change,
        objects=process_objects(spec, made),
        facts={**learned, "secrets": fingerprints},
    )


def go_back(
    work: Work, context: StepContext, members: Sequence[Change], filters: Sequence[Change] = ()
) -> None:
    """Return a gang to its previous generation after a switch failed; where there was none, stop it.

    Arguments:
        work: Of the run.
        context: Of the running step.
        members: The changes of the gang's workers and servers, as the failed switch was to make them.
        filters: The changes of packet filters that the switch included.

    Raises:
        ProofFailed: The previous generation does not work any more either. Everything of the gang is stopped.
    """
    old = [mark for mark in map(standing_before, members) if mark is not None]
    heads = [change for change in members if change.kind == "server"]
    workers = [change for change in members if change.kind == "worker"]
    _stop_both(work, context, [*heads, *workers])
    for change in filters:
        packet_filter.restore(work, context, change)
    if not any(mark.kind == "server" for mark in old):
        for change in (each for each in [*heads, *workers] if each.desired is not None):
            _disable(context.sessions[change.node], str(wanted(change).spec["unit"]))
        context.progress("there was no earlier generation: stopped")
        return
    context.progress("going back to the previous generation")
    try:
        proved = [_restore(context, mark) for mark in sorted(old, key=lambda mark: mark.kind != "worker")]
        for change in [*heads, *workers]:
            if change.mark is None:
                _disable(context.sessions[change.node], str(wanted(change).spec["unit"]))
    except HetctlError:
        for change in [*heads, *workers]:
            stop_member(work, context, change)
        raise
    # last: it runs again whether or not this can be written down
    for mark in proved:
        marks.store(context.sessions[mark.node], mark)
    for change in [*heads, *workers]:
        undo_rename(work, context, change)


def _stop_both(work: Work, context: StepContext, members: Sequence[Change]) -> None:
    """Stop what a switch was to start, and what it was to stop."""
    for change in members:
        stop_member(work, context, change)
        if change.mark is not None and change.desired is not None:
            _stop_unit(context.sessions[change.node], str(change.desired.spec["unit"]))


def _restore(context: StepContext, mark: Mark) -> Mark:
    """Start one member as it was, prove it, and return its mark.

    What lies there as it was is not written again: the disk may be full.
    """
    session, spec = context.sessions[mark.node], mark.spec
    watch = spec.get("watch")
    units = {spec["unit_path"]: spec["unit_text"]}
    scripts = list(spec.get("support_files", []))
    if watch is not None:
        units[watch["unit_path"]] = watch["unit_text"]
        scripts += watch["files"]
    made = _look(session, [*units, *scripts])  # scripts are named by their content: they are what they were
    for path, text in units.items():
        if made[path].get("sha256") != hashlib.sha256(text.encode()).hexdigest():
            made[path] = put_text(session, path, text)
    for path in spec.get("secret_files", {}).values():
        made[path] = _take_secret_back(session, path)
    systemd(session, "daemon-reload")
    systemd(session, "enable" if runs(spec) else "disable", spec["unit"])
    learned: Mapping[str, Json]
    if not runs(spec):
        learned = {}
    elif mark.kind == "worker":
        _start_unit(session, spec["unit"], deadline=WORKER_START_DEADLINE)
        learned = proof.prove_worker(session, spec, deadline=WORKER_START_DEADLINE)
    else:
        within = float(spec["ready"]["within"])
        _start_unit(session, spec["unit"], deadline=within + 10)
        learned = prove_server(session, spec, context, within=within)
    return replace(mark, objects=tuple(process_objects(spec, made)), facts={**mark.facts, **learned})


def _look(session: Session, paths: Sequence[str]) -> dict[str, Mapping[str, Json]]:
    asked = {"objects": [{"type": "file", "path": path, "hash": True} for path in paths]}
    return dict(zip(paths, session.call("observe", asked)["states"], strict=True))


def _start_unit(session: Session, unit: str, *, deadline: float) -> None:
    """Start a unit with its restarts counted from zero: the proofs take any as a process that ends."""
    state = proof.unit_state(session, unit)
    if state.get("active") == "failed" or int(state.get("restarts") or 0) > 0:
        systemd(session, "reset-failed", unit)
    systemd(session, "start", unit, deadline=deadline)


def _stop_unit(session: Session, unit: str) -> None:
    state = proof.unit_state(session, unit)
    if state.get("load") == "loaded" and state.get("active") not in ("inactive", "failed"):
        systemd(session, "stop", unit, deadline=STOP_DEADLINE)


def _disable(session: Session, unit: str) -> None:
    if proof.unit_state(session, unit).get("load") == "loaded":
        systemd(session, "disable", unit)


def prove_server(
    session: Session,
    spec: Mapping[str, Json],
    context: StepContext,
    *,
    within: float,
    keeps_running: bool = False,
) -> Mapping[str, Json]:
    """Prove a server: binary, devices, build, the task of the placement, and that it is watched.

    Arguments:
        session: Of the head's node.
        spec: Of the server.
        context: Of the running step.
        within: Seconds the model may take to load.
        keeps_running: It was not started just now, so restarts it had before mean nothing.
    """
    unit = spec["unit"]
    known = int(proof.unit_state(session, unit).get("restarts") or 0) if keeps_running else 0
    state = proof.wait_running(session, unit, spec["executable"], deadline=within, restarts=known)
    proof.wait_for_api(session, unit, api_of(spec), deadline=within, say=context.progress, restarts=known)
    buffers = proof.prove_devices(
        session, unit, str(state.get("invocation") or ""), spec["buffers"], number=spec["number"]
    )
    proof.prove_build(session, api_of(spec), number=spec["number"], commit=spec["commit"])
    context.progress("asking it something")
    answered = proof.prove_task(
        session, api_of(spec), spec["ready"], model=spec["alias"], deadline=GENERATION_DEADLINE
    )
    if watch := spec.get("watch"):
        systemd(session, "start", watch["unit"])
    return {"buffers": buffers, "invocation": state.get("invocation"), "proof": dict(answered)}


def reprove_server(work: Work, context: StepContext, change: Change) -> None:
    """Mend the watch of a server that keeps running, and ask it what its `ready` section asks."""
    session, spec, old = context.sessions[change.node], wanted(change).spec, standing(change)
    made = {item["path"]: item.get("expect") or {} for item in old.objects if item["type"] == "file"}
    made |= _write_watch(session, spec)
    systemd(session, "daemon-reload")
    systemd(session, "restart", spec["watch"]["unit"])
    learned = prove_server(session, spec, context, within=float(spec["ready"]["within"]), keeps_running=True)
    finish(work, session, change, objects=process_objects(spec, made), facts={**old.facts, **learned})


def api_of(spec: Mapping[str, Json]) -> proof.Api:
    """Return how the head's node itself reaches the server."""
    return proof.Api(base=spec["local_url"], key_file=spec["secret_files"].get("api-keys", ""))


def _write_scripts(session: Session, paths: Sequence[str]) -> dict[str, Mapping[str, Json]]:
    return {path: put_text(session, path, source_of(path)) for path in paths}


def _put_secret(session: Session, path: str, value: str) -> tuple[Mapping[str, Json], str]:
    """Write a secret that only root can read; what is remembered of the file holds no digest of it."""
    answer = session.call(
        "put_file",
        {"path": path, "mode": 0o600, "uid": 0, "gid": 0, "secret": True},
        upload=[value.encode()],
    )
    state = {key: item for key, item in answer["state"].items() if key != "sha256"}
    return state, str(answer["hmac"])


def _keep_secret(session: Session, path: str) -> None:
    """Keep a secret that is about to be replaced beside it, so that going back brings it back."""
    state = session.call("observe", {"objects": [{"type": "file", "path": path}]})["states"][0]
    if state.get("exists"):
        _copy(session, path, f"{path}{KEPT_SUFFIX}")


def _take_secret_back(session: Session, path: str) -> Mapping[str, Json]:
    kept = f"{path}{KEPT_SUFFIX}"
    asked = {"objects": [{"type": "file", "path": kept}, {"type": "file", "path": path}]}
    if session.call("observe", asked)["states"][0].get("exists"):
        _copy(session, kept, path)
    state: Mapping[str, Json] = session.call("observe", asked)["states"][1]
    return {key: item for key, item in state.items() if key != "sha256"}


def _copy(session: Session, source: str, target: str) -> None:
    """Copy a file of the node with its mode and owner; neither end is ever half written."""
    unfinished = f"{target}.copy"
    for argv in (["cp", "--archive", "--", source, unfinished], ["mv", "--", unfinished, target]):
        answer = session.call("run", {"argv": argv, "env": {}})
        if answer["exit"] != 0:
            raise OperationFailed("a file could not be copied", where=session.node, why=str(answer["stderr"]))


def _write_unit(session: Session, spec: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    return {spec["unit_path"]: put_text(session, spec["unit_path"], spec["unit_text"])}


def _write_watch(session: Session, spec: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    watch = spec["watch"]
    made = _write_scripts(session, watch["files"])
    return made | {watch["unit_path"]: put_text(session, watch["unit_path"], watch["unit_text"])}


def remove_member(work: Work, context: StepContext, change: Change) -> None:
    """Stop a worker or server and remove its unit, its watch, its secrets and its mark.

    What something declared owns now, after a rename that was not finished, is left to that.
    """
    session, mark = context.sessions[change.node], standing(change)
    claimed = work.claimed.get(change.node, frozenset())
    if not claimed.intersection(units_of(mark.spec)):
        for unit, path in units_of(mark.spec).items():
            take_unit_away(session, unit, path)
        if files := files_of(mark.spec):
            above = files[0].rpartition("/")[0]
            session.call("remove", {"paths": files, "empty_directories": [above]})
    marks.erase(session, mark)
