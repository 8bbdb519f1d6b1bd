'''Every code of a manifest error that can be explained: meaning, an example that has it, and the fix.

Codes are stable. E0xx is YAML, E1xx shape, E2xx what the parts say about each other; E9xx, what is not available
yet, is the table in `hetctl.manifest.availability`.

Examples of E1xx and E2xx are fragments: the rest of the manifest is as in the README.
'''

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Code:
    """What a person should know about one code.

    Arguments:
        title: A few words.
        meaning: What is wrong, and why it matters where that is not plain.
        example: YAML that has it; empty where no text can show it.
        fix: What to do.
    """

    title: str
    meaning: str
    example: str
    fix: str


CODES: Final[dict[str, Code]] = {
    "E001": Code(
        "cannot read a file", "The file does not exist, may not be read, or the directory holds no *.yaml and no *.yml.",
        "", "Check the path. Without an argument hetctl reads ./cluster.yaml.",
    ),
    "E002": Code(
        "too large", "All files of a manifest together may have 256 KiB, enough for a few hundred nodes.",
        "", "Name large things in the manifest instead of holding them in it.",
    ),
    "E003": Code(
        "not text", "The file is not UTF-8, or holds control characters or marks that change what a reader sees.",
        'name: "den\x07"\n', "Save it as UTF-8 and remove the character; in double quotes it can be an escape.",
    ),
    "E004": Code("empty", "The file holds nothing but comments.", "# nothing here\n", "Write the manifest, or do not name the file."),
    "E005": Code(
        "not YAML", "The text cannot be read as YAML. The message says where the reading stopped; the cause may stand a line above.",
        "nodes: {atlas: {address: 192.168.10.5}\n", "Close what is open, align what belongs together, quote what is text.",
    ),
    "E006": Code("tab", "YAML does not allow tabs as indentation.", "nodes:\n\tatlas: {}\n", "Indent with spaces."),
    "E007": Code(
        "key twice", "A mapping holds one key twice; YAML would keep one of them, and not say which.",
        "name: den\nname: attic\n", "Keep one.",
    ),
    "E008": Code("tag", "Tags (!name) make YAML construct objects. Only !!str is allowed.", "name: !secret den\n", "Remove the tag."),
    "E009": Code("unknown alias", "*name refers to an anchor &name that does not stand before it in this document.",
                 "name: *den\n", "Define the anchor first. Anchors do not reach over files."),
    "E010": Code("endless alias", "An alias stands inside what it stands for.", "x-loop: &loop {again: *loop}\n", "Write out one of the two."),
    "E011": Code("too deep", "Values are nested more than 40 levels deep; a manifest needs eight.",
                 "x-deep: " + "[" * 50 + "]" * 50 + "\n", "Flatten it."),
    "E012": Code(
        "aliases too large", "With aliases written out, the file would hold more than 100,000 values.",
        "x-a: &a [" + "1, " * 50 + "]\nx-b: &b [" + "*a, " * 50 + "]\nx-c: [" + "*b, " * 50 + "]\n", "Use fewer aliases.",
    ),
    "E013": Code("merge of no mapping", "`<<:` merges mappings, and this is none.", "x-a: {<<: [1, 2]}\n", "Point it at a mapping."),
    "E014": Code(
        "key is no text", "Keys are names. YAML takes 1, true and null as something else.",
        "nodes: {1: {address: 192.168.10.5}}\n", "Put the key in quotes.",
    ),
    "E015": Code("not a mapping", "The file holds a list or a single value.", "- nodes\n", "Begin with `apiVersion: hetctl/v1`."),
    "E016": Code("number too long", "A number of more than 40 digits.", "x-n: " + "1" * 50 + "\n", "Quote it if it is text."),
    "E017": Code("YAML version", "Manifests are YAML 1.2, whatever a %YAML line says.", "%YAML 1.1\n---\nname: den\n", "Remove the line."),
    "E018": Code("control character", "An escape puts a control character into a value.", 'name: "den\\x07"\n', "Remove the escape."),
    "E099": Code("more problems", "Only the first 200 problems are listed.", "", "Mend those first."),
    "E101": Code("unknown key", "The key does not exist here. Keys that begin with x- are free everywhere.",
                 "placements: {chat: {contxt: 4096}}\n", "Correct the key; the reference lists all of them."),
    "E102": Code("missing key", "The object is not complete without this key.",
                 "models: {other: {sha256: " + "0" * 64 + "}}\n", "Add it."),
    "E103": Code(
        "wrong kind of value", "A list, mapping, number or text stands where another of them belongs. YAML 1.2 takes"
        " 1.10 as the number 1.1, 0644 as 644, and yes, no, on and off as text.",
        "builds: {main: {version: 1.10}}\n", "Quote what is text; write true and false for yes and no.",
    ),
    "E104": Code("unknown value", "The key takes one of a few words.", "placements: {chat: {flashAttention: maybe}}\n", "Use one of them."),
    "E105": Code(
        "wrong form", "The text does not have the form this key needs: a size such as 16GiB, a time such as 10m, a"
        " power such as 180W, hexadecimal digits, an absolute path.",
        "nodes: {atlas: {gpus: {fast: {memory: 16GB}}}}\n", "Write it as the message says. Sizes are powers of 1024.",
    ),
    "E106": Code("out of range", "The number is too small or too large.", "placements: {chat: {server: {port: 70000}}}\n", "Use one in the range."),
    "E107": Code("empty", "An empty text, list or mapping where something is needed.", "placements: {chat: {devices: []}}\n", "Fill it, or remove the key."),
    "E108": Code("no value", "A key without a value. Often what follows is not indented.", "placements: {chat: {server: }}\n", "Give it a value, or remove the key; an empty mapping is {}."),
    "E109": Code(
        "not a name", "Names become part of unit names and addresses: lower-case letters, digits and hyphens. Builds and"
        " models may also have capitals, dots and underscores.",
        "placements: {Chat_1: {model: gemma}}\n", "Rename it.",
    ),
    "E110": Code("one of several keys", "Exactly one of these keys must be there.",
                 "placements: {chat: {server: {apiKeys: {me: {env: CHAT_KEY, file: chat.key}}}}}\n", "Keep one."),
    "E111": Code(
        "secret written out", "Manifests live in git, so they refer to secrets and never hold them.",
        "placements: {chat: {server: {apiKeys: {me: sk-1234}}}}\n",
        "Write {env: NAME}, {file: path} or {command: [program, argument]}, and change the secret: it has been seen.",
    ),
    "E112": Code("unknown format", "This hetctl reads manifests of the format hetctl/v1.", "apiVersion: hetctl/v2\n", "Write `apiVersion: hetctl/v1` and `kind: Cluster`."),
    "E201": Code("declared twice", "A name is declared in two files, or for two things of one kind.",
                 "nodes: {bench: {gpus: {left: {match: RTX 3090}}}}\n", "Rename or remove one."),
    "E202": Code("in two files", "A key that holds for the whole cluster stands in two files.", "", "Keep one."),
    "E203": Code("no name", "No file gives the cluster its name, which marks what hetctl makes on nodes.", "name: \n", "Add `name: …` to one file."),
    "E204": Code("unknown node", "There is no node or VM of this name.", "placements: {chat: {devices: [atlsa/fast]}}\n", "Correct the name, or declare the node."),
    "E205": Code("unknown device", "The node has no card and no CPU worker of this name, or this is not node/name.",
                 "placements: {chat: {devices: [atlas/slow]}}\n", "Correct it, or declare the device."),
    "E206": Code("unknown build", "There is no build of this name, or none at all.", "placements: {chat: {build: mian}}\n", "Correct the name, or declare the build."),
    "E207": Code("unknown model", "There is no model of this name.", "placements: {chat: {model: gema}}\n", "Correct the name, or declare the model."),
    "E208": Code("which build?", "Several builds are declared, so each placement must say which one it uses.",
                 "builds: {other: {version: b1, source: {archive: other.tar.gz}}}\n", "Add `build:` to the placement."),
    "E210": Code("device twice", "A placement lists a device twice.", "placements: {chat: {devices: [atlas/fast, atlas/fast]}}\n", "Remove one."),
    "E211": Code(
        "device in two placements", "Two running placements would use one card or CPU worker. A worker serves one head,"
        " and memory planned for one model would be taken by the other.",
        "placements: {more: {model: gemma, devices: [bench/left], server: {node: atlas, port: 8081}}}\n",
        "Use another device, or `shared: true` on the card with explicit layers in both.",
    ),
    "E212": Code(
        "too many devices", "llama.cpp drives at most 16 devices and 16 RPC endpoints in one process.",
        "nodes: {bench: {cpuWorkers: {" + ", ".join(f"w{n}: {{}}" for n in range(17)) + "}}}\n"
        "placements: {chat: {devices: [" + ", ".join(f"bench/w{n}" for n in range(17)) + "]}}\n", "Use fewer.",
    ),
    "E213": Code(
        "card passed through", "A card that goes to a VM cannot be used by the node it is in, nor go to two VMs.",
        "nodes: {atlas: {gpus: {old: {match: GTX 1080 Ti, use: passthrough}}}}\nplacements: {chat: {devices: [atlas/old]}}\n",
        "Use it as vm/name, or declare it with `use: passthrough` where it is missing.",
    ),
    "E214": Code(
        "head's own CPU", "`<head>/cpu` means that llama-server computes on its own CPU without any offload. It stands"
        " alone, and only for the head's node.",
        "placements: {chat: {devices: [atlas/fast, atlas/cpu]}}\n", "Use a CPU worker, or `cpu` in `layers`.",
    ),
    "E215": Code(
        "layers do not fit the devices", "`layers` gives every device of the placement a number, and `cpu` those that stay"
        " with the head.",
        "placements: {chat: {layers: {atlas/fast: 10}}}\n", "Name every device.",
    ),
    "E216": Code(
        "keys that exclude each other", "The way of dividing a model does not go with another key: split mode none with several"
        " devices, counted layers in split modes row and tensor, shares in the others, nCpuMoe with several devices and"
        " automatic layers (it empties the first layers, which all lie on the first card).",
        "placements: {chat: {nCpuMoe: 4}}\n", "Do as the message says.",
    ),
    "E217": Code("mainGpu elsewhere", "mainGpu is not one of the placement's devices.", "placements: {chat: {mainGpu: atlas/slow}}\n", "Name one of them."),
    "E218": Code(
        "port taken", "Two processes of one machine would listen on one port.",
        "placements: {more: {model: gemma, devices: [atlas/cpu]}}\n", "Give one of them another port.",
    ),
    "E219": Code(
        "bad address", "An address, network or host name that cannot be one, or not here: llama.cpp's RPC takes IPv4"
        " addresses only.",
        "nodes: {atlas: {rpcAddress: atlas.lan}}\n", "Correct it.",
    ),
    "E220": Code("one machine twice", "Two nodes have the same address and SSH port, or both are local.",
                 "nodes: {other: {address: 192.168.10.5}}\n", "Declare the machine once, with all its devices."),
    "E221": Code("no address", "hetctl cannot know how to reach the node.", "nodes: {other: {}}\n", "Add `address:` or `connection: local`."),
    "E222": Code(
        "not reachable", "A placement spans machines, and one of them is known only by its loopback address.",
        "nodes: {here: {connection: local}}\nplacements: {chat: {server: {node: here}}}\n", "Give it an rpcAddress.",
    ),
    "E223": Code("argument repeats a key", "The argument is one that hetctl renders from a key.", "placements: {chat: {args: [--ctx-size, '4096']}}\n", "Use the key."),
    "E224": Code("argument refused", "The argument would make llama-server something else than one placement.",
                 "placements: {chat: {args: [--models-dir, /models]}}\n", "Remove it."),
    "E225": Code("variable repeats a key", "The environment variable decides what a key decides.",
                 "placements: {chat: {env: {CUDA_VISIBLE_DEVICES: '1'}}}\n", "Use the key."),
    "E226": Code("CMake option refused", "hetctl sets this option itself.", "builds: {main: {cmake: {GGML_NATIVE: true}}}\n", "Do as the message says."),
    "E227": Code("reserved name", "`cpu` is the head's own CPU, `local` the machine hetctl runs on.",
                 "nodes: {bench: {cpuWorkers: {cpu: {}}}}\n", "Rename it."),
    "E228": Code("VM on a VM", "A VM runs on a node, not on a VM and not on itself.", "vms: {pascal: {on: pascal}}\n", "Name the node."),
    "E229": Code(
        "which card?", "Two declarations mean the same card, or nth and of do not go together.",
        "nodes: {atlas: {gpus: {second: {match: RTX 5060 Ti}}}}\n", "Tell equal cards apart by uuid, pci, memory, or nth and of.",
    ),
    "E230": Code("not for this task", "The key means nothing for the placement's task.", "placements: {chat: {pooling: mean}}\n", "Remove it, or change the task."),
    "E231": Code("KV format needs flash attention", "Quantised values in the KV cache need flash attention.",
                 "placements: {chat: {kvCache: {v: q8_0}, flashAttention: off}}\n", "Turn it on, or use f16."),
    "E232": Code("ubatch above batch", "llama.cpp computes a batch in parts of ubatch tokens.", "placements: {chat: {ubatch: 4096}}\n", "Raise batch or lower ubatch."),
}  # fmt: skip
"""All codes of errors, E9xx apart."""

EXAMPLE_BASE: Final = """\
apiVersion: hetctl/v1
kind: Cluster
name: den
nodes:
  atlas: {address: 192.168.10.5, gpus: {fast: {match: RTX 5060 Ti}}}
  bench: {address: 192.168.10.9, cpuWorkers: {left: {threads: 4}}}
builds:
  main: {version: b11434, source: {archive: llama.cpp.tar.gz}}
models:
  gemma: {source: gemma.gguf}
placements:
  chat: {model: gemma, devices: [atlas/fast, bench/left]}
"""
"""What examples are fragments of."""
