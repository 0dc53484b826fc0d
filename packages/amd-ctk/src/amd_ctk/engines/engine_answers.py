"""What an engine says about itself and about an image. Each answer is asked for once and read whole.

`docker info`, `podman info` and `image inspect` print JSON; a key that a version lacks is empty here.
"""

from __future__ import annotations

from amdgpu_discovery.command_line.json_parts import list_at, object_at, objects_at, texts_at
from amdgpu_discovery.command_line.programs import Answer, ask, parse_object, parse_version
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_ctk.engines.image_names import ImageNames

# Engines answer in a tenth of a second, on a busy host in several seconds.
ENGINE_SECONDS = 8.0
# Podman's Docker API reports this licence, Docker its edition or nothing.
LICENCE_OF_PODMAN = "Apache-2.0"


class EngineInfo(Value):
    """What `docker info` or `podman info` says. An engine that did not answer has no version, and `answer` says why."""

    answer: Answer = Answer()
    version: tuple[int, ...] = ()
    # The programs of Docker's runtimes by name; Podman lists none.
    runtimes: dict[str, str] = {}  # noqa: RUF012 - a default of a value, which is never changed
    default_runtime: str = ""
    # None if this version does not list them.
    cdi_directories: tuple[str, ...] | None = None
    is_rootless: bool = False
    # Whether containers have other user ids than the host (userns-remap), and whether they get SELinux labels.
    maps_users: bool = False
    sets_labels: bool = False
    cgroup_driver: str = ""
    operating_system: str = ""
    # The path of the default runtime's program; only Podman reports it.
    runtime_path: str = ""
    # Whether the engine is Podman, perhaps behind the client of Docker, or behind its own service.
    is_podman: bool = False
    is_service: bool = False
    # What Docker 20.10 prints in place of its answer, although it succeeds.
    errors: tuple[str, ...] = ()
    # The version of the client's `docker compose`, () if there is none.
    compose_version: tuple[int, ...] = ()


class ImageSettings(Value):
    """What an image says; `is_known` if the engine knows it, `late` if the engine did not answer in time."""

    is_known: bool = False
    late: str = ""
    environment: tuple[str, ...] = ()
    user: str = ""
    entrypoint: tuple[str, ...] = ()


def ask_info(command: Sequence[str]) -> EngineInfo:
    """Return what an engine says about itself. `command` is its program, perhaps with options or behind sudo."""
    answer = ask([*command, "info", "--format", "{{json .}}"], seconds=ENGINE_SECONDS)
    tree = parse_object(answer.output)
    found = _parse_podman(tree) if object_at(tree, "host", "ociRuntime") else _parse_docker(tree)
    return found.replace(answer=answer)


def ask_image(command: Sequence[str], image: str) -> ImageSettings:
    """Return what an image says that the engine behind `command` has."""
    answer = ask([*command, "image", "inspect", "--format", "{{json .Config}}", image], seconds=ENGINE_SECONDS)
    tree = parse_object(answer.output)
    if not answer.succeeded or not tree:
        return ImageSettings(late=answer.problem if answer.is_late else "")
    return ImageSettings(
        is_known=True,
        environment=tuple(map(str, list_at(tree, "Env"))),
        user=str(tree.get("User") or ""),
        entrypoint=tuple(map(str, list_at(tree, "Entrypoint"))),
    )


def ask_names(command: Sequence[str], image: str) -> ImageNames | None:
    """Return the names of users and groups in an image; None if its engine does not say where its layers are."""
    # Only a container whose user or group is a name needs this.
    from amd_ctk.engines.image_names import read_names

    answer = ask([*command, "image", "inspect", "--format", "{{json .GraphDriver}}", image], seconds=ENGINE_SECONDS)
    return read_names(parse_object(answer.output))


def _parse_docker(tree: dict[str, Any]) -> EngineInfo:
    options = list_at(tree, "SecurityOptions")
    directories = tree.get("CDISpecDirs")
    return EngineInfo(
        version=parse_version(str(tree.get("ServerVersion") or "")),
        runtimes={name: texts_at(tree, "Runtimes", name).get("path", "") for name in object_at(tree, "Runtimes")},
        default_runtime=str(tree.get("DefaultRuntime") or ""),
        cdi_directories=tuple(map(str, directories)) if isinstance(directories, list) else None,
        is_rootless="name=rootless" in options,
        maps_users="name=userns" in options,
        sets_labels="name=selinux" in options,
        cgroup_driver=str(tree.get("CgroupDriver") or ""),
        operating_system=str(tree.get("OperatingSystem") or ""),
        is_podman=tree.get("ProductLicense") == LICENCE_OF_PODMAN,
        errors=tuple(str(each) for each in list_at(tree, "ServerErrors") if each),
        compose_version=_compose_version(tree),
    )


def _parse_podman(tree: dict[str, Any]) -> EngineInfo:
    host, version = object_at(tree, "host"), texts_at(tree, "version")
    runtime = texts_at(host, "ociRuntime")
    return EngineInfo(
        version=parse_version(version.get("Version", "")),
        default_runtime=runtime.get("name", ""),
        runtime_path=runtime.get("path", ""),
        is_rootless=object_at(host, "security").get("rootless") is True,
        sets_labels=object_at(host, "security").get("selinuxEnabled") is True,
        cgroup_driver=str(host.get("cgroupManager") or ""),
        is_podman=True,
        is_service=host.get("serviceIsRemote") is True,
    )


def _compose_version(tree: dict[str, Any]) -> tuple[int, ...]:
    plugins = objects_at(tree, "ClientInfo", "Plugins")
    versions = (str(one.get("Version", "")) for one in plugins if one.get("Name") == "compose")
    return parse_version(next(versions, ""))
