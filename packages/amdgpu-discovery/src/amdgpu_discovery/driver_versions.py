"""Which ROCm in an image is tested with which kernel driver.

The version of a DKMS module is not that of ROCm; the table says which belong together, and an administrator's file may
say more.
"""

from __future__ import annotations

from amdgpu_discovery.host import Host
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.plain_json import loads
from amdgpu_discovery.tables import read_table
from amdgpu_discovery.value import Value

# There is none for the kernel's own driver.
DRIVER_VERSION = "/sys/module/amdgpu/version"
# Of the same form as the table: {"modules": {"6.16.13": {"tested": ["7.2"], "untested": ["6.2"]}}}.
OWN_TABLE = "/etc/amd-container-toolkit/rocm-drivers.json"
LARGEST = 64 * 1024
# Of one number in a version; no version has a longer one.
MOST_DIGITS = 18
Rows = dict[str, dict[str, list[str]]]


class DriverReleases(Value):
    """What is known of a driver: the releases of ROCm that it is tested with, the oldest first, and some it is not.

    `is_newer` where it is newer than every driver of the table; then `oldest` is the oldest release that the newest of
    these is tested with.
    """

    tested: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    is_newer: bool = False
    oldest: str = ""


def read_releases(host: Host, module: str) -> DriverReleases:
    """Return what the table, and this host's own file, say of a driver module; nothing for one that neither has."""
    rows: Rows = {**read_table("rocm-drivers")["modules"], **_read_own(host)}
    numbers = leading_numbers(module)
    known = {leading_numbers(name): row for name, row in rows.items()}
    found = [name for name in known if name and numbers[: len(name)] == name]
    if found:
        # 6.16.13 says more than 6.16.
        row = known[max(found, key=len)]
        return DriverReleases(tested=tuple(row.get("tested", ())), untested=tuple(row.get("untested", ())))
    # Modules were numbered as Linux is, and then as drivers are: 31.40 is later than 6.19, and says nothing about it.
    below = [name for name in known if name[:1] <= numbers[:1]]
    if not below or numbers <= max(below):
        return DriverReleases()
    tested = known[max(below)].get("tested", [])
    return DriverReleases(is_newer=True, oldest=tested[0] if tested else "")


def is_tested(releases: DriverReleases, rocm: str) -> bool | None:
    """Return whether AMD tests a ROCm with a driver; None if that is unknown."""
    release = leading_numbers(rocm)[:2]
    if not release:
        return None
    if release in map(leading_numbers, releases.tested):
        return True
    if release in map(leading_numbers, releases.untested):
        return False
    oldest = releases.oldest or next(iter(releases.tested), "")
    # Drivers serve ROCm of a year; a later one serves none that is older.
    return False if oldest and release < leading_numbers(oldest) else None


def leading_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers with which a version begins: 6, 12, 12 of "6.12.12-2164967.24.04"."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))][:MOST_DIGITS]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def _read_own(host: Host) -> Rows:
    """Return the rows of the administrator's file, {} if there is none or where it says nothing."""
    try:
        modules = loads(read_plain_file(host.path(OWN_TABLE), largest=LARGEST)[0])["modules"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    rows = modules if isinstance(modules, dict) else {}
    return {name: row for name, row in rows.items() if leading_numbers(name) and _is_row(row)}


def _is_row(row: object) -> bool:
    return isinstance(row, dict) and all(map(_are_releases, row.values()))


def _are_releases(releases: object) -> bool:
    return isinstance(releases, list) and all(
        isinstance(release, str) and leading_numbers(release) for release in releases
    )
