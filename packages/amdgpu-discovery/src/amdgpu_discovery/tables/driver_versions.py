"""Which ROCm in an image is tested with which kernel driver.

The version of a DKMS module is not that of ROCm. A table shows which belong together, and an administrator's file may
add to it.
"""

from __future__ import annotations

from amdgpu_discovery.host import Host
from amdgpu_discovery.tables import read_table
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import loads
from amdgpu_discovery.value import Value

# The kernel's own driver does not have this file.
DRIVER_VERSION = "/sys/module/amdgpu/version"
# In the form of the table: {"modules": {"6.16.13": {"tested": ["7.2"], "untested": ["6.2"]}}}.
OWN_TABLE = "/etc/amd-container-toolkit/rocm-drivers.json"
LENGTH_WITH_RELEASE = 4
# 10.0 in that form; smaller numbers are of builds.
FIRST_RELEASE = 10_000_000
LARGEST_VERSION_FILE = 64 * 1024
# Of one number in a version; no version has a longer number.
MOST_VERSION_DIGITS = 18
Rows = dict[str, dict[str, list[str]]]


class DriverReleases(Value):
    """What is known about a driver: ROCm releases that it is tested with, oldest first, and some that it is not.

    `is_newer` if the driver is newer than every driver of the table. Then `oldest` is the oldest release that the
    newest driver of the table is tested with.
    """

    tested: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    is_newer: bool = False
    oldest: str = ""


def read_releases(host: Host, module: str) -> DriverReleases:
    """Return what the table and this host's own file have about a driver module; empty if neither lists it."""
    rows: Rows = {**read_table("rocm-drivers")["modules"], **_read_own(host)}
    written = leading_numbers(module)
    numbers = release_of(written)
    known = {leading_numbers(name): row for name, row in rows.items()}
    # An administrator may list a version as the module has it.
    for each in (written, numbers):
        found = [name for name in known if name and each[: len(name)] == name]
        if found:
            # The longest name matches best: 6.16.13 before 6.16.
            row = known[max(found, key=len)]
            return DriverReleases(tested=tuple(row.get("tested", ())), untested=tuple(row.get("untested", ())))
    # Modules were first numbered like Linux, then like drivers: 31.40 is later than 6.19, but says nothing about it.
    below = [name for name in known if name[:1] <= numbers[:1]]
    if not below or numbers <= max(below):
        return DriverReleases()
    tested = known[max(below)].get("tested", [])
    return DriverReleases(is_newer=True, oldest=tested[0] if tested else "")


def release_of(module: tuple[int, ...]) -> tuple[int, ...]:
    """Return the release of AMD's driver whose module has this version; the version itself if that is unknown.

    Since 31.40 the fourth number is the release: 6.19.14.31400000.
    """
    if len(module) == LENGTH_WITH_RELEASE and module[-1] >= FIRST_RELEASE:
        return module[-1] // 1_000_000, module[-1] // 10_000 % 100, module[-1] // 100 % 100
    written = read_table("rocm-drivers")["written as"]
    return next((leading_numbers(written[name]) for name in written if leading_numbers(name) == module), module)


def is_tested(releases: DriverReleases, rocm: str) -> bool | None:
    """Return whether AMD tests a ROCm release with a driver; None if that is unknown."""
    release = leading_numbers(rocm)[:2]
    if not release:
        return None
    if release in map(leading_numbers, releases.tested):
        return True
    if release in map(leading_numbers, releases.untested):
        return False
    oldest = releases.oldest or next(iter(releases.tested), "")
    # A driver supports the ROCm releases of a year, and later drivers none that are older.
    return False if oldest and release < leading_numbers(oldest) else None


def leading_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version: 6, 12, 12 for "6.12.12-2164967.24.04"."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))][:MOST_VERSION_DIGITS]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def _read_own(host: Host) -> Rows:
    """Return the valid rows of the administrator's file, {} if it is missing or unusable."""
    try:
        modules = loads(read_plain_file(host.path(OWN_TABLE), largest=LARGEST_VERSION_FILE)[0])["modules"]
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
