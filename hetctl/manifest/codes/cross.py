"""What is wrong between the parts of a manifest (E2xx)."""

from __future__ import annotations

from typing import Final

from hetctl.manifest.codes.code import Code

CODES: Final[dict[str, Code]] = {
    "E201": Code(
        title="declared twice",
        meaning="A name is declared in two files, or for two things of one kind.",
        example="nodes: {bench: {gpus: {left: {match: RTX 3090}}}}\n",
        fix="Rename or remove one.",
    ),
    "E202": Code(
        title="in two files",
        meaning="A key that holds for the whole cluster stands in two files.",
        example="",
        fix="Keep one.",
    ),
    "E203": Code(
        title="no name",
        meaning="No file gives the cluster its name, which marks what hetctl makes on nodes.",
        example="name: \n",
        fix="Add `name: …` to one file.",
    ),
    "E204": Code(
        title="unknown node",
        meaning="There is no node or VM of this name.",
        example="placements: {chat: {devices: [atlsa/fast]}}\n",
        fix="Correct the name, or declare the node.",
    ),
    "E205": Code(
        title="unknown device",
        meaning="The node has no card and no CPU worker of this name, or this is not node/name.",
        example="placements: {chat: {devices: [atlas/slow]}}\n",
        fix="Correct it, or declare the device.",
    ),
    "E206": Code(
        title="unknown build",
        meaning="There is no build of this name, or none at all.",
        example="placements: {chat: {build: mian}}\n",
        fix="Correct the name, or declare the build.",
    ),
    "E207": Code(
        title="unknown model",
        meaning="There is no model of this name.",
        example="placements: {chat: {model: gema}}\n",
        fix="Correct the name, or declare the model.",
    ),
    "E208": Code(
        title="which build?",
        meaning="Several builds are declared, so each placement must say which one it uses.",
        example="builds: {other: {version: b1, source: {archive: other.tar.gz}}}\n",
        fix="Add `build:` to the placement.",
    ),
    "E210": Code(
        title="device twice",
        meaning="A placement lists a device twice.",
        example="placements: {chat: {devices: [atlas/fast, atlas/fast]}}\n",
        fix="Remove one.",
    ),
    "E211": Code(
        title="device in two placements",
        meaning=(
            "Two running placements would use one card or CPU worker. A worker serves one head, and"
            " memory planned for one model would be taken by the other."
        ),
        example=(
            "placements: {more: {model: gemma, devices: [bench/left], server: {node: atlas, port: 8081}}}\n"
        ),
        fix="Use another device, or `shared: true` on the card with explicit layers in both.",
    ),
    "E212": Code(
        title="too many devices",
        meaning="llama.cpp drives at most 16 devices and 16 RPC endpoints in one process.",
        example=(
            "nodes: {bench: {cpuWorkers: {" + ", ".join(f"w{n}: {{}}" for n in range(17)) + "}}}\n"
            "placements: {chat: {devices: [" + ", ".join(f"bench/w{n}" for n in range(17)) + "]}}\n"
        ),
        fix="Use fewer.",
    ),
    "E213": Code(
        title="card passed through",
        meaning="A card that goes to a VM cannot be used by the node it is in, nor go to two VMs.",
        example=(
            "nodes: {atlas: {gpus: {old: {match: GTX 1080 Ti, use: passthrough}}}}\n"
            "placements: {chat: {devices: [atlas/old]}}\n"
        ),
        fix="Use it as vm/name, or declare it with `use: passthrough` where it is missing.",
    ),
    "E214": Code(
        title="head's own CPU",
        meaning=(
            "`<head>/cpu` means that llama-server computes on its own CPU without any offload. It"
            " stands alone, and only for the head's node."
        ),
        example="placements: {chat: {devices: [atlas/fast, atlas/cpu]}}\n",
        fix="Use a CPU worker, or `cpu` in `layers`.",
    ),
    "E215": Code(
        title="layers do not fit the devices",
        meaning=(
            "`layers` gives every device of the placement a number, and `cpu` those that stay with the head."
        ),
        example="placements: {chat: {layers: {atlas/fast: 10}}}\n",
        fix="Name every device.",
    ),
    "E216": Code(
        title="keys that exclude each other",
        meaning=(
            "The way of dividing a model does not go with another key: split mode none with several"
            " devices, counted layers in split modes row and tensor, shares in the others, nCpuMoe"
            " with several devices and automatic layers (it empties the first layers, which all lie"
            " on the first card)."
        ),
        example="placements: {chat: {nCpuMoe: 4}}\n",
        fix="Do as the message says.",
    ),
    "E217": Code(
        title="mainGpu elsewhere",
        meaning="mainGpu is not one of the placement's devices.",
        example="placements: {chat: {mainGpu: atlas/slow}}\n",
        fix="Name one of them.",
    ),
    "E218": Code(
        title="port taken",
        meaning="Two processes of one machine would listen on one port.",
        example="placements: {more: {model: gemma, devices: [atlas/cpu]}}\n",
        fix="Give one of them another port.",
    ),
    "E219": Code(
        title="bad address",
        meaning=(
            "An address, network or host name that cannot be one, or not here: llama.cpp's RPC"
            " takes IPv4 addresses only."
        ),
        example="nodes: {atlas: {rpcAddress: atlas.lan}}\n",
        fix="Correct it.",
    ),
    "E220": Code(
        title="one machine twice",
        meaning="Two nodes have the same address and SSH port, or both are local.",
        example="nodes: {other: {address: 192.168.10.5}}\n",
        fix="Declare the machine once, with all its devices.",
    ),
    "E221": Code(
        title="no address",
        meaning="hetctl cannot know how to reach the node.",
        example="nodes: {other: {}}\n",
        fix="Add `address:` or `connection: local`.",
    ),
    "E222": Code(
        title="not reachable",
        meaning="A placement spans machines, and one of them is known only by its loopback address.",
        example="nodes: {here: {connection: local}}\nplacements: {chat: {server: {node: here}}}\n",
        fix="Give it an rpcAddress.",
    ),
    "E223": Code(
        title="argument repeats a key",
        meaning="The argument is one that hetctl renders from a key.",
        example="placements: {chat: {args: [--ctx-size, '4096']}}\n",
        fix="Use the key.",
    ),
    "E224": Code(
        title="argument refused",
        meaning="The argument would make llama-server something else than one placement.",
        example="placements: {chat: {args: [--models-dir, /models]}}\n",
        fix="Remove it.",
    ),
    "E225": Code(
        title="variable repeats a key",
        meaning="The environment variable decides what a key decides.",
        example="placements: {chat: {env: {CUDA_VISIBLE_DEVICES: '1'}}}\n",
        fix="Use the key.",
    ),
    "E226": Code(
        title="CMake option refused",
        meaning="hetctl sets this option itself.",
        example="builds: {main: {cmake: {GGML_NATIVE: true}}}\n",
        fix="Do as the message says.",
    ),
    "E227": Code(
        title="reserved name",
        meaning="`cpu` is the head's own CPU, `local` the machine hetctl runs on.",
        example="nodes: {bench: {cpuWorkers: {cpu: {}}}}\n",
        fix="Rename it.",
    ),
    "E228": Code(
        title="VM on a VM",
        meaning="A VM runs on a node, not on a VM and not on itself.",
        example="vms: {pascal: {on: pascal}}\n",
        fix="Name the node.",
    ),
    "E229": Code(
        title="which card?",
        meaning="Two declarations mean the same card, or nth and of do not go together.",
        example="nodes: {atlas: {gpus: {second: {match: RTX 5060 Ti}}}}\n",
        fix="Tell equal cards apart by uuid, pci, memory, or nth and of.",
    ),
    "E230": Code(
        title="not for this task",
        meaning="The key means nothing for the placement's task.",
        example="placements: {chat: {pooling: mean}}\n",
        fix="Remove it, or change the task.",
    ),
    "E231": Code(
        title="KV format needs flash attention",
        meaning="Quantised values in the KV cache need flash attention.",
        example="placements: {chat: {kvCache: {v: q8_0}, flashAttention: off}}\n",
        fix="Turn it on, or use f16.",
    ),
    "E232": Code(
        title="ubatch above batch",
        meaning="llama.cpp computes a batch in parts of ubatch tokens.",
        example="placements: {chat: {ubatch: 4096}}\n",
        fix="Raise batch or lower ubatch.",
    ),
    "E233": Code(
        title="layers do not add up to the model",
        meaning=(
            "The numbers in `layers` and the repeating layers of the model file differ. Found only where the"
            " file is there to be read."
        ),
        example="",
        fix="Change the numbers as the message says, or use `layers: auto`.",
    ),
    "E234": Code(
        title="file that is not there",
        meaning=(
            "A model or source archive that a placement needs cannot be read on the operator's machine."
            " `hetctl validate` only warns (W301): it may run where the files are not."
        ),
        example="",
        fix="Put the file there, or correct its name.",
    ),
    "E235": Code(
        title="directory that services cannot see",
        meaning=(
            "llama.cpp runs without access to /home, /root, /run/user and the machine's /tmp, so its builds"
            " and models cannot lie there."
        ),
        example="nodes: {bench: {paths: {models: /home/ops/models}}}\n",
        fix="Use a directory elsewhere, such as /srv/models or /data.",
    ),
    "E240": Code(
        title="old name that is not free",
        meaning=(
            "`renamedFrom` names what the object was called before. That name is still declared, or two"
            " objects claim it."
        ),
        example="builds: {other: {version: b11434, source: {archive: a}, renamedFrom: main}}\n",
        fix="Remove `renamedFrom` once the rename was applied.",
    ),
}
