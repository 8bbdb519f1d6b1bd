"""Making and removing the resources that no process runs in: builds, models, records.

Each function leaves an unfinished mark first and a proved one last, so that whatever happens in between, the
next apply knows what is there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hetctl.catalog.llama import parse_version
from hetctl.errors import OperationFailed, ProofFailed
from hetctl.resources import marks, salvage
from hetctl.resources.base import Action, Change, Desired, Mark, StepContext
from hetctl.transport.base import Json, Session
from hetctl.transport.bundle import agent_bundle
from hetctl.transport.transfer import send_file
from hetctl.transport.workstation import Workstation, archived_files, blocks

UPLOAD_DEADLINE = 24 * 3600.0
"""Seconds. A large model over a slow link takes its time; a link that stalls is noticed by its keepalive."""


PATH_KEYS: Mapping[str, str] = {"build": "path", "model": "directory"}
"""For kinds that own a directory: the key of their spec that names it."""


@dataclass(frozen=True, slots=True)
class Work:
    """What every step of one run shares.

    Arguments:
        cluster: Name of the cluster.
        workstation: The operator's machine.
        model_sources: Model name to its file on the operator's machine.
        shared_paths: For each node the paths that marks of other resources refer to, with those marks.
        keep_models: True when destroying leaves the weights in place.
        declared: The placements that stay.
        claimed: For each node the units of what is declared: no removal of something else touches them.
        unclear: Nodes on which other clusters have marks that cannot be read, and may share a build.
    """

    cluster: str
    workstation: Workstation
    model_sources: Mapping[str, Path]
    shared_paths: Mapping[str, Mapping[str, Sequence[Mark]]]
    keep_models: bool = False
    declared: frozenset[str] = frozenset()
    claimed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unclear: frozenset[str] = frozenset()

    def others(self, node: str, path: str, address: str) -> list[Mark]:
        """Return the marks of other resources, of any cluster, that refer to a path."""
        found = self.shared_paths.get(node, {}).get(path, ())
        return [mark for mark in found if (mark.cluster, mark.address) != (self.cluster, address)]


def next_generation(change: Change) -> int:
    """Return the generation a change makes."""
    return (change.mark.generation if change.mark else 0) + 1


def wanted(change: Change) -> Desired:
    """Return what a change that makes something wants."""
    if change.desired is None:
        raise OperationFailed("nothing is declared for it", where=change.address)
    return change.desired


def previous_generation(change: Change) -> Mapping[str, Json] | None:
    """Return what a change leaves behind to go back to: the last generation that was proved.

    The mark of an unfinished generation already names it; one that is made again as it was changes nothing.
    """
    old = change.mark
    if old is None:
        return None
    if not marks.is_finished(old) or old.spec_hash == wanted(change).spec_hash:
        found: Mapping[str, Json] | None = old.facts.get("previous")
        return found
    return {"spec": dict(old.spec), "objects": [dict(item) for item in old.objects]}


def begin(work: Work, session: Session, change: Change) -> None:
    """Leave the mark of something unfinished: it still owns what the last proved one owned."""
    old = change.mark
    marks.store(
        session,
        marks.mark_for(
            wanted(change),
            cluster=work.cluster,
            generation=next_generation(change),
            state=marks.UNFINISHED,
            objects=old.objects if old else (),
            facts={**(old.facts if old else {}), "previous": previous_generation(change)},
        ),
    )


def finish(
    work: Work,
    session: Session,
    change: Change,
    *,
    objects: Sequence[Mapping[str, Json]] = (),
    facts: Mapping[str, Json] | None = None,
) -> None:
    """Leave the mark of something proved."""
    marks.store(
        session,
        marks.mark_for(
            wanted(change),
            cluster=work.cluster,
            generation=next_generation(change),
            state=marks.PROVED,
            objects=tuple(objects),
            facts={**(facts or {}), "previous": _reachable(change, previous_generation(change))},
        ),
    )


def _reachable(change: Change, previous: Mapping[str, Json] | None) -> Mapping[str, Json] | None:
    """Return a generation to go back to, unless it is of units that go because they were renamed."""
    unit = wanted(change).spec.get("unit")
    return previous if previous is None or previous["spec"].get("unit") == unit else None


def put_text(session: Session, path: str, text: str, *, mode: int = 0o644) -> Mapping[str, Json]:
    """Write a small file and return its state as later observations will see it."""
    content = text.encode()
    answer = session.call(
        "put_file",
        {
            "path": path,
            "mode": mode,
            "uid": 0,
            "gid": 0,
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
        },
        upload=[content],
    )
    state: Mapping[str, Json] = answer["state"]
    return state


def systemd(session: Session, action: str, *units: str, deadline: float = 120.0) -> None:
    """Run one systemctl action.

    Raises:
        OperationFailed: systemd refused or the job failed; carries its words.
    """
    answer = session.call("systemd", {"action": action, "units": list(units)}, deadline=deadline)
    if answer["exit"] != 0:
        raise OperationFailed(
            f"systemctl {action} {' '.join(units)} failed",
            where=session.node,
            why=str(answer["stderr"]).strip(),
        )


def record_member(work: Work, context: StepContext, change: Change) -> None:
    """Write a node's member record; from then on destroy finds what hetctl leaves there for itself."""
    session = context.sessions[change.node]
    begin(work, session, change)
    session.call("write_members", {"cluster": work.cluster, "members": dict(wanted(change).spec)})
    prepare(session)
    finish(work, session, change)


