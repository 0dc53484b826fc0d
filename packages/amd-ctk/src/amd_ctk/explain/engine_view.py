"""Which runtime an engine would call for a container, and how it translates `--gpus`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from shutil import which

from amd_ctk.cdi.engine_devices import read_spec_files, resolve_devices
from amd_ctk.cdi.generate_options import SPEC_DIRECTORIES
from amd_ctk.configuration.engine import is_amd_runtime
from amd_ctk.engines import docker
from amd_ctk.engines.engine_address import PODMAN_API_FIX, is_elsewhere
from amd_ctk.engines.engine_answers import ENGINE_SECONDS, ask_info
from amd_ctk.engines.engine_words import DOCKER, PODMAN
from amd_ctk.engines.podman_files import FIRST_WITH_SPEC_DIRECTORIES, podman_files
from amd_ctk.explain.container import Container
from amd_ctk.explain.run_options import GpusRequest, parse_gpus, split_values
from amd_device_spec.cdi import KIND, VENDOR
from amd_device_spec.cdi.version import unread_versions
from amdgpu_discovery.command_line.programs import ask, parse_version, runs_systemd
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.configuration.engine_files import EngineFiles
    from amd_ctk.configuration.unit_files import CommandLine

AMD = "amd"
# Podman finds these without configuration.
RUNTIMES_OF_PODMAN = frozenset(
    ("crun", "crun-wasm", "crun-vm", "kata", "krun", "ocijail", "runc", "runj", "runsc", "youki")
)
# Podman 4.3 drops such requests, 5.4 heeds them.
FIRST_PODMAN_API_WITH_CDI = (5,)
CONFIGURE = {
    "docker": "run 'sudo amd-ctk runtime configure' and 'sudo systemctl restart docker'",
    "podman": "run 'sudo amd-ctk runtime configure --runtime=podman'",
}
# Drivers of `--gpus`; "" is the first that serves GPUs.
CDI_DRIVER = "cdi"
AMD_DRIVERS = ("", "amd")
AMD_CAPABILITIES = frozenset(("gpu", "amd"))
MOST_COUNTED_GPUS = 64
NVIDIA = "nvidia.com"
# The cgroup driver of engines that leave cgroups to systemd.
SYSTEMD = "systemd"
# The values of Podman's --cgroups with which systemd does not make a container's cgroup.
NO_CGROUP, SPLIT = "disabled", "split"
# The first Podman whose --gpus looks for the vendor (https://github.com/containers/podman/pull/28008).
FIRST_PODMAN_WITH_GPUS = (6,)


class RuntimeView(Value):
    """The runtime that an engine calls for a container: whether it is amd-container-runtime, and if not, why."""

    is_amd_runtime: bool
    problem: str = ""
    # "amd" for the AMD runtime, "" if the engine's files name none.
    name: str = ""
    # Why the engine does not start the container at all.
    refusal: ToolkitError | None = None


def add_info(container: Container, host: Host) -> Container:
    """Return a container with what Docker says about itself, if it is on this machine; it is asked once."""
    is_here = host.is_this_machine and not is_elsewhere(DOCKER, container.engine_options, os.environ)
    if container.engine != DOCKER or not is_here or container.is_engine_silent:
        return container
    info = ask_info([DOCKER, *container.engine_options])
    late = info.answer.problem if info.answer.is_late else ""
    is_podman_api = container.is_podman_api or info.is_podman
    return container.replace(info=info, is_engine_silent=not info.version, late=late, is_podman_api=is_podman_api)


def without_dropped(container: Container) -> Container:
    """Return a container without what Podman drops of a request to Docker's API, which it does not say."""
    if not container.is_podman_api:
        return container
    has_cdi = not () < container.info.version < FIRST_PODMAN_API_WITH_CDI
    kept = tuple(asked for asked in container.gpus if has_cdi and _is_cdi(asked))
    options = [f"--runtime={container.runtime}"] if container.runtime else []
    options += [f"--gpus {asked}" for asked in container.gpus if asked not in kept]
    return container.replace(
        runtime="",
        gpus=kept,
        problems=(
            *container.problems,
            *(f"Podman's Docker API drops {option}: {PODMAN_API_FIX}" for option in options),
        ),
    )


def _is_cdi(asked: str) -> bool:
    try:
        request = parse_gpus(asked)
        # A count of CDI devices is dropped too.
        return request.driver == CDI_DRIVER and bool(request.devices)
    except ToolkitError:
        # The client refuses it.
        return True


