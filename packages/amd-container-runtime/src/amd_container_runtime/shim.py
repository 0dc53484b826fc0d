"""The OCI runtime that engines call: prepares container starts, then becomes runc for every call."""

from __future__ import annotations

import posix
import sys

from amd_container_runtime.runc import NAMES, find_low_level_runtime, hand_over, maker_of, parse_call
from amd_device_spec.settings import Settings, read_settings
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import absolute, writable_by_others
from amdgpu_discovery.host import host_from_environment, read_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from amd_container_runtime.runc import Call
    from amdgpu_discovery.host import Host


def main() -> NoReturn:
    """Serve one call; end as the low-level runtime, or with one sentence and a non-zero exit code."""
    args = sys.argv[1:]
    call = parse_call(args)
    try:
        _serve(call, args)
    except ToolkitError as error:
        from amd_container_runtime.report import report_failure

        report_failure(call, str(error))
        sys.exit(error.exit_code)
    except Exception as error:
        from amd_container_runtime.report import report_failure

        report_failure(call, f"internal error, please report it: {type(error).__name__}: {error}")
        raise


def _serve(call: Call, args: list[str]) -> NoReturn:
    environment = read_environment()
    if call.starts_container and not call.asks_for_help:
        program = _prepare_start(call, environment)
    else:
        maker = maker_of(call.names, call.root, environment)
        program = _find_program(_settings_or_defaults(environment), environment, maker)
    if call.asks_for_version:
        _show_versions(program, args)
    if call.asks_for_help and not call.command:
        print("\nAMD Container Runtime is a wrapper over runc. Below is the help for runc.\n", flush=True)
    hand_over(program, args, posix.environ)


def _find_program(settings: Settings, environment: Mapping[str, str], maker: str = "") -> str:
    path = environment.get("PATH", "")
    return find_low_level_runtime(settings.low_level_runtime, path, own_path=absolute(sys.argv[0]), maker=maker)


def _show_versions(program: str, args: list[str]) -> NoReturn:
    """Print the version of the low-level runtime, then ours in a line of the same form.

    containerd's go-runc wants "runc version" in the first line. dockerd takes the last line that contains "version".
    """
    from importlib.metadata import version

    pid = posix.posix_spawn(program, [program, *args], posix.environ)
    status = posix.waitstatus_to_exitcode(posix.waitpid(pid, 0)[1])
    print(f"amd-container-runtime: {version('amd-container-runtime')}")
    sys.exit(status)


def _read_surroundings(environment: Mapping[str, str]) -> tuple[Host, Settings]:
    host = host_from_environment(environment)
    return host, read_settings(host)


def _settings_or_defaults(environment: Mapping[str, str]) -> Settings:
    """Return the settings for a call that starts nothing; a broken configuration must not make `delete` fail."""
    try:
        return _read_surroundings(environment)[1]
    except ToolkitError:
        return Settings()


def _prepare_start(call: Call, environment: Mapping[str, str]) -> str:
    """Prepare the bundle of a starting container; return the program that creates the container."""
    from amd_container_runtime.create import add_requested_gpus
    from amd_container_runtime.report import Log
    from amd_device_spec.oci import KEEP_GROUPS, maker_for

    host, settings = _read_surroundings(environment)
    # Looked up first: a container that cannot be created needs no edits.
    program = _find_program(settings, environment)
    log = Log(host, level=settings.log_level, path=settings.log_file, home=environment.get("HOME", ""))
    # Programs found in PATH belong to the distribution.
    if "/" in settings.low_level_runtime and (replaceable := writable_by_others(program)):
        log.write("warn", f"{program} can be replaced by users other than root, who may write to {replaceable}")
    try:
        spec = add_requested_gpus(call, host, settings, log, program)
    except ToolkitError as error:
        from amdgpu_discovery.usage.people import read_user_names

        # Its user reads it in the engine's message.
        told = error.told(lambda uid: read_user_names(host).get(uid, f"user {uid}"))
        log.write("error", str(told), container=call.container_id)
        raise told from None
    maker = maker_for(spec)
    if not maker:
        return program
    program = _find_program(settings, environment, maker)
    if program.rpartition("/")[2] in NAMES and not program.endswith(f"/{maker}"):
        missing = f"{KEEP_GROUPS}=1 needs {maker}, which is not installed: {program} makes the container without it"
        log.write("warn", missing, container=call.container_id)
    return program
