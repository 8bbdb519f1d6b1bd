"""What is wrong with a file as YAML (E0xx)."""

from __future__ import annotations

from typing import Final

from hetctl.manifest.codes.code import Code

CODES: Final[dict[str, Code]] = {
    "E001": Code(
        title="cannot read a file",
        meaning="The file does not exist, may not be read, or the directory holds no *.yaml and no *.yml.",
        example="",
        fix="Check the path. Without an argument hetctl reads ./cluster.yaml.",
    ),
    "E002": Code(
        title="too large",
        meaning="All files of a manifest together may have 256 KiB, enough for a few hundred nodes.",
        example="",
        fix="Name large things in the manifest instead of holding them in it.",
    ),
    "E003": Code(
        title="not text",
        meaning=(
            "The file is not UTF-8, or holds control characters or marks that change what a reader sees."
        ),
        example='name: "den\u0007"\n',
        fix="Save it as UTF-8 and remove the character; in double quotes it can be an escape.",
    ),
    "E004": Code(
        title="empty",
        meaning="The file holds nothing but comments.",
        example="# nothing here\n",
        fix="Write the manifest, or do not name the file.",
    ),
    "E005": Code(
        title="not YAML",
        meaning=(
            "The text cannot be read as YAML. The message says where the reading stopped; the cause"
            " may stand a line above."
        ),
        example="nodes: {atlas: {address: 192.168.10.5}\n",
        fix="Close what is open, align what belongs together, quote what is text.",
    ),
    "E006": Code(
        title="tab",
        meaning="YAML does not allow tabs as indentation.",
        example="nodes:\n\tatlas: {}\n",
        fix="Indent with spaces.",
    ),
    "E007": Code(
        title="key twice",
        meaning="A mapping holds one key twice; YAML would keep one of them, and not say which.",
        example="name: den\nname: attic\n",
        fix="Keep one.",
    ),
    "E008": Code(
        title="tag",
        meaning="Tags (!name) make YAML construct objects. Only !!str is allowed.",
        example="name: !secret den\n",
        fix="Remove the tag.",
    ),
    "E009": Code(
        title="unknown alias",
        meaning="*name refers to an anchor &name that does not stand before it in this document.",
        example="name: *den\n",
        fix="Define the anchor first. Anchors do not reach over files.",
    ),
    "E010": Code(
        title="endless alias",
        meaning="An alias stands inside what it stands for.",
        example="x-loop: &loop {again: *loop}\n",
        fix="Write out one of the two.",
    ),
    "E011": Code(
        title="too deep",
        meaning="Values are nested more than 40 levels deep; a manifest needs eight.",
        example="x-deep: " + "[" * 50 + "]" * 50 + "\n",
        fix="Flatten it.",
    ),
    "E012": Code(
        title="too many values",
        meaning=(
            "A manifest may hold 20,000 keys and values, aliases written out, and a file 1,000 documents. A"
            " hundred nodes take about three thousand."
        ),
        example="x-a: &a [" + "1, " * 50 + "]\nx-b: &b [" + "*a, " * 50 + "]\nx-c: [" + "*b, " * 50 + "]\n",
        fix="Use fewer aliases, or divide the cluster.",
    ),
    "E013": Code(
        title="merge of no mapping",
        meaning="`<<:` merges mappings, and this is none.",
        example="x-a: {<<: [1, 2]}\n",
        fix="Point it at a mapping.",
    ),
    "E014": Code(
        title="key is no text",
        meaning="Keys are names. YAML takes 1, true and null as something else.",
        example="nodes: {1: {address: 192.168.10.5}}\n",
        fix="Put the key in quotes.",
    ),
    "E015": Code(
        title="not a mapping",
        meaning="The file holds a list or a single value.",
        example="- nodes\n",
        fix="Begin with `apiVersion: hetctl/v1`.",
    ),
    "E016": Code(
        title="number too long",
        meaning="A number of more than 40 digits.",
        example="x-n: " + "1" * 50 + "\n",
        fix="Quote it if it is text.",
    ),
    "E017": Code(
        title="YAML version",
        meaning="Manifests are YAML 1.2, whatever a %YAML line says.",
        example="%YAML 1.1\n---\nname: den\n",
        fix="Remove the line.",
    ),
    "E018": Code(
        title="control character",
        meaning="An escape puts a control character into a value.",
        example='name: "den\\x07"\n',
        fix="Remove the escape.",
    ),
    "E099": Code(
        title="more problems",
        meaning="Only the first 200 problems are listed.",
        example="",
        fix="Mend those first.",
    ),
}
