"""Read the numbers of sysfs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host


def read_number(host: Host, path: str, *, base: int = 10) -> int | None:
    """Return the number in an attribute; None where it has none or cannot be read."""
    try:
        return int(host.read_attribute(path), base)
    except ValueError:
        return None


def read_numbers(host: Host, path: str) -> dict[str, int]:
    """Return the numbers in one of KFD's files of properties, {} where it cannot be read."""
    lines = (line.partition(" ") for line in host.read_attribute(path).splitlines())
    return {key: int(text) for key, _, text in lines if text.isdecimal()}
