"""Numbers, times and columns as people read them."""

from __future__ import annotations

from collections.abc import Sequence

GIB = 1024**3
MINUTE = 60.0
HOUR = 3600.0


def gibibytes(size: int) -> str:
    """Return bytes as GiB with one decimal, without the unit: `13.5`."""
    return f"{size / GIB:.1f}"


def mebibytes(size: int) -> str:
    """Return a number of bytes in whole MiB, without the unit."""
    return f"{size / (1 << 20):.0f}"


def byte_size(size: float) -> str:
    """Return bytes in the largest binary unit that keeps a number above one: `278 MiB`, `13.5 GiB`."""
    for unit, factor in (("TiB", 1024**4), ("GiB", GIB), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= factor:
            return f"{size / factor:.0f} {unit}" if size / factor >= 100 else f"{size / factor:.1f} {unit}"  # noqa: PLR2004 - three digits need no decimal
    return f"{size:.0f} B"


def duration(seconds: float) -> str:
    """Return a time: `0.4 s`, `70 s`, `4 min`, `1 h 20 min`."""
    if seconds < 10:  # noqa: PLR2004 - below this a decimal tells something
        return f"{seconds:.1f} s"
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{int(seconds // HOUR)} h {int(seconds % HOUR // MINUTE)} min"


def estimate(seconds: float) -> str:
    """Return an estimated time without false precision: `about 70 s`, `about 4 min`."""
    if seconds < 2 * MINUTE:
        rounded = max(1, round(seconds) if seconds < 10 else 5 * round(seconds / 5))  # noqa: PLR2004 - as `duration`
        return f"about {rounded} s"
    return f"about {duration(seconds)}"


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def columns(rows: Sequence[Sequence[str]], *, gap: int = 2, right: frozenset[int] = frozenset()) -> list[str]:
    """Return rows as lines with aligned columns, without spaces at their ends.

    Arguments:
        rows: Cells; rows may be shorter than others.
        gap: Spaces between columns.
        right: Columns aligned to the right below the start of their heading, for numbers.
    """
    count = max((len(row) for row in rows), default=0)
    figures = {
        index: max((len(row[index]) for row in rows[1:] if index < len(row)), default=0) for index in right
    }
    dressed = [
        [
            cell.rjust(figures[index]) if index in right and number > 0 else cell
            for index, cell in enumerate(row)
        ]
        for number, row in enumerate(rows)
    ]
    widths = [
        max((len(row[index]) for row in dressed if index < len(row)), default=0) for index in range(count)
    ]
    return [
        (" " * gap).join(cell.ljust(widths[index]) for index, cell in enumerate(row)).rstrip()
        for row in dressed
    ]
