"""The OCI runtime that engines call: prepare what starts a container, then become runc for every call."""

from __future__ import annotations

import posix
import sys

from amd_container_runtime.arguments import parse
from amd_container_runtime.low_level import find_low_level_runtime, hand_over
from amd_device_spec.settings import Settings, read_settings
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import host_from_environment, read_environment
from amdgpu_discovery.paths import absolute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from amd_container_runtime.arguments import Call
    from amdgpu_discovery.host import Host


def main() -> NoReturn:
    """Serve one call; end as the low-level runtime, or with one sentence and a non-zero exit code."""
    words = sys.argv[1:]
    call = parse(words)
    try:
        _serve(call, words)
    except ToolkitError as error:
        from amd_container_runtime.report import report_failure

        report_failure(call, str(error))
        sys.exit(error.exit_code)
    except Exception as error:
        from amd_container_runtime.report import report_failure

        report_failure(call, f"internal error, please report it: {type(error).__name__}: {error}")
        raise


def _serve(call: Call, words: list[str]) -> NoReturn:
    starts = call.starts_container and not call.asks_for_help
    environment = read_environment()
    if starts:
        host, settings = _read_surroundings(environment)
    else:
        settings = _settings_or_defaults(environment)
    # Looked for first: a container that cannot be made is not worth an edit.
    program = find_low_level_runtime(
        settings.low_level_runtime, environment.get("PATH", ""), ourselves=absolute(sys.argv[0])
    )
    if starts:
        _prepare(call, host, settings, environment)
    elif call.asks_for_help and not call.command:
        print("\nAMD Container Runtime is a wrapper over runc. Below is the help for runc.\n", flush=True)
    hand_over(program, words, posix.environ)


def _read_surroundings(environment: Mapping[str, str]) -> tuple[Host, Settings]:
    host = host_from_environment(environment)
    return host, read_settings(host)


def _settings_or_defaults(environment: Mapping[str, str]) -> Settings:
    """Return the settings for a call that starts nothing; `delete` must not fail because a configuration is broken."""
    try:
        return _read_surroundings(environment)[1]
    except ToolkitError:
        return Settings()


def _prepare(call: Call, host: Host, settings: Settings, environment: Mapping[str, str]) -> None:
    from amd_container_runtime.create import add_requested_gpus
    from amd_container_runtime.report import Log

    log = Log(host, level=settings.log_level, path=settings.log_file, home=environment.get("HOME", ""))
    try:
        add_requested_gpus(call, host, settings, log)
    except ToolkitError as error:
        log.write("error", str(error), container=call.container_id)
        raise
