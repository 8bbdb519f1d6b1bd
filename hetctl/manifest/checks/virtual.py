"""Virtual machines: what they run on and which cards they get. And nodes that other sections name."""

from __future__ import annotations

from hetctl.manifest.checks.hosts import LOCAL_BUILD
from hetctl.manifest.draft import Draft
from hetctl.manifest.lookup import find_host
from hetctl.manifest.nodes import Vm
from hetctl.manifest.wording import listed, named, quoted


def check_virtual(draft: Draft) -> None:
    """Check every virtual machine, and the nodes that builds name."""
    given: dict[tuple[str, str], str] = {}
    for name, vm in draft.cluster.vms.items():
        if vm.on in draft.cluster.vms:
            what = "itself" if vm.on == name else f"the VM {quoted(vm.on)}"
            draft.problems.add(
                "E228",
                f"{named('VM', name)} runs on {what}",
                ("vms", name, "on"),
                hint="name the node it runs on",
            )
        elif find_host(draft, vm.on, ("vms", name, "on")) is not None:
            _check_cards(draft, name, vm, given)
    for name, build in draft.cluster.builds.items():
        if build.on is not None and build.on != LOCAL_BUILD:
            find_host(draft, build.on, ("builds", name, "on"))
        for node in build.per_node:
            find_host(draft, node, ("builds", name, "perNode", node))


def _check_cards(draft: Draft, name: str, vm: Vm, given: dict[tuple[str, str], str]) -> None:
    if ("nodes", vm.on) in draft.broken:
        return
    cards = draft.cluster.nodes[vm.on].gpus
    for index, card in enumerate(vm.gpus):
        path = ("vms", name, "gpus", index)
        other = given.setdefault((vm.on, card), name)
        if card not in cards:
            hint = draft.problems.guess(card, cards) or (
                f"it has {listed(cards, word='and')}" if cards else ""
            )
            draft.problems.add("E205", f"{named('node', vm.on)} has no card {quoted(card)}", path, hint=hint)
        elif cards[card].use != "passthrough":
            draft.problems.add(
                "E213", f"the card {quoted(card)} is not declared for passing through", path,
                hint=f"add `use: passthrough` to it in {named('node', vm.on)}",
            )  # fmt: skip
        elif other != name:
            draft.problems.add(
                "E213",
                f"the card {quoted(card)} already goes to {named('VM', other)}",
                path,
                hint="a card has one user",
            )
