"""Tables that need updates; each is a data file with its source and date."""

from __future__ import annotations

from amdgpu_discovery.files import directory_of, read_file
from amdgpu_discovery.untrusted.plain_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read_table(name: str) -> dict[str, Any]:
    """Return the table in a file of this package."""
    table: dict[str, Any] = loads(read_file(f"{directory_of(__file__)}/{name}.json"))
    return table
