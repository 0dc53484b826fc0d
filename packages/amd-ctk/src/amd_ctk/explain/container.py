"""A container as its user describes it, before an engine has processed it."""

from __future__ import annotations

from amd_ctk.engines.engine_answers import EngineInfo
from amd_ctk.engines.engine_words import PODMAN
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

# Lists in the section `containers` of Podman's files.
SETTINGS = ("devices", "env")


class Container(Value):
    """The parts of a `docker run`, a Compose service or a list of variables that decide about GPUs."""

    # "docker", "podman" or another engine's name; "" for the AMD runtime itself.
    engine: str = ""
    # Options of the engine's command in front of `run` that questions to the engine repeat.
    engine_options: tuple[str, ...] = ()
    # NAME=VALUE in the given order; a NAME alone removes the image's variable.
    environment: tuple[str, ...] = ()
    # The variables of the image, as far as they are known.
    image_environment: tuple[str, ...] = ()
    # For Podman: variables of the image that are left out, whether all are, and those of the caller that are passed on.
    unset: tuple[str, ...] = ()
    unset_all: bool = False
    host_environment: tuple[str, ...] = ()
    # As after --device: PATH[:PATH[:ACCESS]], or the qualified name of a CDI device.
    devices: tuple[str, ...] = ()
    # Directories and nodes of the host that are mounted, and their paths inside, if they hold nodes of GPUs.
    mounts: tuple[tuple[str, str], ...] = ()
    # As after --device-cgroup-rule.
    device_rules: tuple[str, ...] = ()
    # As after Podman's --cdi-spec-dir.
    cdi_directories: tuple[str, ...] = ()
    # As after each --gpus.
    gpus: tuple[str, ...] = ()
    # "" for the engine's default.
    runtime: str = ""
    # What Podman adds of its configuration files: "devices" and "env".
    settings: tuple[str, ...] = ()
    # As after Podman's --cgroup-manager and --cgroups.
    cgroup_manager: str = ""
    cgroups: str = ""
    # The directory of the caller's own settings, which rootless engines read; "" for an engine of root.
    own_settings: str = ""
    privileged: bool = False
    # As after --cap-add, without CAP_.
    capabilities: tuple[str, ...] = ()
    user: str = ""
    # Whether the image names the user, and not the command.
    is_user_of_image: bool = False
    groups: tuple[str, ...] = ()
    # The option that gives the container its own user namespace, "host" for the host's, "" for the engine's default.
    user_namespace: str = ""
    # Those of "pid", "network" and "ipc" that the container shares with the host.
    host_namespaces: tuple[str, ...] = ()
    image: str = ""
    # What Docker on this machine says about itself; nothing of a simulated host's, and of one that did not answer.
    info: EngineInfo = EngineInfo()
    # Whether Podman serves Docker's API, as far as the address or its answer says.
    is_podman_api: bool = False
    # Whether the engine did not answer. It is then not asked again, because waiting for a hung engine takes long.
    is_engine_silent: bool = False
    # What was not known in time, as a clause; "" if nothing was.
    late: str = ""
    # Whether the engine knows the image, and so its variables and its user.
    is_image_known: bool = False
    # The path of a script in front of the engine, which may add options.
    wrapper: str = ""
    # Options that are not read, but can change what the container gets.
    unread: tuple[str, ...] = ()
    # Options for GPUs behind the image, and all options of the engine right behind it: its program gets them.
    misplaced: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    # Why the engine or its caller refuses the container, and what Compose leaves out.
    refusals: tuple[ToolkitError, ...] = ()
    problems: tuple[str, ...] = ()
    # Remarks on how the container was read, for example if its engine may read it differently.
    notes: tuple[str, ...] = ()

    @property
    def is_rootless(self) -> bool:
        """Return whether the container's engine runs without root, as its address or its answer says."""
        return bool(self.own_settings) or self.info.is_rootless

    @property
    def variables(self) -> list[str]:
        """Return the environment that the engine makes of all these variables, NAME=VALUE."""
        return _join_as_podman(self) if self.maker == PODMAN else _join_as_docker(self)

    @property
    def maker(self) -> str:
        """Return the engine that makes the container: Podman may do so for Docker's client."""
        return PODMAN if self.is_podman_api else self.engine


def _join_as_docker(container: Container) -> list[str]:
    """Return the user's variables, duplicates included, and those of the image that the user does not name."""
    named = {entry.partition("=")[0] for entry in container.environment}
    image = (entry for entry in container.image_environment if entry.partition("=")[0] not in named)
    return [*image, *(entry for entry in container.environment if "=" in entry)]


def _join_as_podman(container: Container) -> list[str]:
    image = () if container.unset_all else container.image_environment
    kept = (entry for entry in image if entry.partition("=")[0] not in container.unset)
    entries = (*kept, *container.host_environment, *container.environment)
    return list({entry.partition("=")[0]: entry for entry in entries if "=" in entry}.values())


class ExplainError(ToolkitError):
    """A container that cannot be explained, because its words, its file or its engine cannot be read."""

    exit_code = 2
