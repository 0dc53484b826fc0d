"""Run the most common command lines without Typer. Importing Typer takes twice as long as these commands.

The command lines in the table must match exactly and have no options. `run` may have any of its six options. Typer
reads all other command lines, and gives the same result for these.
"""

from __future__ import annotations

import os

from amdgpu_discovery.command_line.failures import report_failures
from amdgpu_discovery.host import host_from_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from amdgpu_discovery.host import Host

UNIT = "--unit"
COUNT = "--count"
VALUE_OPTIONS = ("--gpus", COUNT, "--name", "--reservation")
RUN_OPTIONS = (*VALUE_OPTIONS, "--wait", UNIT)


def find_answer(args: list[str]) -> Callable[[], object] | None:
    """Return the function that runs a command line, or None if Typer must read it."""
    if list(args) == ["--version"]:
        return lambda: report_failures(_print_version)
    answer = PRINTER_BY_COMMAND.get(tuple(args)) or _find_run(args)
    return None if answer is None else lambda: report_failures(lambda: answer(host_from_environment(os.environ)))


def parse_run(args: Sequence[str]) -> tuple[dict[str, str | int], list[str]] | None:
    """Return the options of `amd-ctk run` and the command after them. Return None if any of it is unclear."""
    rest = list(args)
    options: dict[str, str | int] = {}
    while rest and rest[0].startswith("-"):
        arg = rest.pop(0)
        if arg == "--":
            break
        name, equals, value = arg.partition("=")
        if name in VALUE_OPTIONS and not equals:
            value = rest.pop(0) if rest else ""
        if name not in RUN_OPTIONS or value.startswith("-") or (name == UNIT and equals):
            return None
        if name == COUNT and not _is_count(value):
            return None
        options[name.removeprefix("--")] = _parse_value(name, value)
    return (options, rest) if rest else None


def _parse_value(name: str, value: str) -> str | int:
    if name == UNIT:
        return True
    return int(value) if name == COUNT else value


def _is_count(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 10 and not value.startswith("0")


def _find_run(args: list[str]) -> Callable[[Host], object] | None:
    parsed = parse_run(args[1:]) if args[:1] == ["run"] else None
    if parsed is None:
        return None
    options: Any = parsed[0]

    def run(host: Host) -> None:
        from amd_ctk.job.run import plan_job, run_job

        run_job(host, plan_job(parsed[1], **options))

    return run


def _print_version() -> None:
    from amd_ctk.build import print_version

    print_version()


def _print_build(_: Host) -> None:
    from amd_ctk.build import print_build

    print_build()


def _print_gpus(host: Host) -> None:
    from amd_ctk.gpus.gpu_list import print_gpu_list

    print_gpu_list(host)


def _print_states(host: Host) -> None:
    from amd_ctk.companions import warn_of_rules
    from amd_ctk.gpus.listing import tracker_with_rules
    from amd_gpu_tracker.face.state_table import print_states

    print_states(tracker_with_rules(host))
    warn_of_rules(host)


def _watch_states(host: Host) -> None:
    from amd_ctk.gpus.listing import tracker_with_rules
    from amd_gpu_tracker.face.state_table import watch_states

    watch_states(tracker_with_rules(host))


def _print_status(host: Host) -> None:
    from amd_gpu_tracker import Tracker
    from amd_gpu_tracker.watch.show.screen import print_status

    print_status(Tracker(host).status, as_json=False, wide=False, no_trunc=False)


def _print_queue(host: Host) -> None:
    from amd_ctk.companions import SHARING, require

    require(SHARING)
    from amd_gpu_sharing import print_queue

    print_queue(host)


def _print_cdi_devices(host: Host) -> None:
    from amd_ctk.cdi.listing import print_list

    print_list(host)


PRINTER_BY_COMMAND = {
    ("version",): _print_build,
    ("status",): _print_states,
    ("top",): _watch_states,
    ("gpu", "list"): _print_gpus,
    ("gpu-tracker", "status"): _print_status,
    ("queue",): _print_queue,
    ("queue", "list"): _print_queue,
    ("cdi", "list"): _print_cdi_devices,
}
