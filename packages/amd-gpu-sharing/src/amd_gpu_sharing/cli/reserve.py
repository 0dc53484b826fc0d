"""amd-ctk reserve, keep, end and release: GPUs for use by hand, for a time that can be made longer or shorter."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Annotated

import typer

from amdgpu_discovery.command_line.context import host_to_change
from amdgpu_discovery.command_line.plain_help import WaitCommand, examples

COMMAND = WaitCommand
WAIT = COMMAND.optional_values[0]


@examples("amd-ctk reserve free:2 --for=4h --name=debug", "amd-ctk reserve 0-3 --for=1d --name=paper --wait=2h")
def reserve(
    context: typer.Context,
    gpus: Annotated[str, typer.Argument(metavar="REQUEST", help="Which GPUs, or how many, as in AMD_VISIBLE_DEVICES.")],
    *,
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long: 30m, 4h or 2d.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the reservation.")] = "",
    wait: Annotated[
        str | None, typer.Option(WAIT, metavar="[=DURATION]", help="Wait in line; =30s, =10m or =2h limits the wait.")
    ] = None,
    at: Annotated[
        str, typer.Option("--at", metavar="TIME", help="Begin then: 'tomorrow 9:00', 'Mon 08:00' or 2026-12-01.")
    ] = "",
) -> None:
    """Reserve GPUs for a limited time.

    'amd-ctk run --reservation=NAME' runs commands, which share these GPUs. 'amd-ctk end NAME' gives them back
    earlier, and 'amd-ctk keep NAME 2h' keeps them for longer. Running commands get a warning 10 minutes before the
    reservation ends. At its end they get SIGTERM, and SIGKILL 30 seconds later.

    With --wait, the command waits in line with jobs until GPUs are free, and ends once they are reserved. The time
    begins then.

    With --at, it begins within the next 14 days. Until then, only jobs that end in time get its GPUs. If some of them
    may still be in use, that is said, and they are reserved as soon as they are free.
    """
    from amd_gpu_sharing.listing import ended_by_restart
    from amd_gpu_sharing.requests import reserve as reserve_gpus
    from amd_gpu_sharing.service import Service
    from amd_gpu_tracker.errors import OptionsExcluded
    from amd_gpu_tracker.times import format_moment, format_seconds, parse_at_most, parse_moment
    from amd_gpu_tracker.watch.show.jobs import describe_grant
    from amdgpu_discovery.command_line.process import end_by
    from amdgpu_discovery.command_line.stderr import print_note

    chosen = name or f"reservation-{os.getpid()}"
    seconds = parse_at_most(duration, Service.MOST_SECONDS)
    host = host_to_change(context)
    for sentence in ended_by_restart(host):
        print_note(sentence)
    if gpus.isdecimal() and int(gpus):
        print_note(f"{gpus} is GPU number {gpus}; for {gpus} free GPU{'' if gpus == '1' else 's'} write free:{gpus}")
    if at and wait is not None:
        raise OptionsExcluded("--at", WAIT)
    start = parse_moment(at, now=time.time()) if at else None
    began = time.monotonic()
    notices = list[str]()

    def notify(sentence: str) -> None:
        notices.append(sentence)
        print_note(sentence)

    try:
        got = reserve_gpus(host, chosen, gpus, seconds, wait=wait, start=start, notify=notify)
    except KeyboardInterrupt:
        end_by(signal.SIGINT)
    if start is not None:
        when = f"from {format_moment(start)} for {format_seconds(seconds)}"
        print(f"{describe_grant(got.numbers, None)} reserved as {chosen} {when}")
        if got.message:
            print_note(got.message)
        return
    waited = f" after {format_seconds(time.monotonic() - began)}" if notices else ""
    # A rule that ends may have made it shorter meanwhile. An earlier service does not say how long it lasts.
    lasts = format_seconds(got.seconds or seconds)
    print(f"{describe_grant(got.numbers, None)} reserved as {chosen} for {lasts}{waited}")


@examples("amd-ctk keep debug", "amd-ctk keep debug 2h", "sudo amd-ctk keep train 2d --user=alice")
def keep(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the reservation or job.")],
    duration: Annotated[str, typer.Argument(metavar="[DURATION]", help="How long from now: 30m, 4h or 2d.")] = "",
    *,
    user: Annotated[str, typer.Option(metavar="USER", help="Owner of the reservation or job; only for root.")] = "",
) -> None:
    """Keep reserved GPUs for longer.

    NAME is a reservation or job of 'amd-ctk queue'. It lasts for at least DURATION from now, with every command
    that uses its GPUs. You can keep your own, up to the time that 'amd-ctk users allow' gives you. Root can keep
    anyone's, without a limit. With or without DURATION, its idle time starts again at 0.
    """
    from amd_gpu_sharing.requests import change
    from amd_gpu_sharing.service import Service
    from amd_gpu_tracker.times import format_seconds, parse_at_most
    from amdgpu_discovery.usage.people import find_user

    wanted = parse_at_most(duration, Service.MOST_SECONDS)
    host = host_to_change(context)
    seconds = change(host, "keep", name, find_user(user), seconds=wanted)
    print(f"{name} ends in {format_seconds(seconds)}" if seconds else f"{name} has no time limit")


@examples("amd-ctk end debug", "sudo amd-ctk end train --user=alice")
def end(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the reservation or job.")],
    *,
    user: Annotated[str, typer.Option(metavar="USER", help="Owner of the reservation or job; only for root.")] = "",
) -> None:
    """End a reservation or a job, running or waiting.

    NAME is one of 'amd-ctk queue'. A job that waits leaves the queue. A job that runs, and every command in a
    reservation, gets SIGTERM, and SIGKILL 30 seconds later. You can end your own; root can end anyone's.
    """
    from amd_gpu_sharing.requests import cancel_job, change
    from amd_gpu_tracker.errors import NotDone
    from amdgpu_discovery.usage.people import find_user

    host = host_to_change(context)
    owner = find_user(user)
    try:
        cancel_job(host, name, owner)
    except NotDone:
        change(host, "end", name, owner)
        print(f"Ending {name}", file=sys.stderr)
        return
    print(f"{name} was removed from the queue", file=sys.stderr)


@examples("amd-ctk release debug")
def release(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the reservation.")],
    *,
    user: Annotated[str, typer.Option(metavar="USER", help="Owner of the reservation; only for root.")] = "",
) -> None:
    """Give reserved GPUs back before their time is over. A running command keeps them until it ends."""
    from amd_gpu_sharing.requests import change
    from amdgpu_discovery.usage.people import find_user

    change(host_to_change(context), "release", name, find_user(user))
    print(f"The reservation {name} has ended")
    note_new_word("release", name)


def note_new_word(old: str, name: str) -> None:
    """Say that a command has another name now. The old one goes on working."""
    from amdgpu_discovery.command_line.stderr import print_note

    print_note(f"'amd-ctk {old}' still works; 'amd-ctk end {name}' ends reservations and jobs, running or waiting")
