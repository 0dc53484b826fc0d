"""Check the host of a bundle: a simulated one is built from its profile, for as long as that takes."""

from __future__ import annotations

import os

from amd_ctk.cdi.engine_devices import read_spec_files
from amd_ctk.doctor.bundle.members import DOCKER, NODES, PROC, PROFILE, BundleError
from amd_ctk.doctor.bundle.read import host_paths, read_members
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.cdi import read_cdi
from amd_ctk.doctor.facts.docker import DockerFacts
from amd_ctk.doctor.facts.gpus import read_gpus
from amd_ctk.doctor.facts.kernel import read_kernel
from amd_ctk.doctor.facts.toolkit import read_toolkit
from amd_ctk.doctor.run import run_checks
from amdgpu_discovery.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from amd_ctk.doctor.run import Result
    from amdgpu_discovery.simulate import Profile

# What they look at is no part of a bundle.
OF_THIS_MACHINE = ("containers", "low-level-runtime", "sudo")
MOST_GPUS = 64
PROC_FILES = (f"{PROC}/sys/kernel/osrelease", f"{PROC}/self/uid_map")
# What the simulation writes; a profile names directories too.
TREES = ("/sys/", "/dev/", "/etc", "/run", "/var/", "/tmp", "/.simulated-host")  # noqa: S108 - of the simulated host


def replay_bundle(path: str, *, only: Iterable[str] = (), skip: Iterable[str] = (), engine: str = "") -> list[Result]:
    """Return what the checks say of the host of a bundle; BundleError."""
    from tempfile import TemporaryDirectory

    members = read_members(path)
    with TemporaryDirectory(prefix="amd-ctk-doctor-") as directory:
        try:
            facts = _read_facts(_build(members, f"{directory}/host"), members, directory)
            return run_checks(facts, only=only, skip=(*skip, *OF_THIS_MACHINE), engine=engine)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OSError) as error:
            raise BundleError(f"{path} cannot be understood: {error}") from error


def _build(members: dict[str, bytes], directory: str) -> Host:
    from amdgpu_discovery.simulate.profile_json import parse_profile
    from amdgpu_discovery.simulate.tree import write_tree

    profile = parse_profile(_load(members, PROFILE), name="bundle", models={})
    tree = _build_tree(profile)
    nodes = {path: int(mode) for path, mode in _load(members, NODES).items()}
    for node in [path for path in tree.entries if path.startswith("/dev/")]:
        if node not in nodes and node != "/dev/dri":
            del tree.entries[node]
    os.makedirs(directory)
    write_tree(tree, directory)
    for node in tree.entries.keys() & nodes.keys():
        os.chmod(f"{directory}{node}", nodes[node] & 0o777)
    _write(directory, host_paths(members))
    return Host(directory)


def _build_tree(profile: Profile) -> Any:
    from amdgpu_discovery.simulate.build import build_tree

    counts = [len(profile.gpus), len(profile.cpus), len(profile.foreign), len(profile.others)]
    counts += [gpu.wanted_partitions for gpu in profile.gpus] + [gpu.model.xcp_devices for gpu in profile.gpus]
    if max(counts) > MOST_GPUS:
        raise BundleError("the host of the bundle has more GPUs than there are")
    tree = build_tree(profile, with_links=False)
    for path in tree.entries:
        if not path.startswith(TREES) or ".." in path.split("/"):
            raise BundleError(f"the profile of the bundle names {path[:80]!r}")
    return tree


def _read_facts(host: Host, members: dict[str, bytes], directory: str) -> Facts:
    proc = {name: content for name, content in members.items() if name in PROC_FILES}
    _write(directory, {f"/{name}": content for name, content in proc.items()})
    return Facts(
        kernel=read_kernel(host, f"{directory}/{PROC}"),
        gpus=read_gpus(host),
        cdi=read_cdi(host, read_spec_files(host)),
        toolkit=read_toolkit(host),
        docker=_docker(_load(members, DOCKER)),
    )


def _docker(fields: dict[str, Any]) -> DockerFacts:
    from amdgpu_discovery.simulate.profile_fields import read_fields

    return DockerFacts(**read_fields(DockerFacts, fields))


def _write(directory: str, content_by_path: dict[str, bytes]) -> None:
    for path, content in content_by_path.items():
        target = f"{directory}{path}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(content)


def _load(members: dict[str, bytes], name: str) -> dict[str, Any]:
    import json

    if name not in members:
        raise BundleError(f"the bundle has no {name}", hint="the host could not be recorded: read its doctor.json")
    document = json.loads(members[name])
    if not isinstance(document, dict):
        raise BundleError(f"the bundle's {name} is not a JSON object")
    return document
