"""What is wrong with the shape of a manifest (E1xx)."""

from __future__ import annotations

from typing import Final

from hetctl.manifest.codes.code import Code

CODES: Final[dict[str, Code]] = {
    "E101": Code(
        title="unknown key",
        meaning="The key does not exist here. Keys that begin with x- are free everywhere.",
        example="placements: {chat: {contxt: 4096}}\n",
        fix="Correct the key; the reference lists all of them.",
    ),
    "E102": Code(
        title="missing key",
        meaning="The object is not complete without this key.",
        example="models: {other: {sha256: " + "0" * 64 + "}}\n",
        fix="Add it.",
    ),
    "E103": Code(
        title="wrong kind of value",
        meaning=(
            "A list, mapping, number or text stands where another of them belongs. YAML 1.2 takes"
            " 1.10 as the number 1.1, 0644 as 644, and yes, no, on and off as text."
        ),
        example="builds: {main: {version: 1.10}}\n",
        fix="Quote what is text; write true and false for yes and no.",
    ),
    "E104": Code(
        title="unknown value",
        meaning="The key takes one of a few words.",
        example="placements: {chat: {flashAttention: maybe}}\n",
        fix="Use one of them.",
    ),
    "E105": Code(
        title="wrong form",
        meaning=(
            "The text does not have the form this key needs: a size such as 16GiB, a time such as"
            " 10m, a power such as 180W, hexadecimal digits, an absolute path."
        ),
        example="nodes: {atlas: {gpus: {fast: {memory: 16GB}}}}\n",
        fix="Write it as the message says. Sizes are powers of 1024.",
    ),
    "E106": Code(
        title="out of range",
        meaning="The number is too small or too large.",
        example="placements: {chat: {server: {port: 70000}}}\n",
        fix="Use one in the range.",
    ),
    "E107": Code(
        title="empty",
        meaning="An empty text, list or mapping where something is needed.",
        example="placements: {chat: {devices: []}}\n",
        fix="Fill it, or remove the key.",
    ),
    "E108": Code(
        title="no value",
        meaning="A key without a value. Often what follows is not indented.",
        example="placements: {chat: {server: }}\n",
        fix="Give it a value, or remove the key; an empty mapping is {}.",
    ),
    "E109": Code(
        title="not a name",
        meaning=(
            "Names become part of unit names and addresses: lower-case letters, digits and hyphens."
            " Builds and models may also have capitals, dots and underscores."
        ),
        example="placements: {Chat_1: {model: gemma}}\n",
        fix="Rename it.",
    ),
    "E110": Code(
        title="one of several keys",
        meaning="Exactly one of these keys must be there.",
        example="placements: {chat: {server: {apiKeys: {me: {env: CHAT_KEY, file: chat.key}}}}}\n",
        fix="Keep one.",
    ),
    "E111": Code(
        title="secret written out",
        meaning="Manifests live in git, so they refer to secrets and never hold them.",
        example="placements: {chat: {server: {apiKeys: {me: sk-1234}}}}\n",
        fix=(
            "Write {env: NAME}, {file: path} or {command: [program, argument]}, and change the"
            " secret: it has been seen."
        ),
    ),
    "E112": Code(
        title="unknown format",
        meaning="This hetctl reads manifests of the format hetctl/v1.",
        example="apiVersion: hetctl/v2\n",
        fix="Write `apiVersion: hetctl/v1` and `kind: Cluster`.",
    ),
}
