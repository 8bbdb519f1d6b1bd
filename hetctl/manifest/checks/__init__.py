"""Cross-checks of a manifest whose shape is right (E2xx): one module a subject, all pure."""

from __future__ import annotations

from hetctl.manifest.checks.arguments import check_arguments
from hetctl.manifest.checks.hosts import check_hosts
from hetctl.manifest.checks.layers import check_layers
from hetctl.manifest.checks.renames import check_renames
from hetctl.manifest.checks.sharing import check_sharing
from hetctl.manifest.checks.tasks import check_tasks
from hetctl.manifest.checks.virtual import check_virtual
from hetctl.manifest.draft import Draft
from hetctl.manifest.references import resolve_draft


def cross_check(draft: Draft) -> None:
    """Add everything that is wrong between the parts of `draft` to its problems."""
    check_hosts(draft)
    check_virtual(draft)
    check_arguments(draft)
    check_renames(draft)
    resolved = resolve_draft(draft)
    check_tasks(draft)
    check_layers(draft, resolved)
    check_sharing(draft, resolved)
