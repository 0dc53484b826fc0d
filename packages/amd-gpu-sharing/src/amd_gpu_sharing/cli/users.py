"""amd-ctk users: who may reserve GPUs without root."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from enum import Enum
from typing import Annotated

import typer

from amd_gpu_sharing.broker.requests.people import GROUP_SIGN, LONGEST_LIMIT, MOST_REQUESTED_GPUS, NO_LIMIT, Permission
from amd_gpu_tracker.errors import OptionsExcluded
from amdgpu_discovery.command_line.context import (
    TRACKER_PROGRAM,
    PrintJson,
    announce,
    command_group,
    host_of,
    whole_number,
)
from amdgpu_discovery.command_line.edited import preview_edit, up_to_date
from amdgpu_discovery.command_line.plain_help import NOTHING_CHANGED, NOTHING_WOULD_CHANGE, DryRun, examples

app = command_group("Users who may reserve GPUs without root")

NEEDS_RESERVATION = "Containers get only reserved GPUs"
WOULD_NEED_RESERVATION = "Containers would get only reserved GPUs"
WOULD_GET_ANY = "Containers would get the GPUs that they ask for"
LIST = "see 'amd-ctk users list'"
Who = Annotated[str, typer.Argument(metavar="WHO", help="A user, @GROUP, or everyone.")]


@app.command()
@examples(
    "sudo amd-ctk users allow alice --gpus=2",
    "sudo amd-ctk users allow @gpu",
    "sudo amd-ctk users allow @lab-a --gpus=4 --together",
    "sudo amd-ctk users allow everyone --gpus=1 --groups=notebooks",
    "sudo amd-ctk users allow guest --gpus=1 --until='Fri 18:00'",
    "amd-ctk users allow @gpu --gpus=2 --dry-run",
)
def allow(
    context: typer.Context,
    who: Who,
    *,
    gpus: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT",
            parser=whole_number(0, MOST_REQUESTED_GPUS),
            help="How many GPUs at once, at most; 0 for none.",
        ),
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="COUNT is for all members of @GROUP together, not for each.")
    ] = False,
    duration: Annotated[
        str, typer.Option("--time", metavar="DURATION", help="How long a job may have its GPUs: 30m, 24h or 7d.")
    ] = "",
    groups: Annotated[
        str, typer.Option(metavar="GROUP,...", help="Allow only these groups of the setting gpu-groups.")
    ] = "",
    until: Annotated[
        str, typer.Option(metavar="TIME", help="When the rule ends: Fri, 'Fri 18:00' or 2026-12-04.")
    ] = "",
    shared: Annotated[
        bool, typer.Option("--shared", help="With the first rule: do not make the GPUs exclusive.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Let a user or a group reserve GPUs without root.

    The first rule on a host also enables the GPU Tracker if it never was enabled, makes all GPUs exclusive that no
    two containers use, and lets the service listen.

    They can then use 'amd-ctk run', 'reserve' and 'queue'. With --time, a job gets a warning 10 minutes before its
    time ends. Then it gets SIGTERM, and SIGKILL 30 seconds later.

    A rule for a user overrides rules for groups, which override the rule for everyone. --gpus=0 excludes
    a user whom another rule allows. After --until, it is as if the rule was removed, and no job under it runs longer.
    """
    from amd_device_spec.settings_file import save_settings
    from amd_gpu_sharing.rules import first_rule, permissions
    from amd_gpu_sharing.rules import units as service
    from amd_gpu_tracker.cli import CommandProgram
    from amd_gpu_tracker.times import parse_at_most, parse_moment

    if together and not (gpus and who.startswith(GROUP_SIGN)):
        raise typer.BadParameter("--together needs a group and a count: 'users allow @GROUP --gpus=4 --together'")
    host = host_of(context)
    chosen = [word for word in groups.split(",") if word]
    rule = Permission(
        who=who,
        gpus=gpus or NO_LIMIT,
        seconds=parse_at_most(duration, LONGEST_LIMIT),
        groups=tuple(chosen),
        is_together=together,
        is_excluded=gpus == 0,
        until=int(parse_moment(until, now=time.time())) if until else 0,
    )
    written, edited = permissions.allow(host, rule)
    program = context.meta.get(TRACKER_PROGRAM, CommandProgram)(host)
    is_first = first_rule.is_never_tracked(host) and not rule.is_excluded
    may_be_gap = not (is_first or shared or rule.is_excluded or permissions.read_permissions(host))
    if dry_run:
        for step in first_rule.preview_host(program, keeps_modes=shared) if is_first else ():
            print(step)
        preview_edit(edited, service.enable(host, dry_run=True))
        return
    announce(host)
    for note in first_rule.prepare_host(program, keeps_modes=shared) if is_first else ():
        print(note, file=sys.stderr)
    is_changed = save_settings(host, edited)
    print(permissions.describe(written))
    if not is_changed:
        print(up_to_date(edited), file=sys.stderr)
    for advice in filter(None, (service.enable(host), may_be_gap and first_rule.find_gap(host))):
        print(advice, file=sys.stderr)


