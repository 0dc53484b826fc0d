"""What the directories of CDI specs offer to engines, of all vendors, as engines resolve it.

As the CDI library in all engines has it: a later directory overrides an earlier one; a name that two files of one
directory define is nobody's, in whichever other directory it also stands; a file that breaks the specification is left
out as a whole.
"""

from __future__ import annotations

from amd_device_spec.cdi_text import BrokenText, parse_spec
from amd_device_spec.validate import form_problems, format_place
from amdgpu_discovery.errors import reason
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.host import Host

# What engines read where their configuration says nothing else; /var/run is a link to /run.
SPEC_DIRECTORIES = ("/etc/cdi", "/run/cdi")
SPEC_SUFFIXES = (".json", ".yaml", ".yml")


class SpecFile(Value):
    """A file in a directory of specs: the devices it defines, or why engines leave it out."""

    path: str
    names: tuple[str, ...] = ()
    problem: str = ""


class Offer(Value):
    """A qualified name and the files that define it, the one that counts last."""

    name: str
    paths: tuple[str, ...]
    # Two of the files are in one directory.
    is_conflict: bool = False


def read_spec_files(host: Host, directories: Iterable[str] = SPEC_DIRECTORIES) -> list[list[SpecFile]]:
    """Return the files of each directory, the weakest first; `path` is what it is on this machine."""
    return [
        [_read(host.path(f"{directory}/{name}")) for name in sorted(host.names(directory)) if _is_spec(name)]
        for directory in directories
    ]


def resolve_offers(directories: Iterable[Iterable[SpecFile]]) -> list[Offer]:
    """Return every name that is defined anywhere, by name."""
    offers: dict[str, Offer] = {}
    for files in directories:
        for name, paths in _paths_by_name(files).items():
            weaker = offers.get(name, Offer(name=name, paths=()))
            is_conflict = weaker.is_conflict or len(paths) > 1
            offers[name] = Offer(name=name, paths=(*weaker.paths, *paths), is_conflict=is_conflict)
    return [offers[name] for name in sorted(offers)]


def format_offers(directories: list[list[SpecFile]]) -> str:
    """Return what engines are offered, what they cannot resolve and what they leave out, in this order."""
    offers = resolve_offers(directories)
    resolved = [offer for offer in offers if not offer.is_conflict]
    conflicts = [offer for offer in offers if offer.is_conflict]
    broken = [file for files in directories for file in files if file.problem]
    lines = [_count(len(resolved), "CDI device")]
    for offer in resolved:
        instead = f", instead of {' and '.join(offer.paths[:-1])}" if len(offer.paths) > 1 else ""
        lines += [offer.name, f"  {offer.paths[-1]}{instead}"]
    lines += [_count(len(conflicts), "CDI device") + " that no engine can resolve"] if conflicts else []
    for offer in conflicts:
        lines += [offer.name, f"  {' and '.join(offer.paths)}"]
    lines += [_count(len(broken), "file") + " that engines leave out"] if broken else []
    for file in broken:
        lines += [file.path, f"  {file.problem}"]
    return "\n".join(lines)


def format_offers_as_json(directories: list[list[SpecFile]]) -> str:
    """Return {"devices": [...], "broken": [...]}."""
    import json

    offers = [offer.as_dict() for offer in resolve_offers(directories)]
    broken = [{"path": file.path, "problem": file.problem} for files in directories for file in files if file.problem]
    return json.dumps({"devices": offers, "broken": broken}, indent=2)


def _paths_by_name(files: Iterable[SpecFile]) -> dict[str, list[str]]:
    paths: dict[str, list[str]] = {}
    for file in files:
        for name in file.names:
            paths.setdefault(name, []).append(file.path)
    return paths


def _is_spec(name: str) -> bool:
    return name.endswith(SPEC_SUFFIXES)


def _count(number: int, what: str) -> str:
    return f"Found {number} {what}{'' if number == 1 else 's'}"


def _read(path: str) -> SpecFile:
    try:
        with open(path, "rb") as file:
            spec = parse_spec(file.read()).tree
    except OSError as error:
        return SpecFile(path=path, problem=reason(error))
    except BrokenText as error:
        return SpecFile(path=path, problem=f"line {error.line}: {error.message}")
    if problems := form_problems(spec):
        place = format_place(problems[0].place)
        return SpecFile(path=path, problem=f"{place}: {problems[0].message}" if place else problems[0].message)
    return SpecFile(path=path, names=tuple(f"{spec['kind']}={device['name']}" for device in spec["devices"]))
