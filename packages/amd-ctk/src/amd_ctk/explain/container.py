"""A container as its user describes it, before an engine has made anything of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from amd_ctk.engine_address import leads_to_rootless
from amd_ctk.engine_words import PODMAN
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value


class Container(Value):
    """What of a `docker run`, a Compose service or a list of variables decides about GPUs."""

    # Who is told: "docker", "podman" or another engine's name; "" for the AMD runtime itself.
    engine: str = ""
    # What the command of that engine has in front of `run`, as far as it is asked with it.
    engine_options: tuple[str, ...] = ()
    # NAME=VALUE, in the order in which they are given; a NAME alone takes the image's variable away.
    environment: tuple[str, ...] = ()
    # What the image sets, as far as that is known.
    image_environment: tuple[str, ...] = ()
    # Of Podman: variables of the image that are left out, whether all are, and the caller's own that are passed on.
    unset: tuple[str, ...] = ()
    unset_all: bool = False
    host_environment: tuple[str, ...] = ()
    # As behind --device: PATH[:PATH[:ACCESS]], or the qualified name of a CDI device.
    devices: tuple[str, ...] = ()
    # As behind --device-cgroup-rule.
    device_rules: tuple[str, ...] = ()
    # As behind each --gpus.
    gpus: tuple[str, ...] = ()
    # "" for the engine's default.
    runtime: str = ""
    # The directory of the caller's own settings, which engines read that run without root; "" for those of root.
    own_settings: str = ""
    privileged: bool = False
    # What `--cap-add` adds, without CAP_.
    capabilities: tuple[str, ...] = ()
    user: str = ""
    groups: tuple[str, ...] = ()
    # What gives the container a user namespace of its own, "" where nothing does.
    user_namespace: str = ""
    # Of "pid", "network" and "ipc", those that it shares with the host.
    host_namespaces: tuple[str, ...] = ()
    image: str = ""
    # Whether the engine gave no answer: then it is not asked again, because one that hangs is waited for.
    is_engine_silent: bool = False
    # Whether the environment has what the image sets.
    is_image_known: bool = False
    # Options that can change what the container gets, and are not read.
    unread: tuple[str, ...] = ()
    # Why what calls the engine does not start it, and what it leaves out.
    refusals: tuple[ToolkitError, ...] = ()
    problems: tuple[str, ...] = ()
    # How it was read, where that differs from what its engine makes of it.
    notes: tuple[str, ...] = ()

    @property
    def is_rootless(self) -> bool:
        """Return whether its engine runs without root."""
        return bool(self.own_settings)

    @property
    def variables(self) -> list[str]:
        """Return the environment that the engine makes of all that is given, NAME=VALUE."""
        return _join_as_podman(self) if self.engine == PODMAN else _join_as_docker(self)


def find_own_settings(environment: Mapping[str, str], engine: str = PODMAN, before: Sequence[str] = ()) -> str:
    """Return where an engine that runs without root has its caller's settings; "" for one of root, or if not said.

    `before` are the words in front of the command.
    """
    return settings_of(environment) if os.geteuid() and leads_to_rootless(engine, before, environment) else ""


def settings_of(environment: Mapping[str, str]) -> str:
    """Return where engines without root, and other programs, have the settings of a user with this environment."""
    home = environment.get("HOME", "")
    return environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")


def _join_as_docker(container: Container) -> list[str]:
    """Return what the user gives, twice where it is given twice, and what of the image that leaves."""
    named = {entry.partition("=")[0] for entry in container.environment}
    image = (entry for entry in container.image_environment if entry.partition("=")[0] not in named)
    return [*image, *(entry for entry in container.environment if "=" in entry)]


def _join_as_podman(container: Container) -> list[str]:
    image = () if container.unset_all else container.image_environment
    kept = (entry for entry in image if entry.partition("=")[0] not in container.unset)
    entries = (*kept, *container.host_environment, *container.environment)
    return list({entry.partition("=")[0]: entry for entry in entries if "=" in entry}.values())


class ExplainError(ToolkitError):
    """A container that cannot be explained: its words, its file or its engine cannot be read."""

    exit_code = 2
