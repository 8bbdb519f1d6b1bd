"""nftables: reading one table and loading a script."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from hetctl.agent import arguments as arg
from hetctl.agent.failures import Failure, bad_request
from hetctl.agent.processes import capture, find_program, need_program

if TYPE_CHECKING:
    from hetctl.agent.context import Context

FAMILIES = ("ip", "ip6", "inet", "arp", "bridge", "netdev")
NFT_FIX = "install nftables on the node"


def observe_table(context: Context, item: dict[str, Any]) -> dict[str, Any]:
    """Answer the `nft_table` object of `observe`: the table's text without counters."""
    family, name = arg.text(item, "family"), arg.text(item, "name")
    if family not in FAMILIES or not name.replace("_", "").replace("-", "").isalnum():
        raise bad_request(f"not a table: {family} {name}")
    nft = find_program(context, "nft")
    if nft is None:
        return {"exists": False, "unavailable": "the program nft is not on this node"}
    done = capture(context, [nft, "-s", "list", "table", family, name])
    if done.exit == 0:
        text = done.stdout.decode(errors="replace")
        return {"exists": True, "text": text, "sha256": hashlib.sha256(done.stdout).hexdigest()}
    said = done.stderr.decode(errors="replace").strip()
    if "No such file or directory" in said:
        return {"exists": False}
    raise Failure("nft does not show the table", why=said)


def nft(context: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """Load a script in one transaction: all of it or nothing."""
    script = arg.text(arguments, "script")
    done = capture(context, [need_program(context, "nft", NFT_FIX), "-f", "-"], script.encode())
    return {"exit": done.exit, "stderr": done.stderr.decode(errors="replace")}
