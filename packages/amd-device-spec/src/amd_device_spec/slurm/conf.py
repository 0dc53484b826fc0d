"""Reads Slurm's configuration files, as far as needed to know which device has which number in Slurm.

Source: gres.conf(5), slurm.conf(5), and tests with slurmd 22.05, 24.11 and 26.05.
"""

from __future__ import annotations

from itertools import islice

from amd_device_spec.slurm.grammar import HINT, parse_lines
from amd_device_spec.slurm_job import SlurmError
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.errors import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amdgpu_discovery.host import Host

# Where Slurm of Debian and Red Hat looks, and where slurmd puts the files that a controller sends ("configless").
DIRECTORIES = ("/etc/slurm", "/run/slurm/conf")
GRES_CONF = "gres.conf"
SLURM_CONF = "slurm.conf"
# A node's part of the files of the biggest clusters is a thousandth of this.
LONGEST_FILE = 2**20
# 64 partitions are the most GPUs that a host has.
MOST_DEVICES = 1024
# Of a number in a name; longer numbers would take time.
MOST_HOST_NUMBER_DIGITS = 9
# In one name; each further one multiplies the cost of comparing it.
MOST_RANGES = 4


def find_conf(host: Host, name: str) -> str | None:
    """Return the path of a Slurm configuration file, None if there is none."""
    return next((path for path in (f"{place}/{name}" for place in DIRECTORIES) if host.stat(path)), None)


def read_lines(host: Host, path: str) -> list[dict[str, str]]:
    """Return the lines of a file, each as values by the lower-case name of their key. Raises SlurmError."""
    try:
        found = host.stat(path)
        if found and found.st_size > LONGEST_FILE:
            raise SlurmError(f"{path} has {found.st_size} bytes, and {LONGEST_FILE} are read at most")
        return parse_lines(host.read(path).decode("utf-8", "replace"), path.rpartition("/")[2])
    except OSError as error:
        raise SlurmError(f"{path} cannot be read: {reason(error)}") from error


def find_device_files(lines: Sequence[dict[str, str]], node: str, types: Sequence[str] = ()) -> list[str]:
    """Return the device files of a node's GPUs in the order of their Slurm numbers; SlurmError if these are unknown.

    `types` are the types of the node's GPUs in the order of slurm.conf. Slurm sorts by them, then as slurmd reads them.
    """
    entries = _entries_of(lines, node)
    if _detects_gpus(lines, node):
        raise SlurmError("gres.conf has AutoDetect, so Slurm numbers GPUs in its own order", hint=HINT)
    if any("file" not in line for line in entries):
        raise SlurmError(f"gres.conf has GPUs of {shown(node)} without File=", hint=HINT)
    if has_several_types(lines, node):
        unknown = {line.get("type", "") for line in entries} - {*types}
        if unknown:
            raise SlurmError(f"slurm.conf gives {shown(node)} no GPUs of the type {min(unknown)!r}", hint=HINT)
        entries.sort(key=lambda line: types.index(line.get("type", "")))
    files = [file for line in entries for file in expand(line["file"])]
    if len({*files}) < len(files):
        raise SlurmError(f"slurmd refuses {GRES_CONF}, because it names {shown(_first_twice(files))} twice", hint=HINT)
    return files


def has_several_types(lines: Sequence[dict[str, str]], node: str) -> bool:
    """Return whether gres.conf gives the GPUs of a node more than one type."""
    return len({line.get("type", "") for line in _entries_of(lines, node)}) > 1


def find_types(lines: Sequence[dict[str, str]], node: str) -> list[str]:
    """Return the types of a node's GPUs in the order of slurm.conf: Gres=gpu:mi210:2,gpu:mi300x:2."""
    for line in lines:
        if "gres" in line and matches(line.get("nodename", ""), node):
            words = [gres.partition("(")[0].split(":") for gres in line["gres"].split(",")]
            return [parts[1] for parts in words if parts[0] == "gpu" and len(parts) > 1]
    return []


def matches(expression: str, name: str) -> bool:
    """Return whether a list of names in Slurm's form (`n[01-16,20],login`) contains a name. Raises SlurmError."""
    return any(_matches_one(item, name) for item in _split(expression))