def prepare(session: Session) -> None:
    """Keep the agent on a node, so that it starts faster, and make the key for secret fingerprints."""
    session.call("install", {"bundle": agent_bundle().sha256}, deadline=60)
    session.call("salt")


def forget_nodes(work: Work, context: StepContext, change: Change, gone: frozenset[str]) -> None:
    """Take nodes that were cleaned off the record of another one.

    Arguments:
        work: Of the run.
        context: Of the running step.
        change: Of the record to write, whatever the plan does to it.
        gone: The nodes that were cleaned.
    """
    session, desired = context.sessions[change.node], wanted(change)
    leaving = {name: entry for name, entry in desired.spec["leaving"].items() if name not in gone}
    spec = {**desired.spec, "leaving": leaving}
    session.call("write_members", {"cluster": work.cluster, "members": spec})
    finish(work, session, replace(change, desired=replace(desired, spec=spec)))


def forget_cluster(work: Work, context: StepContext, change: Change) -> None:  # noqa: ARG001 - all removals have one signature
    """Remove the member record and everything hetctl keeps of the cluster on a node."""
    session, mark = context.sessions[change.node], standing(change)
    for each in (mark, mark.stored):
        if each is not None:
            session.call("remove_cluster", {"cluster": each.cluster, "last": each.address})


def install_build(work: Work, context: StepContext, change: Change) -> None:
    """Put a compiled build in place on a node and prove that it runs there."""
    session, spec = context.sessions[change.node], wanted(change).spec
    path = spec["path"]
    begin(work, session, change)
    files = _present_tree(work, session, change)
    archive = work.workstation.build_archive(spec["key"])
    if files is None and change.action is Action.CREATE:
        files = _unmarked_tree(session, path, archive)
    if files is None:
        answer = session.call(
            "put_tree",
            {"path": path, "mode": 0o755},
            deadline=UPLOAD_DEADLINE,
            upload=_measured(archive, context, "sending the build"),
            stop=context.interrupted,
        )
        files = answer["files"]
    prove_installed(session, spec)
    finish(work, session, change, objects=[{"type": "tree", "path": path, "files": files}])


def _present_tree(work: Work, session: Session, change: Change) -> Sequence[Json] | None:
    """Return the file list of a directory that a mark vouches for, if it is whole."""
    path = wanted(change).spec["path"]
    known = [mark.objects for mark in work.others(change.node, path, change.address)]
    if change.mark is not None and (previous := change.mark.facts.get("previous")):
        known.append(tuple(previous["objects"]))
    for objects in known:
        for item in objects:
            if item.get("type") == "tree" and item.get("path") == path:
                state = session.call("observe", {"objects": [dict(item)]})["states"][0]
                if state.get("exists") and not any(
                    state.get(key) for key in ("missing", "different", "extra")
                ):
                    files: Sequence[Json] = item["files"]
                    return files
    return None


def _unmarked_tree(session: Session, path: str, archive: Path) -> Sequence[Json] | None:
    """Return the file list of a directory without a mark, if it is what would be put there.

    A build whose mark was lost may be in use: it is taken over as it lies, not replaced under its processes.
    """
    state = session.call("observe", {"objects": [{"type": "file", "path": path}]})["states"][0]
    if state.get("kind") != "directory":
        return None
    files: Sequence[Json] = session.call("hash_tree", {"path": path}, deadline=600)["files"]
    found = {item["path"]: item.get("sha256") for item in files if item["kind"] == "file"}
    return files if found == archived_files(archive) else None


def prove_installed(session: Session, spec: Mapping[str, Json]) -> None:
    """Prove that a node can run a build and that it is the one that was declared.

    Raises:
        ProofFailed: A library is missing or too old, or the binary says another version.
    """
    path = spec["path"]
    for binary in spec["binaries"]:
        answer = session.call("run", {"argv": ["ldd", f"{path}/{binary}"], "env": {}})
        text = f"{answer['stdout']}\n{answer['stderr']}"
        lacking = [line.strip() for line in text.splitlines() if "not found" in line]
        if lacking:
            raise ProofFailed(
                f"{binary} cannot run here",
                where=session.node,
                why="\n".join(lacking),
                fix="install the missing library, or compile on a node with an older C library (builds: on)",
            )
    answer = session.call("run", {"argv": [f"{path}/{spec['server_binary']}", "--version"], "env": {}})
    said = f"{answer['stderr']}\n{answer['stdout']}"
    version = parse_version(said)
    if version is None or (version.build, version.commit) != (spec["number"], spec["commit"]):
        found = f"build {version.build}, commit {version.commit}" if version else "no version"
        raise ProofFailed(
            f"the binary says {found}; declared are build {spec['number']}, commit {spec['commit']}",
            where=f"{session.node}:{path}",
            why="" if version else said.strip()[:400],
        )


