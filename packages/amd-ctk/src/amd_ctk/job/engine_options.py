"""Find the options with which a job's `docker run` or `podman run` gives its container the GPUs, by asking the engine.

Without the AMD runtime or a CDI device, such a container starts but has no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amd_ctk.cdi.engine_devices import read_spec_files, resolve_devices
from amd_ctk.configuration.engine import is_amd_runtime
from amd_ctk.engines.engine_address import find_own_settings, is_elsewhere, leads_to_rootless
from amd_ctk.engines.engine_answers import ENGINE_SECONDS, ask_info
from amd_ctk.engines.engine_words import (
    DOCKER,
    PODMAN,
    engine_of,
    environment_of,
    find_engine,
    find_run,
    own_values,
    without_group,
    without_prefixes,
)
from amd_ctk.explain.container import ExplainError
from amd_ctk.explain.engine_view import without_runtime
from amd_ctk.explain.run_options import GPU_NODE, NODE_OPTIONS, is_on
from amd_ctk.explain.run_words import read_options
from amd_device_spec.cdi import KIND
from amdgpu_discovery.command_line.programs import Answer, ask
from amdgpu_discovery.command_line.stderr import print_note
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

RUNTIME = "--runtime=amd"
# Podman knows --runtime only if it starts containers itself.
PODMAN_SERVICE_HINT = "run 'sudo amd-ctk cdi generate': Podman's service takes no --runtime"
# These runtimes ignore AMD_VISIBLE_DEVICES.
PLAIN_RUNTIMES = ("runc", "crun", "io.containerd.runc.v2")


class NoGpusByEngine(ToolkitError):
    """The engine would start the container without the GPUs of its job."""

    exit_code = 126


class EngineOptions(Value):
    """The options that an engine's `run` needs for GPUs: `fixed` ones, and with CDI one for each GPU."""

    fixed: tuple[str, ...] = ()
    has_cdi: bool = False
    # Whether the `docker` of the command is known to lead to an engine without root.
    is_rootless: bool = False

    def for_gpus(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """Return the options for the GPUs with these numbers."""
        return (*self.fixed, *(f"--device={KIND}={number}" for number in numbers if self.has_cdi))


def find_options(argv: Sequence[str], host: Host, environment: Mapping[str, str]) -> EngineOptions:
    """Return the options that a command lacks to get the GPUs; NoGpusByEngine if its engine cannot provide any.

    A command that asks for GPUs itself, or that leads to an engine elsewhere, gets no options.
    """
    prefix, argv = argv[: find_engine(argv)], argv[find_engine(argv) :]
    position = find_run(argv)
    if position is None:
        return EngineOptions()
    environment = environment_of(without_prefixes([*prefix, argv[0]]), environment)
    engine = engine_of(argv[0])
    before = without_group([*argv[1:position]])
    try:
        options = read_options(argv)
    except ExplainError:
        # The engine will refuse the command with its own message.
        return EngineOptions()
    if _requests_gpus(options):
        return EngineOptions()
    chosen = (options.get("runtime") or own_values(before, "--runtime") or [""])[-1]
    if is_elsewhere(engine, before, environment):
        if chosen in ("", *PLAIN_RUNTIMES):
            # Podman's service takes no --runtime.
            option = f"--device {KIND}=NUMBER" if engine == PODMAN else RUNTIME
            print_note(f"the command may go to an engine on another machine: if the container has no GPU, add {option}")
        return EngineOptions()
    if chosen in PLAIN_RUNTIMES:
        raise NoGpusByEngine(f"the container runs under {chosen}, which gives it no GPU", hint=f"write {RUNTIME}")
    if chosen:
        return EngineOptions(is_rootless=engine == DOCKER and leads_to_rootless(engine, before, environment))
    command = [*prefix, argv[0], *before]
    refusal = without_runtime(engine, find_own_settings(environment, engine, before))
    return _of_podman(command, host) if engine == PODMAN else _of_docker(command, host, refusal)


def _requests_gpus(options: dict[str, list[str]]) -> bool:
    nodes = [value for name in NODE_OPTIONS for value in options.get(name, ())]
    nodes += [value for value in options.get("device", ()) if value.startswith("/")]
    has_names = any(value.startswith(f"{KIND}=") for value in options.get("device", ()))
    return has_names or is_on(options, "privileged") or "gpus" in options or any(map(GPU_NODE.search, nodes))


def _of_docker(command: Sequence[str], host: Host, refusal: ToolkitError) -> EngineOptions:
    info = ask_info(command)
    if info.is_podman and not info.runtimes:
        # The `docker` of podman-docker describes itself as Podman does.
        return _of_podman(command, host).replace(is_rootless=info.is_rootless)
    if not info.runtimes:
        return _without_answer(info.answer, command)
    ours = [name for name, program in info.runtimes.items() if name == "amd" or is_amd_runtime(program)]
    if info.default_runtime in ours:
        return EngineOptions(is_rootless=info.is_rootless)
    if info.is_podman:
        # Podman's Docker API drops the runtime of a container.
        return _by_cdi(host, ToolkitError("Podman's Docker API takes no runtime", hint=PODMAN_SERVICE_HINT))
    if ours:
        return EngineOptions(fixed=(f"--runtime={ours[0]}",), is_rootless=info.is_rootless)
    return _by_cdi(host, refusal, reads_specs=bool(info.cdi_directories))


def _of_podman(command: Sequence[str], host: Host) -> EngineOptions:
    program = ("info", "--format", "{{.Host.OCIRuntime.Path}} {{.Host.ServiceIsRemote}}")
    # Podman lists no runtimes, and fails if it does not know the name of one.
    with_ours = ask([*command, RUNTIME, *program], seconds=ENGINE_SECONDS)
    if with_ours.succeeded:
        return EngineOptions(fixed=(RUNTIME,))
    if with_ours.is_late:
        return _without_answer(with_ours, command)
    default = ask([*command, *program], seconds=ENGINE_SECONDS)
    if not default.succeeded:
        return _without_answer(default, command)
    path, _, is_service = default.output.strip().partition(" ")
    if is_amd_runtime(path):
        return EngineOptions()
    refusal = without_runtime(PODMAN)
    return _by_cdi(host, ToolkitError(refusal.message, hint=PODMAN_SERVICE_HINT) if is_service == "true" else refusal)


def _by_cdi(host: Host, refusal: ToolkitError, *, reads_specs: bool = True) -> EngineOptions:
    names = (device.name for device in resolve_devices(read_spec_files(host)) if reads_specs)
    if any(name.startswith(f"{KIND}=") for name in names):
        return EngineOptions(has_cdi=True)
    raise NoGpusByEngine(refusal.message, hint=refusal.hint)


def _without_answer(answer: Answer, command: Sequence[str]) -> EngineOptions:
    """Return no options if the engine does not answer: its own error follows, unless it is only slow.

    Behind a sudo that needs a password, the engine gets the AMD runtime, and refuses it if it does not know it.
    """
    if answer.is_late:
        print_note(f"{answer.problem}: if the container has no GPU, add {RUNTIME}")
    elif without_prefixes(command).is_sudo and "sudo:" in answer.errors:
        # sudo has no terminal here to ask for a password.
        print_note(f"sudo needs a password to ask the engine, so {RUNTIME} is added")
        return EngineOptions(fixed=(RUNTIME,))
    return EngineOptions()