@app.command()
@examples("sudo amd-ctk users deny alice", "sudo amd-ctk users deny --all")
def deny(
    context: typer.Context,
    who: Annotated[
        str, typer.Argument(metavar="WHO", help="A user, @GROUP or everyone, as in 'amd-ctk users list'.")
    ] = "",
    *,
    every_rule: Annotated[bool, typer.Option("--all", help="Let only root reserve GPUs.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Revoke permission to reserve GPUs. Running jobs keep their GPUs until they end; waiting jobs end."""
    from amd_device_spec.settings_file import save_settings
    from amd_gpu_sharing.rules import access, permissions
    from amd_gpu_sharing.rules import units as service

    if every_rule == bool(who):
        raise OptionsExcluded("WHO", "--all") if who else typer.BadParameter("name WHO, or --all")
    host = host_of(context)
    left, edited = ([], permissions.deny_all(host)) if every_rule else permissions.deny(host, who)
    advice = "" if every_rule else _how_to_exclude(who, left)
    if not (edited.changed or every_rule):
        # A misspelt name is an error, unless the system knows it.
        permissions.find_person(who)
        print(f"there is no rule for {who} ({advice or LIST})", file=sys.stderr)
        return
    if dry_run:
        turned_off = [] if left else [access.preview_turn_off(host), service.disable(host, dry_run=True)]
        preview_edit(edited, *turned_off)
        return
    announce(host)
    is_changed = save_settings(host, edited)
    print("Only root may reserve GPUs" if every_rule else f"The rule for {who} is removed")
    if advice or not is_changed:
        print(advice or up_to_date(edited), file=sys.stderr)
    if not left:
        # Without rules, no user could open a GPU.
        if access.turn_off(host):
            print("Members of the nodes' group can open all GPUs again")
        service.disable(host)


def _how_to_exclude(who: str, left: Sequence[Permission]) -> str:
    """Return how to exclude a user whom rules for groups or everyone may still allow, "" if there are no such rules."""
    others = [each.who for each in left if (each.number is None or each.is_of_group) and each.who != who]
    if not others:
        return ""
    rules = f"rule{'s' if len(others) > 1 else ''} for {', '.join(others)}"
    return f"the {rules} may still allow {who}: 'sudo amd-ctk users allow {who} --gpus=0' excludes {who}"


class Switch(str, Enum):
    """Whether something is so."""

    on = "on"
    off = "off"


@app.command("require-reservation")
@examples("sudo amd-ctk users require-reservation on")
def require_reservation(
    context: typer.Context,
    switch: Annotated[Switch, typer.Argument(metavar="on|off", help="Whether containers need a reservation.")],
    *,
    dry_run: DryRun = False,
) -> None:
    """Refuse containers without a reservation.

    'amd-ctk run -- docker run ...' passes its reservation on. Root's containers need one too.
    """
    from amd_gpu_tracker import Tracker

    host = host_of(context)
    required = switch is Switch.on
    settings = Tracker(host).settings
    if dry_run:
        would = WOULD_NEED_RESERVATION if required else WOULD_GET_ANY
        is_changed = settings.requires_reservation() is not required
        print(would if is_changed else NOTHING_WOULD_CHANGE)
        return
    announce(host)
    is_changed = settings.require_reservation(required=required)
    print(NEEDS_RESERVATION if required else "Containers get the GPUs that they ask for")
    if not is_changed:
        print(NOTHING_CHANGED, file=sys.stderr)


@app.command("list")
@examples("amd-ctk users list", "amd-ctk users list --json")
def list_users(context: typer.Context, *, as_json: PrintJson = False) -> None:
    """Show who may reserve GPUs."""
    from amd_gpu_sharing.rules.permissions import format_json, format_table, read_permissions
    from amd_gpu_tracker import Tracker

    host = host_of(context)
    found = read_permissions(host)
    is_required = Tracker(host).settings.requires_reservation()
    print(format_json(found, requires_reservation=is_required) if as_json else format_table(found))
    if is_required and not as_json:
        print(NEEDS_RESERVATION)