def find_runtime(container: Container, host: Host) -> RuntimeView:
    """Return the runtime that a container would run under, according to the engine's files on this host."""
    if not container.engine:
        return RuntimeView(is_amd_runtime=True)
    names, amd_names, default = _read_runtimes(container, host)
    chosen = container.runtime or default
    if chosen in amd_names or is_amd_runtime(chosen):
        return RuntimeView(is_amd_runtime=True, name=AMD, refusal=_refuse_without_cgroup(container, chosen, host))
    if chosen == AMD:
        return RuntimeView(is_amd_runtime=False, refusal=without_runtime(container.engine, container.own_settings))
    if chosen and chosen not in names and not _may_be_runtime(container.engine, chosen, host):
        problem = f"{container.engine} has no runtime {chosen!r}"
        return RuntimeView(is_amd_runtime=False, refusal=ToolkitError(problem, hint="add --runtime=amd"))
    if container.is_podman_api:
        # What it drops is a problem already.
        problem = "" if container.problems else f"Podman's Docker API takes no runtime: {PODMAN_API_FIX}"
        return RuntimeView(is_amd_runtime=False, problem=problem, name=chosen)
    if container.engine == PODMAN and host.is_this_machine and which("crun") is None:
        chosen = chosen or "runc"
    name = chosen or ("crun or runc" if container.engine == PODMAN else "runc")
    problem = f"the container runs under {name}: add --runtime={next(iter(amd_names), 'amd')}"
    return RuntimeView(is_amd_runtime=False, problem=problem, name=chosen)


def without_runtime(engine: str, own_settings: str = "") -> ToolkitError:
    """Return why a container with --runtime=amd does not start if its engine has no such runtime."""
    usual = CONFIGURE.get(engine, CONFIGURE["docker"])
    hint = _configure_own(own_settings) if own_settings and engine == DOCKER else usual
    return ToolkitError(f"{engine} has no runtime amd", hint=hint)


def _configure_own(own_settings: str, option: str = "") -> str:
    command = f"amd-ctk runtime configure --config-path={own_settings}/{docker.ROOTLESS_FILE}{option}"
    return f"run '{command}' and 'systemctl --user restart docker'"


def _docker_file(own_settings: str, host: Host) -> str:
    # Only commands of Docker need what reads units.
    from amd_ctk.configuration.own_file import find_path

    return f"{own_settings}/{docker.ROOTLESS_FILE}" if own_settings else find_path(host, docker.DOCKER)


def read_files(container: Container, host: Host) -> EngineFiles:
    """Return the configuration files of a container's engine."""
    # Only an engine's command needs its files.
    from amd_ctk.configuration.engine_files import LARGEST_OF_DOCKER, EngineFiles

    own = container.own_settings
    if container.maker == PODMAN:
        # The library for Podman's configuration takes as long to load as everything else here.
        from amd_ctk.engines import podman

        return EngineFiles(host, podman.PODMAN, podman_files(host, own))
    return EngineFiles(host, docker.DOCKER, [_docker_file(own, host)], largest=LARGEST_OF_DOCKER)


def _daemon_options(container: Container, host: Host) -> CommandLine:
    """Return the command line of root's dockerd, which says the same as daemon.json; an empty one of other engines."""
    from amd_ctk.configuration.unit_files import CommandLine, read_command_line

    is_of_root = not (container.maker == PODMAN or container.is_rootless)
    return read_command_line(host, f"{docker.DOCKER.service}.service") if is_of_root else CommandLine()


def _may_be_runtime(engine: str, name: str, host: Host) -> bool:
    """Return whether an engine may have a runtime that its files do not name."""
    if engine == PODMAN:
        return name in RUNTIMES_OF_PODMAN or (name.startswith("/") and os.path.exists(host.path(name)))
    return engine != DOCKER or name == "runc" or name.startswith("io.containerd.")


def _read_runtimes(container: Container, host: Host) -> tuple[list[str], list[str], str]:
    """Return the names of an engine's runtimes, those of the AMD runtime, and the default one."""
    programs, default = container.info.runtimes, container.info.default_runtime
    if not programs:
        programs, default = read_files(container, host).read_runtimes()
        options = _daemon_options(container, host)
        programs |= dict(value.partition("=")[::2] for value in options.values_of("--add-runtime"))
        default = [default, *options.values_of("--default-runtime")][-1]
    return [*programs], [name for name, program in programs.items() if is_amd_runtime(program)], default


