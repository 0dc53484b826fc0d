"""Find the CDI devices of all vendors in the engines' spec directories, and resolve them as engines do.

The rules are those of the CDI library that all engines use. A later directory overrides an earlier one. If two files of
one directory define a name, it is not resolved at all, even if another directory defines it too. A file that violates
the specification is skipped as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from amd_ctk.cdi.generate_options import SPEC_DIRECTORIES
from amd_device_spec.cdi.text import BrokenText, parse_spec
from amd_device_spec.cdi.validate import form_problems, format_location
from amdgpu_discovery.command_line.listing import to_json
from amdgpu_discovery.errors import reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.value import Value

SPEC_SUFFIXES = (".json", ".yaml", ".yml")
# A spec of 64 GPUs has 100 KiB, and a host has a handful of specs.
LARGEST_SPEC = 4 * 1024 * 1024
MOST_SPECS = 256


class SpecFile(Value):
    """A file in a directory of specs: the devices it defines, or why engines skip it."""

    path: str
    names: tuple[str, ...] = ()
    problem: str = ""
    # The kind of a skipped file, if it names one.
    kind: str = ""
    # The version of the specification in any other file.
    version: str = ""
    # This user may not read the file; engines may.
    is_closed: bool = False


class EngineDevice(Value):
    """A qualified name and the files that define it; the last one counts."""

    name: str
    paths: tuple[str, ...]
    # Two of the files are in the same directory.
    is_conflict: bool = False


def read_spec_files(host: Host, directories: Iterable[str] = SPEC_DIRECTORIES) -> list[list[SpecFile]]:
    """Return the files of each directory, by increasing priority; `path` is the path on this machine."""
    return [_read_directory(host, directory) for directory in directories]


def resolve_devices(directories: Iterable[Iterable[SpecFile]]) -> list[EngineDevice]:
    """Return every device name that any file defines, with its files, sorted by name."""
    devices: dict[str, EngineDevice] = {}
    for files in directories:
        for name, paths in _paths_by_name(files).items():
            weaker = devices.get(name, EngineDevice(name=name, paths=()))
            is_conflict = weaker.is_conflict or len(paths) > 1
            devices[name] = EngineDevice(name=name, paths=(*weaker.paths, *paths), is_conflict=is_conflict)
    return [devices[name] for name in sorted(devices)]


def format_devices(directories: list[list[SpecFile]]) -> str:
    """Format the devices that engines resolve, those they cannot resolve, and the files they skip."""
    devices = resolve_devices(directories)
    resolved = [device for device in devices if not device.is_conflict]
    conflicts = [device for device in devices if device.is_conflict]
    broken = [file for files in directories for file in files if file.problem]
    lines = [_count(len(resolved), "CDI device")]
    for device in resolved:
        instead = f", instead of {' and '.join(device.paths[:-1])}" if len(device.paths) > 1 else ""
        lines += [device.name, f"  {device.paths[-1]}{instead}"]
    lines += [_count(len(conflicts), "CDI device") + " that no engine can resolve"] if conflicts else []
    for device in conflicts:
        lines += [device.name, f"  {' and '.join(device.paths)}"]
    lines += [_count(len(broken), "file") + " that engines ignore"] if broken else []
    for file in broken:
        lines += [file.path, f"  {file.problem}"]
    return "\n".join(lines)


def format_devices_as_json(directories: list[list[SpecFile]]) -> str:
    """Return {"devices": [...], "broken": [...]}."""
    devices = [device.as_dict() for device in resolve_devices(directories)]
    broken = [{"path": file.path, "problem": file.problem} for files in directories for file in files if file.problem]
    return to_json({"devices": devices, "broken": broken})


def _paths_by_name(files: Iterable[SpecFile]) -> dict[str, list[str]]:
    paths: dict[str, list[str]] = {}
    for file in files:
        for name in file.names:
            paths.setdefault(name, []).append(file.path)
    return paths


def _read_directory(host: Host, directory: str) -> list[SpecFile]:
    try:
        names = sorted(name for name in host.names(directory) if name.endswith(SPEC_SUFFIXES))
    except OSError as error:
        return [_unreadable(host.path(directory), error)]
    files = [_read(host.path(f"{directory}/{name}")) for name in names[:MOST_SPECS]]
    if len(names) > MOST_SPECS:
        problem = f"it has {len(names)} specs; at most {MOST_SPECS} are read"
        files.append(SpecFile(path=host.path(directory), problem=problem))
    return files


def _count(number: int, noun: str) -> str:
    return f"Found {number} {noun}{'' if number == 1 else 's'}"


def _read(path: str) -> SpecFile:
    try:
        spec = parse_spec(read_plain_file(path, largest=LARGEST_SPEC)[0]).tree
    except OSError as error:
        return _unreadable(path, error)
    except BrokenText as error:
        return SpecFile(path=path, problem=f"line {error.line}: {error.message}")
    if problems := form_problems(spec):
        location = format_location(problems[0].location)
        problem = f"{location}: {problems[0].message}" if location else problems[0].message
        kind = spec.get("kind") if isinstance(spec, dict) else None
        return SpecFile(path=path, problem=problem, kind=kind if isinstance(kind, str) else "")
    names = tuple(f"{spec['kind']}={device['name']}" for device in spec["devices"])
    return SpecFile(path=path, names=names, version=spec["cdiVersion"])


def _unreadable(path: str, error: OSError) -> SpecFile:
    return SpecFile(path=path, problem=reason(error), is_closed=isinstance(error, PermissionError))
