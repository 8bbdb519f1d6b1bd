"""What is worth a warning in a valid manifest (W3xx)."""

from __future__ import annotations

from typing import Final

from hetctl.manifest.codes.code import Code

CODES: Final[dict[str, Code]] = {
    "W301": Code(
        title="no such file",
        meaning="A file that apply will need is not there. It need not be where a manifest is only checked.",
        example="",
        fix="Put it there, or correct the path: it is relative to the manifest file.",
    ),
    "W302": Code(
        title="open to everyone",
        meaning="The server listens on an address that others can reach and asks for no key.",
        example="",
        fix="Give it `server.apiKeys`, or listen on 127.0.0.1.",
    ),
    "W303": Code(
        title="unprotected workers",
        meaning=(
            "llama.cpp's RPC has no authentication and no encryption, and with `exposure: address` nothing"
            " but the network keeps strangers out."
        ),
        example="",
        fix="Use `exposure: firewall`, or a network of their own.",
    ),
    "W304": Code(
        title="first layers taken twice",
        meaning="`cpu` in `layers` gets the first layers whole, and nCpuMoe counts from the first as well.",
        example="",
        fix="Use one of the two.",
    ),
    "W305": Code(
        title="card that nothing drives yet",
        meaning=(
            "hetctl compiles llama.cpp for processors only so far. A placement on a card parses and is"
            " checked, and `apply` refuses it (BACKEND_MISSING) before it changes anything."
        ),
        example="",
        fix="Use CPU workers for now.",
    ),
    "W306": Code(
        title="not a GGUF file",
        meaning="The model's file does not begin as files of the format GGUF do, so no server can load it.",
        example="",
        fix="Name a GGUF file; llama.cpp's convert_hf_to_gguf.py makes one of other formats.",
    ),
}