def find_cdi_refusal(container: Container, version: tuple[int, ...], host: Host) -> ToolkitError | None:
    """Return why an engine of this version refuses every CDI device, None if it takes them, as Podman always does."""
    if container.maker != DOCKER:
        return None
    own = container.own_settings
    # An unknown engine counts as a new one.
    setting = read_files(container, host).last(docker.LAYOUT.cdi or ())
    if docker.has_cdi_on(version or docker.FIRST_GPUS_BY_CDI, setting if isinstance(setting, bool) else None):
        return None
    if () < version < docker.FIRST_WITH_CDI:
        return ToolkitError(f"Docker {_dotted(version)} has no CDI", hint="use --runtime=amd -e AMD_VISIBLE_DEVICES=0")
    usual = "run 'sudo amd-ctk runtime configure --cdi' and 'sudo systemctl restart docker'"
    return ToolkitError("Docker's CDI is off", hint=_configure_own(own, " --cdi") if own else usual)


def maps_users(container: Container, host: Host) -> bool:
    """Return whether root's daemon gives containers a user namespace unless they ask for the host's."""
    if container.engine != DOCKER or container.is_rootless:
        return False
    if container.info.version:
        return container.info.maps_users
    setting = read_files(container, host).last(("userns-remap",))
    return (isinstance(setting, str) and bool(setting)) or any(
        _daemon_options(container, host).values_of("--userns-remap")
    )


def is_by_systemd(container: Container, host: Host) -> bool | None:
    """Return whether the engine has systemd make a container's cgroup, None if that is not known."""
    driver = container.info.cgroup_driver or container.cgroup_manager
    if container.engine == PODMAN and _mode_of_cgroups(container, host) in (NO_CGROUP, SPLIT):
        return False
    if container.engine == PODMAN and not driver:
        setting = read_files(container, host).last(("engine", "cgroup_manager"))
        if not isinstance(setting, str):
            return runs_systemd(host) if host.is_this_machine else None
        driver = setting
    return driver == SYSTEMD if driver else None


def _mode_of_cgroups(container: Container, host: Host) -> object:
    return container.cgroups or read_files(container, host).last(("containers", "cgroups"))


def _refuse_without_cgroup(container: Container, runtime: str, host: Host) -> ToolkitError | None:
    """Return why Podman refuses a container without a cgroup: only runtimes that a setting names make one."""
    if container.engine != PODMAN or _mode_of_cgroups(container, host) != NO_CGROUP:
        return None
    named = read_files(container, host).last(("engine", "runtime_supports_nocgroup"))
    is_able = isinstance(named, list) and os.path.basename(runtime) in named
    return None if is_able else ToolkitError(f"podman refuses {runtime} without cgroups", hint="add --cgroups=enabled")


def find_cdi_directories(container: Container, host: Host) -> tuple[str, ...]:
    """Return the directories in which a container's engine looks for CDI specs."""
    # Only CDI devices need what reads these settings.
    from amd_ctk.cdi.engine_directories import find_directories, normalized

    if container.maker == DOCKER:
        told = normalized(container.info.cdi_directories or ())
        return told or find_directories(host, docker.DOCKER, [_docker_file(container.own_settings, host)])
    version = find_version(container, host)
    if container.maker != PODMAN or () < version < FIRST_WITH_SPEC_DIRECTORIES:
        return SPEC_DIRECTORIES
    # The library for Podman's configuration takes as long to load as everything else here.
    from amd_ctk.engines import podman

    files = podman_files(host, container.own_settings)
    return normalized(container.cdi_directories) or find_directories(host, podman.PODMAN, files)


def translate_gpus(container: Container, host: Host) -> Container:
    """Return a container with `--gpus` as this machine's engine passes it on; an unknown engine counts as a new one."""
    version = find_version(container, host) if container.gpus else ()
    if container.gpus and not version:
        container = container.replace(is_engine_silent=True)
    for asked in container.gpus:
        try:
            container = (
                _translate_for_podman(container, asked, version, host)
                if container.engine == PODMAN
                else _translate_for_docker(container, asked, version, host)
            )
        except ToolkitError as error:
            container = container.replace(refusals=(*container.refusals, error))
    return container


def _translate_for_podman(container: Container, asked: str, version: tuple[int, ...], host: Host) -> Container:
    if not version:
        note = (
            f"--gpus {asked} is --device amd.com/gpu={asked} since Podman 6; Podman 5 looks for"
            " GPUs of NVIDIA, and Podman 4 ignores it: use --device amd.com/gpu=0"
        )
        return _with_notes(container, note)
    if version < (5,):
        return _with_notes(container, f"Podman {_dotted(version)} ignores --gpus: use --device amd.com/gpu=0")
    vendor = NVIDIA if version < FIRST_PODMAN_WITH_GPUS else _find_vendor(_find_devices(container, version, host))
    names = split_values(asked, "gpus")
    if names and not vendor:
        problem = f"--gpus {asked}: Podman finds no CDI spec of amd.com"
        raise ToolkitError(problem, hint="run 'sudo amd-ctk cdi generate'")
    devices = [f"{vendor}/gpu={name}" for name in names]
    return _with_devices(container, asked, devices, f"in Podman {_dotted(version)}") if devices else container


