import pytest

from hetctl.manifest.cluster import ManifestFile
from hetctl.manifest.flags import FLAG_KEYS, REFUSED_FLAGS, RENDERED_OPTIONS, VARIABLE_KEYS
from hetctl.manifest.shape import KINDS
from hetctl.manifest.source import KeyPath


def _exists(path: KeyPath) -> bool:
    schema = ManifestFile.model_json_schema()
    body = schema["$defs"]["Placement"]
    for step in path:
        if step not in body.get("properties", {}):
            return False
        below = body["properties"][step]
        options = [below, *below.get("anyOf", ())]
        references = [option["$ref"] for option in options if "$ref" in option]
        body = schema["$defs"][references[0].rpartition("/")[2]] if references else {}
    return True


@pytest.mark.parametrize("key", sorted({*FLAG_KEYS.values(), *VARIABLE_KEYS.values()}))
def test_every_key_that_is_named_exists(key: str) -> None:
    assert "placements" in KINDS
    assert _exists(tuple(key.split(".")))


def test_no_flag_is_in_two_tables() -> None:
    assert not set(FLAG_KEYS) & set(REFUSED_FLAGS)
    assert all(flag.startswith("-") for flag in (*FLAG_KEYS, *REFUSED_FLAGS))
    assert all(option.isupper() for option in RENDERED_OPTIONS)
