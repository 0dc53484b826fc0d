"""The CDI specs of a host: whether engines understand them, and whether they still match the host."""

from __future__ import annotations

from amd_ctk.cdi.engine_devices import SPEC_SUFFIXES, SpecFile, resolve_devices
from amd_ctk.cdi.generate_options import find_generate_options, read_all_generate_options
from amd_ctk.cdi.validation import find_problems, read_other_maker
from amd_ctk.doctor.facts import read_or
from amd_device_spec.cdi import KIND
from amd_device_spec.cdi.spec import CdiOptions
from amd_device_spec.cdi.version import VERSIONS
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value


class SpecProblem(Value):
    """What is wrong with a CDI spec."""

    path: str
    words: str
    is_closed: bool = False
    # Whether `amd-ctk cdi refresh` writes this file.
    is_refreshed: bool = False


class CdiFacts(Value):
    """What CDI specs offer to engines as amd.com/gpu."""

    # The files that define amd.com/gpu, by the path that people use.
    paths: tuple[str, ...] = ()
    # Whether any file defines nvidia.com/gpu.
    has_nvidia: bool = False
    # Among these files, the one with the latest version of the specification.
    latest_path: str = ""
    latest_version: str = ""
    # Files for amd.com/gpu that engines ignore, and why.
    broken: tuple[SpecProblem, ...] = ()
    # The same for other vendors' files.
    broken_of_others: tuple[SpecProblem, ...] = ()
    # The versions of other vendors' files, by path.
    versions_of_others: dict[str, str] = {}  # noqa: RUF012 - a default of a value, which is never changed
    # Contradictions between a spec and the host.
    untrue: tuple[SpecProblem, ...] = ()
    # Whether `amd-ctk cdi generate` wrote any spec that is refreshed.
    has_refreshed: bool = False
    # Names that two files of one directory define. No engine resolves them.
    conflicts: tuple[str, ...] = ()
    # The files that define the first of these names.
    conflicting: tuple[str, ...] = ()
    # The amd-ctk of another installation that made the first of these files, "" if this one did.
    other_maker: str = ""
    # Files that other files override.
    shadowed: tuple[str, ...] = ()


def read_cdi(host: Host, directories: list[list[SpecFile]]) -> CdiFacts:
    """Return what the directories of specs hold; an unreadable spec is a fact too."""
    above = "" if host.is_this_machine else host.root
    directories = [[file.replace(path=file.path.removeprefix(above)) for file in files] for files in directories]
    offers = resolve_devices(directories)
    amd_devices = [offer for offer in offers if offer.name.startswith(f"{KIND}=")]
    counting = list(dict.fromkeys(offer.paths[-1] for offer in amd_devices if not offer.is_conflict))
    overridden = {path for offer in amd_devices if not offer.is_conflict for path in offer.paths[:-1]}
    conflicts = [offer for offer in amd_devices if offer.is_conflict]
    broken = [file for files in directories for file in files if file.problem]
    others = [file for files in directories for file in files if file.names and not _is_for_amd(file)]
    by_version = [(file.version, file.path) for files in directories for file in files if file.path in counting]
    latest_version, latest_path = max(
        by_version, key=lambda found: (VERSIONS.index(found[0]), found[1]), default=("", "")
    )
    return CdiFacts(
        has_nvidia=any(offer.name.startswith("nvidia.com/gpu=") for offer in offers),
        latest_version=latest_version,
        latest_path=latest_path,
        paths=tuple(counting),
        versions_of_others={file.path: file.version for file in others},
        broken=tuple(_problem(file) for file in broken if _is_for_amd(file)),
        broken_of_others=tuple(_problem(file) for file in broken if not _is_for_amd(file)),
        has_refreshed=read_or(lambda: bool(read_all_generate_options(host)), False),
        untrue=tuple(problem for path in counting for problem in _find_mismatches(host, path)),
        other_maker=read_other_maker(host, host.path(counting[0])) if counting else "",
        conflicts=tuple(offer.name for offer in conflicts),
        conflicting=tuple(path for offer in conflicts[:1] for path in offer.paths),
        shadowed=tuple(sorted(overridden)),
    )


def _problem(file: SpecFile) -> SpecProblem:
    return SpecProblem(path=file.path, words=file.problem, is_closed=file.is_closed)


def _is_for_amd(file: SpecFile) -> bool:
    if kind := file.kind or (file.names or ("",))[0].partition("=")[0]:
        return kind == KIND
    # An unreadable file has no kind, so its name decides. A directory may hold specs of any vendor.
    name = file.path.rpartition("/")[2]
    is_directory = not name.endswith(SPEC_SUFFIXES)
    return is_directory or name.startswith("amd")


def _find_mismatches(host: Host, path: str) -> list[SpecProblem]:
    here = host.path(path)
    try:
        wanted = find_generate_options(host, path)
        problems = find_problems(host, here, wanted.options if wanted else CdiOptions())
    except ToolkitError as error:
        return [SpecProblem(path=path, words=f"{path}: {error.message}")]
    return [
        SpecProblem(path=path, words=problem.replace(here, path, 1), is_refreshed=wanted is not None)
        for problem in problems
    ]