def _translate_for_docker(container: Container, asked: str, version: tuple[int, ...], host: Host) -> Container:
    request = parse_gpus(asked)
    _require_driver(container, request, asked, version, host)
    if request.driver == CDI_DRIVER:
        return _with_devices(container, asked, request.devices, "since Docker 25")
    devices = _devices_of(request)
    if version >= docker.FIRST_GPUS_BY_CDI and not find_cdi_refusal(container, version, host):
        names = [name if "=" in name else f"{KIND}={name}" for name in devices.split(",")]
        found = _find_devices(container, version, host)
        # Of names that no spec has, Docker makes a variable.
        if _find_vendor(found) == VENDOR and set(names) <= found:
            return _with_devices(container, asked, names, f"in Docker {_dotted(version)}")
    notes = [f"--gpus {asked} is AMD_VISIBLE_DEVICES={devices} since Docker 28.3; earlier versions refuse it"]
    if not version:
        notes.append("Docker 29.3 and later pass CDI devices in its place where there is a CDI spec")
    # Docker adds this after it has merged image and command line, so the image's own variable stays too.
    environment = (*container.variables, f"AMD_VISIBLE_DEVICES={devices}")
    return _with_notes(container, *notes).replace(environment=environment, image_environment=())


def _with_devices(container: Container, asked: str, names: Sequence[str], since: str) -> Container:
    note = f"--gpus {asked} is --device {' --device '.join(names)} {since}"
    return _with_notes(container, note).replace(devices=(*container.devices, *names))


def _with_notes(container: Container, *notes: str) -> Container:
    return container.replace(notes=tuple(dict.fromkeys((*container.notes, *notes))))


def _require_driver(
    container: Container, request: GpusRequest, asked: str, version: tuple[int, ...], host: Host
) -> None:
    """Raise ToolkitError if no driver of this Docker serves a request."""
    if request.driver == CDI_DRIVER:
        if refusal := find_cdi_refusal(container, version, host):
            raise refusal
        if request.count:
            problem = f"--gpus {asked}: docker refuses it: unexpected count in CDI device request"
            raise ToolkitError(problem, hint="name the devices, as in --gpus driver=cdi,device=amd.com/gpu=0")
    elif request.driver not in AMD_DRIVERS or not AMD_CAPABILITIES.issuperset(request.capabilities):
        problem = f'--gpus {asked}: docker refuses it: could not select device driver "{request.driver}"'
        raise ToolkitError(problem, hint="use --runtime=amd -e AMD_VISIBLE_DEVICES=0")
    elif version and version < docker.FIRST_WITH_GPUS:
        problem = f"--gpus {asked}: Docker {_dotted(version)} does not know AMD GPUs"
        raise ToolkitError(problem, hint="use --runtime=amd -e AMD_VISIBLE_DEVICES=0")


def _find_devices(container: Container, version: tuple[int, ...], host: Host) -> set[str]:
    """Return the names of the CDI devices of all vendors that an engine of this version reads."""
    unread = unread_versions(container.maker.capitalize(), version)
    directories = read_spec_files(host, find_cdi_directories(container, host))
    read = [[file for file in files if file.version not in unread] for files in directories]
    return {device.name for device in resolve_devices(read) if not device.is_conflict}


def _find_vendor(devices: Iterable[str]) -> str:
    """Return whose GPUs `--gpus` means, "" if it is refused. Engines look for NVIDIA's specs first."""
    vendors = {name.partition("/")[0] for name in devices}
    return next((vendor for vendor in (NVIDIA, VENDOR) if vendor in vendors), "")


def find_version(container: Container, host: Host) -> tuple[int, ...]:
    """Return the version of the engine on this machine, () if it is unknown or the host is simulated."""
    if container.engine != PODMAN:
        return container.info.version
    if not host.is_this_machine or container.is_engine_silent:
        return ()
    # For this word, Podman does not set itself up.
    return parse_version(ask([PODMAN, "--version"], seconds=ENGINE_SECONDS).output)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _devices_of(request: GpusRequest) -> str:
    """Return the value that Docker writes into AMD_VISIBLE_DEVICES."""
    if request.devices:
        return ",".join(request.devices)
    if request.count < 0:
        return "all"
    return ",".join(map(str, range(min(request.count, MOST_COUNTED_GPUS)))) or "void"