def remove_build(work: Work, context: StepContext, change: Change) -> None:
    """Remove a build that no other resource refers to."""
    _remove_paths(work, context, change)


def remove_model(work: Work, context: StepContext, change: Change) -> None:
    """Remove a model's directory unless it is to be kept."""
    if not work.keep_models:
        _remove_paths(work, context, change)
    else:
        marks.erase(context.sessions[change.node], standing(change))


def _remove_paths(work: Work, context: StepContext, change: Change) -> None:
    session, mark = context.sessions[change.node], standing(change)
    for path in [*owned_paths(mark), *salvaged_paths(session, mark)]:
        _drop(work, session, change, path)
    marks.erase(session, mark)


def salvaged_paths(session: Session, mark: Mark) -> list[str]:
    """Return what lies where a mark that could not be read may have put it, under names like its own."""
    directories = list(mark.spec.get(salvage.SEARCHED, ()))
    for above in mark.spec.get(salvage.ABOVE, ()):
        spared = mark.spec[salvage.SPARED]
        directories += [f"{above}/{name}" for name in _names(session, above) if name not in spared]
    pattern = str(mark.spec.get(salvage.PATTERN, ""))
    return [
        f"{directory}/{name}"
        for directory in dict.fromkeys(directories)
        for name in _names(session, directory)
        if re.fullmatch(pattern, name)
    ]


def _names(session: Session, directory: str) -> list[str]:
    listed = session.call("run", {"argv": ["ls", "-1A", directory], "env": {}})
    return str(listed["stdout"]).splitlines() if listed["exit"] == 0 else []


def owned_paths(mark: Mark) -> list[str]:
    """Return the directories of a build's or model's present and previous generation."""
    key = PATH_KEYS.get(mark.kind)
    if key is None or key not in mark.spec:
        return []
    previous = mark.facts.get("previous")
    return list(dict.fromkeys([mark.spec[key], *([previous["spec"][key]] if previous else [])]))


def _drop(work: Work, session: Session, change: Change, path: str) -> None:
    """Remove a path that no other resource refers to, and the directory above it when that is empty then.

    A build may be another cluster's too: where one has marks that cannot be read, it stays.
    """
    if change.kind == "build" and change.node in work.unclear:
        return
    if not work.others(change.node, path, change.address):
        above = path.rpartition("/")[0]
        session.call("remove", {"paths": [path], "empty_directories": [above]}, deadline=600)


def superseded_paths(change: Change) -> list[str]:
    """Return the paths that a change leaves without any use: of the generation before the previous one."""
    old, key = change.mark, PATH_KEYS.get(change.kind)
    if old is None or change.desired is None or key is None:
        return []
    kept = {change.desired.spec[key]}
    if previous := previous_generation(change):
        kept.add(previous["spec"][key])
    return [path for path in owned_paths(old) if path not in kept]


def collect(work: Work, context: StepContext, change: Change) -> None:
    """Remove what neither the present nor the previous generation of a build or model uses."""
    for path in superseded_paths(change):
        _drop(work, context.sessions[change.node], change, path)


def standing(change: Change) -> Mark:
    """Return the mark that a change rests on."""
    if change.mark is None:
        raise OperationFailed("there is no mark to go by", where=change.address)
    return change.mark


def put_model(work: Work, context: StepContext, change: Change) -> None:
    """Put a model's file in place; one that is whole already is not sent again."""
    session, spec = context.sessions[change.node], wanted(change).spec
    begin(work, session, change)
    asked = {"objects": [{"type": "file", "path": spec["path"], "hash": True}]}
    state = session.call("observe", asked, deadline=1800, stop=context.interrupted)["states"][0]
    if not state.get("exists") or state.get("sha256") != spec["sha256"]:
        source = work.model_sources[spec["model"]]
        answer = send_file(
            session,
            source,
            spec["path"],
            sha256=spec["sha256"],
            deadline=UPLOAD_DEADLINE,
            progress=lambda done, total: context.progress(
                f"sending {source.name}", done=done, total=total, unit="bytes"
            ),
            stop=context.interrupted,
        )
        state = answer["state"]
    finish(work, session, change, objects=[{"type": "file", "path": spec["path"], "expect": dict(state)}])


def _measured(path: Path, context: StepContext, message: str) -> Iterator[bytes]:
    """Yield a file's blocks and report how far it is."""
    total, sent = path.stat().st_size, 0
    for block in blocks(path):
        yield block
        sent += len(block)
        context.progress(message, done=sent, total=total, unit="bytes")


def take_unit_away(session: Session, unit: str, unit_path: str) -> None:
    """Stop and disable a unit of ours and remove its file; all of it may be gone already."""
    state = session.call("observe", {"objects": [{"type": "unit", "name": unit}]})["states"][0]
    if state.get("load") not in (None, "", "not-found"):
        systemd(session, "stop", unit, deadline=180)
        systemd(session, "disable", unit)
    session.call("remove", {"paths": [unit_path], "empty_directories": []})
    systemd(session, "daemon-reload")
    if state.get("active") == "failed":
        systemd(session, "reset-failed", unit)
