"""How every command prints lists: columns for people, JSON for programs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence


def to_json(document: object) -> str:
    """Format a document the way every command prints it with `--json`."""
    # Imported here because most lists are tables, and json takes a tenth of the time of one.
    import json

    return json.dumps(document, indent=2)


def format_columns(rows: Sequence[Sequence[str]], *, of_numbers: Container[int] = ()) -> str:
    """Align rows, the first being the header, in columns as wide as their longest cell; numbers align right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    formats = [f"{{:{'>' if column in of_numbers else '<'}{width}}}" for column, width in enumerate(widths)]
    return "\n".join("  ".join(formats).format(*row).rstrip() for row in rows)
