from __future__ import annotations

from hetctl.rules.cards import needs_backend
from hetctl.rules.finding import Severity


def test_a_card_needs_its_backend_in_the_build() -> None:
    assert needs_backend("atlas/fast", "cuda", "main", ["cpu", "cuda"], None) == []
    (finding,) = needs_backend("atlas/fast", "cuda", "main", ["vulkan", "cpu"], None)
    assert finding.severity is Severity.ERROR
    assert finding.why == "the card needs the backend cuda, and the build has cpu, vulkan"