def expand(expression: str) -> list[str]:
    """Return the names in a list (`/dev/dri/renderD[128-131]`) in its order; SlurmError if there are too many."""
    names: list[str] = []
    for item in _split(expression):
        for name in _expand_one(item):
            if len(names) == MOST_DEVICES:
                raise SlurmError(f"gres.conf names more than {MOST_DEVICES} devices")
            names.append(name)
    return names


def _detects_gpus(lines: Sequence[dict[str, str]], node: str) -> bool:
    """Return whether AutoDetect is on: the last value for all nodes counts, unless a line of the node has its own."""
    values = [(line["autodetect"].lower(), line) for line in lines if "autodetect" in line]
    everywhere = [value for value, line in values if "nodename" not in line]
    here = [value for value, line in values if "nodename" in line and matches(line["nodename"], node)]
    return any(value != "off" for value in here or everywhere[-1:])


def _entries_of(lines: Sequence[dict[str, str]], node: str) -> list[dict[str, str]]:
    """Return the lines of a node's GPUs in slurmd's order: lines without NodeName= come first."""
    gpus = [line for line in lines if line.get("name", "").lower() == "gpu"]
    for first in (next(iter(line)) for line in gpus):
        if first not in {"nodename", "name"}:
            raise SlurmError(f"slurmd refuses the line of {GRES_CONF} that starts with {shown(first)}=", hint=HINT)
    of_node = [line for line in gpus if "nodename" in line and matches(line["nodename"], node)]
    return [*(line for line in gpus if "nodename" not in line), *of_node]


def _first_twice(names: list[str]) -> str:
    return next(name for position, name in enumerate(names) if name in names[:position])


def _split(expression: str) -> Iterator[str]:
    """Yield the items of a list, without a split inside brackets; SlurmError if an item has too many brackets.

    Blanks separate items too, in quotes: "n1, n2". In brackets slurmd reads another number than the one behind a blank.
    """
    start = depth = 0
    for position, character in enumerate(f"{expression},"):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == " " and depth > 0:
            raise SlurmError(f"{shown(expression)} in Slurm's configuration has a blank in brackets", hint=HINT)
        if position == len(expression) or (character in ", " and depth == 0):
            if expression.count("[", start, position) > MOST_RANGES:
                item = shown(expression[start:position])
                raise SlurmError(f"{item} in Slurm's configuration has more than {MOST_RANGES} brackets", hint=HINT)
            if start < position:
                yield expression[start:position]
            start = position + 1


def _matches_one(item: str, name: str) -> bool:
    before, bracket, rest = item.partition("[")
    if not bracket:
        return item == name
    inside, _, behind = rest.partition("]")
    if not name.startswith(before):
        return False
    name = name[len(before) :]
    digits = min(len(name) - len(name.lstrip("0123456789")), MOST_HOST_NUMBER_DIGITS)
    return any(_holds(inside, name[:end]) and _matches_one(behind, name[end:]) for end in range(1, digits + 1))


def _holds(inside: str, number: str) -> bool:
    return any(
        int(first) <= int(number) <= int(last) and number == number.lstrip("0").rjust(len(first), "0")
        for first, last in _ranges(inside)
    )


def _expand_one(item: str) -> Iterator[str]:
    before, bracket, rest = item.partition("[")
    if not bracket:
        yield item
        return
    inside, _, behind = rest.partition("]")
    # Once, not for every number. The list may be empty.
    ends = list(islice(_expand_one(behind), MOST_DEVICES + 1))
    for first, last in _ranges(inside) if ends else ():
        if int(first) > int(last):
            raise SlurmError(f"slurmd refuses {GRES_CONF}, because {first}-{last} is no range", hint=HINT)
        for number in range(int(first), int(last) + 1):
            for end in ends:
                yield f"{before}{number:0{len(first)}d}{end}"


def _ranges(inside: str) -> Iterator[tuple[str, str]]:
    """Yield the first and the last number of each range in brackets; anything else is left out."""
    for part in inside.split(","):
        first, _, last = part.partition("-")
        last = last or first
        if all(word.isascii() and word.isdecimal() and len(word) <= MOST_HOST_NUMBER_DIGITS for word in (first, last)):
            yield first, last
