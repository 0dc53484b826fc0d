"""The commands `amd-gpu-tracker ...`, which `amd-ctk` offers as `amd-ctk gpu-tracker ...`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from amd_gpu_tracker.book.lock import CommandLock
from amd_gpu_tracker.book.policy import EXCLUSIVE, LONGEST_GRACE, SHARED
from amd_gpu_tracker.book.user_files import LARGEST_UID
from amd_gpu_tracker.errors import NotDone, TrackerDisabled
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.command_line.plain_help import (
    NOTHING_CHANGED,
    NOTHING_WOULD_CHANGE,
    DryRun,
    PlainTyper,
    RootCommand,
    examples,
)
from amdgpu_discovery.completion import complete_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import ROOT_VARIABLE, SIMULATED_NOTICE, Host, host_from_environment
from amdgpu_discovery.plain_text import printable, printable_lines
from amdgpu_discovery.standard_output import prepare_streams, print_error, run_and_leave

if TYPE_CHECKING:
    from amd_gpu_tracker.claims.accessibility import AccessibilityChange
    from amd_gpu_tracker.watch.usage.reader import UsageReader

    # Gives GPUs of a host to people, at a socket that it makes at this path unless systemd passed one.
    Serve = Callable[[Host, str], None]

DISABLED = "GPU Tracker is disabled"
RESTART = (
    "Since GPU Tracker was enabled, it is recommended to stop and restart running containers "
    "to get the most accurate GPU Tracker status"
)
CDI_SPEC = "/etc/cdi/amd.json"
# The hidden command behind `gpu-tracker 0,1-2 exclusive`.
SET = "set"
# Commands that change nothing.
READ_ONLY = ("status", "help", "h")

# Options of `status` that AMD's program does not have. `amd-ctk status` has them.
MOVED = frozenset(("--usage", "--peak", "--refusals", "--prometheus"))
# `amd-ctk status` has the same options.
PrintJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
ShowUsage = Annotated[
    bool, typer.Option("--usage", help="Show how much memory is used, by whom, and how busy GPUs are.")
]
ShowPeaks = Annotated[
    bool, typer.Option("--peak", help="Show usage, and the most memory that each container has used.")
]
ShowRefusals = Annotated[bool, typer.Option("--refusals", help="Show which containers were refused, and why.")]
PrintMetrics = Annotated[
    bool, typer.Option("--prometheus", help="Print the usage for Prometheus's textfile collector.")
]

# How many waiting jobs a message names.
MOST_NAMED = 8
# In seconds: a hundred years.
LONGEST_DRAIN = 36500 * 86400
# Nothing notifies the tracker when a container ends.
POLL_SECONDS = 1.0

EXAMPLES = {
    "disable": ("disable",),
    "enable": ("enable",),
    "reset": ("reset", "reset --force"),
    "forget": ("forget 3",),
    "status": ("status", "status --wide", "status --watch"),
    "drain": ('drain 5 --reason "fan swap" --until Mon', "drain 0-3 --wait"),
    "undrain": ("undrain 5", "undrain all --dry-run"),
    "ignore": ("ignore 1000", "ignore 1000 --undo"),
    "holder": ("holder", "holder pod", "holder container"),
    "grace": ("grace", "grace 30", "grace 0"),
    "help": ("help status",),
}

HELP = """GPU Tracker related commands

\b
Usage:
  {program} [gpu-ids] [accessibility]

\b
Arguments:
  gpu-ids        Comma-separated list of GPU IDs (comma separated list, range operator, all)
  accessibility  Must be either 'exclusive' or 'shared'

\b
Examples:
  {program} 0,1,2 exclusive
  {program} 0,1-2 shared
  {program} all shared
  {program} all exclusive --dry-run

\b
OR

\b
  {program} [command] [options]
"""


class FindHints(Protocol):
    """Finds what an administrator must do so that programs other than the tracker know of drained GPUs."""

    def __call__(self, host: Host, /, *, is_drained: bool, reason: str) -> Sequence[str]:
        """Return a sentence for each of these programs."""


class UsageError(ToolkitError):
    """The arguments of the command line are missing, too many or contradictory."""


class TrackerGroup(RootCommand):
    """A group that reads anything other than a command as a list of GPUs and their accessibility."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run; anything that is not a command is `set`."""
        return super().resolve_command(ctx, args if args[0] in self.commands else [SET, *args])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Offer the commands, and GPU numbers, which can stand in place of a command."""
        # The class of completions depends on the version of Typer; there is always a command to take it from.
        kind = type(super().shell_complete(ctx, "")[0])
        return [*super().shell_complete(ctx, incomplete), *map(kind, complete_gpus(incomplete))]


def no_rules(_: Host) -> ChoiceRules:
    """Return the rules for choices of a program that does not read the settings."""
    return NO_RULES


def no_hints(_: Host, *, is_drained: bool, reason: str) -> Sequence[str]:  # noqa: ARG001
    """Return no hints: this program does not know which others give out GPUs."""
    return ()


def tracker_app(
    program: str,
    after_switch: Callable[[Host], None],
    find_rules: Callable[[Host], ChoiceRules] = no_rules,
    serve: Serve | None = None,
    find_hints: FindHints = no_hints,
) -> typer.Typer:
    """Make the commands; `after_switch` is called after a command has changed what a CDI spec depends on.

    `find_rules` returns the administrator's rules for choices on a host. `serve` gives GPUs to people; without it there
    is no such command. `find_hints` returns what is left to do if other programs give out drained GPUs.
    """
    app = PlainTyper(
        cls=TrackerGroup,
        help=HELP.format(program=program),
        invoke_without_command=True,
        subcommand_metavar="[gpu-ids] [accessibility] | COMMAND [ARGS]...",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    commands: dict[str, Callable[..., None]] = {
        "disable": _disabler(after_switch),
        "enable": _enabler(after_switch),
        "reset": reset,
        "status": status,
        "forget": _forgetter(after_switch),
        "drain": _drainer(find_hints),
        "undrain": _undrainer(find_hints),
        "ignore": ignore_user,
        "holder": holder,
        "grace": grace,
        "help": show_help,
    }
    for name, command in commands.items():
        app.command(name)(examples(*(f"{program} {words}" for words in EXAMPLES[name]))(command))
    hidden: dict[str, Callable[..., None]] = {
        "h": show_help,
        SET: _setter(find_rules),
        "init": initialize,
        "release": release,
    }
    hidden |= {"serve": _server(serve)} if serve else {}
    for name, command in hidden.items():
        app.command(name, hidden=True)(command)
    return app


def _enabler(after_switch: Callable[[Host], None]) -> Callable[..., None]:
    def enable(context: typer.Context) -> None:
        """Enable the GPU Tracker."""
        if not enable_tracker(host_of(context), after_switch):
            print("GPU Tracker is already enabled")

    return enable


def enable_tracker(host: Host, after_switch: Callable[[Host], None]) -> bool:
    """Enable the tracker and call `after_switch`; return False if it was enabled already."""

    def when_enabled() -> None:
        print("GPU Tracker has been enabled", flush=True)
        after_switch(host)

    return Tracker(host, lock=CommandLock).enable(tell=print_note, when_enabled=when_enabled)


def _disabler(after_switch: Callable[[Host], None]) -> Callable[..., None]:
    def disable(context: typer.Context) -> None:
        """Disable the GPU Tracker."""
        tracker = Tracker(host_of(context), lock=CommandLock)
        waiting = [ticket.name for ticket in tracker.waiting()]
        if tracker.disable():
            print("GPU Tracker has been disabled")
            if waiting:
                print_note(_end_of_wait(waiting))
            after_switch(host_of(context))
        else:
            print("GPU Tracker is already disabled")

    return disable


def _setter(find_rules: Callable[[Host], ChoiceRules]) -> Callable[..., None]:
    def set_gpus(
        context: typer.Context,
        words: Annotated[
            list[str], typer.Argument(metavar="gpu-ids accessibility", autocompletion=_offer_accessibility)
        ],
        *,
        dry_run: DryRun = False,
    ) -> None:
        """Make GPUs exclusive or shared."""
        host = host_of(context)
        set_accessibility(Tracker(host, rules=find_rules(host), lock=CommandLock), words, dry_run=dry_run)

    return set_gpus


def _forgetter(after_switch: Callable[[Host], None]) -> Callable[..., None]:
    def forget(
        context: typer.Context,
        gpus: Annotated[str, typer.Argument(metavar="GPUS", help="The numbers that lost GPUs had, or all.")],
    ) -> None:
        """Forget lost GPUs.

        Requests then mean the numbers that GPUs have now.
        """
        host = host_of(context)
        forgotten = Tracker(host, lock=CommandLock).gpus.forget(gpus)
        for number, address in forgotten.gpus:
            print(f"GPU {number} (PCI {address}) is forgotten")
        for new, old in forgotten.numbers.items():
            print(f"GPU {old} now has number {new}")
        for sentence in forgotten.said:
            print_note(sentence)
        after_switch(host)

    return forget


def _server(serve_clients: Serve) -> Callable[..., None]:
    def serve(
        context: typer.Context,
        listen: Annotated[str, typer.Option(metavar="PATH", help="Make this socket, if systemd passes none.")] = "",
    ) -> None:
        """Give GPUs to the users who may have some; systemd starts this at the first request."""
        serve_clients(host_of(context), listen)

    return serve


def reset(
    context: typer.Context,
    *,
    force: Annotated[bool, typer.Option("--force", help="Also forget the reservations of running jobs.")] = False,
) -> None:
    """Reset the GPU Tracker."""
    enabled = Tracker(host_of(context), lock=CommandLock).reset(force=force, tell=print_note)
    print("GPU Tracker has been reset")
    if enabled:
        print(RESTART)


def status(
    context: typer.Context,
    *,
    as_json: PrintJson = False,
    wide: Annotated[
        bool, typer.Option("--wide", "-w", help="Also show container names, since when, and how they got their GPUs.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print again at every change (usage: every 2 s), until Ctrl-C.")
    ] = False,
    no_trunc: Annotated[bool, typer.Option("--no-trunc", help="Do not shorten columns to fit the terminal.")] = False,
    refusals: ShowRefusals = False,
    usage: ShowUsage = False,
    peak: ShowPeaks = False,
    prometheus: PrintMetrics = False,
) -> None:
    """Show Status of GPUs."""
    from amd_gpu_tracker.watch.show.screen import print_refusals, print_status, require_compatible, watch_status

    chosen = {"--json": as_json, "--wide": wide, "--watch": watch, "--no-trunc": no_trunc, "--refusals": refusals}
    chosen |= {"--usage": usage, "--peak": peak, "--prometheus": prometheus}
    given = [option for option, is_chosen in chosen.items() if is_chosen]
    require_compatible(given)
    # Without amd-ctk, no other command has these options.
    if context.parent and context.parent.info_name == "gpu-tracker":
        for option in MOVED.intersection(given):
            print_note(f"'amd-ctk status {option}' replaces {option} here, which a later version will drop")
    tracker = Tracker(host_of(context), lock=CommandLock)
    if usage or peak or prometheus:
        reader = tracker.usage_looks()
        show_usage(reader, as_json=as_json, watch=watch, peaks=peak, prometheus=prometheus, no_trunc=no_trunc)
    elif refusals:
        print_refusals(tracker.refusals(), as_json=as_json)
    elif watch:
        watch_status(tracker.status, as_json=as_json, wide=wide)
    else:
        print_status(tracker.status, as_json=as_json, wide=wide, no_trunc=no_trunc)


def show_usage(
    reader: UsageReader, *, as_json: bool, watch: bool, peaks: bool, prometheus: bool, no_trunc: bool
) -> None:
    """Show who uses how much of each GPU, once or until Ctrl-C."""
    from amd_gpu_tracker.watch.usage.screen import print_metrics, print_usage, watch_usage

    if prometheus:
        print_metrics(reader)
    elif watch:
        watch_usage(reader, as_json=as_json, peaks=peaks)
    else:
        print_usage(reader, as_json=as_json, peaks=peaks, no_trunc=no_trunc)


def set_accessibility(tracker: Tracker, words: list[str], *, dry_run: bool) -> None:
    """Make GPUs exclusive or shared by the `words` of a command line, or print what would change."""
    if len(words) != 2:
        if meant := _nearest_command(words[0]):
            raise UsageError(f"there is no command {words[0]}", hint=f"did you mean {meant}?")
        what = "Missing arguments" if len(words) < 2 else "Too many arguments"
        raise UsageError(f"Error: {what}. Usage: gpu-tracker <gpu_ids> <operation>")
    request, operation = words[0], words[1].lower()
    if not tracker.is_enabled():
        print(DISABLED)
        raise typer.Exit(NotDone.exit_code)
    if operation not in (EXCLUSIVE, SHARED):
        raise UsageError(f"Error: Invalid operation. Must be '{EXCLUSIVE}' or '{SHARED}'")
    set_or_preview = tracker.preview_accessibility if dry_run else tracker.set_accessibility
    change = set_or_preview(request, exclusive=operation == EXCLUSIVE)
    _print_change(change, operation, dry_run=dry_run)
    if not change.is_complete:
        raise typer.Exit(NotDone.exit_code)


def _drainer(find_hints: FindHints) -> Callable[..., None]:
    def drain(
        context: typer.Context,
        gpus: Annotated[list[str], typer.Argument(metavar="GPUS", help="Which GPUs, as in AMD_VISIBLE_DEVICES.")],
        *,
        reason: Annotated[
            str, typer.Option("--reason", metavar="REASON", help="Reason that refusals of these GPUs show.")
        ] = "",
        until: Annotated[
            str,
            typer.Option("--until", metavar="WHEN", help="End the drain then: Mon, 'Mon 08:00', 18:00 or 2026-12-01."),
        ] = "",
        duration: Annotated[
            str, typer.Option("--for", metavar="DURATION", help="End the drain after 30m, 8h or 2d; 8 is 8 hours.")
        ] = "",
        wait: Annotated[bool, typer.Option("--wait", help="Wait until these GPUs are no longer in use.")] = False,
        dry_run: DryRun = False,
    ) -> None:
        """Stop giving out these GPUs.

        Containers and jobs that have them keep them.
        """
        host, request = host_of(context), ",".join(gpus)
        tracker = Tracker(host, lock=CommandLock)
        end = _find_end(until, duration, now=time.time())
        new = tracker.gpus.would_drain(request, reason=reason, until=end)
        if dry_run:
            print(f"GPUs {_list(new)} would be drained" if new else NOTHING_WOULD_CHANGE)
            return
        numbers = tracker.drain(request, reason=reason, until=end)
        print(f"GPUs {_list(numbers)} are drained", flush=True)
        if not new:
            print_note(NOTHING_CHANGED)
        if not tracker.is_enabled():
            print_note("the GPU Tracker is disabled, so no container is refused: run 'sudo amd-ctk gpu-tracker enable'")
        for hint in find_hints(host, is_drained=True, reason=reason):
            print_note(hint)
        # By key, because numbers change if a GPU is lost meanwhile.
        keys = {gpu.key for gpu in tracker.status().gpus if gpu.number in numbers}
        while wait and any(gpu.containers for gpu in tracker.status().tracked if gpu.key in keys):
            time.sleep(POLL_SECONDS)

    return drain


def _find_end(until: str, duration: str, *, now: float) -> float:
    """Return the end of a drain in seconds since 1970 (UTC), 0 for none. Raises UsageError and WaitRefused."""
    from amd_gpu_tracker.times import parse_at_most, parse_moment

    if until and duration:
        raise UsageError("Error: --until and --for both set the end. Give one of them")
    if until:
        return parse_moment(until, now=now)
    if not duration:
        return 0
    seconds = parse_at_most(f"{duration}h" if duration.isdecimal() else duration, LONGEST_DRAIN)
    if not seconds:
        raise UsageError("Error: --for must be longer than 0")
    return now + seconds


def _undrainer(find_hints: FindHints) -> Callable[..., None]:
    def undrain(
        context: typer.Context,
        gpus: Annotated[list[str], typer.Argument(metavar="GPUS", help="Which GPUs, as in AMD_VISIBLE_DEVICES.")],
        *,
        dry_run: DryRun = False,
    ) -> None:
        """Give these GPUs out again."""
        host, request = host_of(context), ",".join(gpus)
        tracker = Tracker(host, lock=CommandLock)
        if dry_run:
            drained = tracker.gpus.would_undrain(request)
            print(f"GPUs {_list(drained)} would be given out again" if drained else NOTHING_WOULD_CHANGE)
            return
        numbers = tracker.undrain(request)
        print(f"GPUs {_list(numbers)} are given out again" if numbers else "None of these GPUs was drained")
        for hint in find_hints(host, is_drained=False, reason="") if numbers else ():
            print_note(hint)

    return undrain


def ignore_user(
    context: typer.Context,
    uid: Annotated[int | None, typer.Argument(metavar="UID", min=0, max=LARGEST_UID, help="Id of the user.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Stop ignoring this user.")] = False,
    *,
    dry_run: DryRun = False,
) -> None:
    """Ignore a user's rootless reservations. Without UID, show which users are ignored."""
    tracker = Tracker(host_of(context), lock=CommandLock)
    if uid is None:
        if undo:
            raise UsageError("Error: Missing arguments. Usage: gpu-tracker ignore <uid> --undo")
        users = tracker.settings.ignored_users()
        print(f"Users {_list(users)} are ignored" if users else "No user is ignored")
    elif dry_run:
        would = (uid in tracker.settings.ignored_users()) is undo
        print(f"User {uid} would {'no longer ' if undo else ''}be ignored" if would else NOTHING_WOULD_CHANGE)
    elif tracker.settings.ignore_user(uid, ignored=not undo):
        print(f"User {uid} is {'no longer' if undo else 'now'} ignored")
    else:
        print(f"User {uid} is {'not' if undo else 'already'} ignored")


def grace(
    context: typer.Context,
    seconds: Annotated[
        int | None, typer.Argument(metavar="SECONDS", min=0, max=LONGEST_GRACE, help="How long; 0 keeps no GPUs.")
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Let restarted containers keep their GPUs.

    A container that its engine restarts keeps its GPUs for SECONDS after it ends. Without SECONDS, show the setting.
    """
    tracker = Tracker(host_of(context), lock=CommandLock)
    before = tracker.settings.restart_grace()
    wanted = before if seconds is None else seconds
    kept = f"keep their GPUs for {wanted} seconds" if wanted else "keep no GPUs"
    if seconds is None:
        print(f"Restarted containers {kept}")
    elif dry_run:
        _preview(tracker, f"Restarted containers would {kept}", is_change=wanted != before)
    else:
        tracker.settings.set_restart_grace(wanted)
        print(f"Restarted containers {kept}")
        _print_unchanged(is_change=wanted != before)


class Holders(str, Enum):
    """Owner of an exclusive GPU: one container, or a whole pod."""

    container = "container"
    pod = "pod"


def holder(
    context: typer.Context,
    kind: Annotated[
        Holders | None,
        typer.Argument(metavar="container|pod", help="Owner of an exclusive GPU: one container, or a whole pod."),
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Let the containers of a pod share exclusive GPUs.

    With 'pod', all containers of a pod that ask for an exclusive GPU by its number share it. Without an argument, show
    the setting.
    """
    tracker = Tracker(host_of(context), lock=CommandLock)
    before = Holders.pod if tracker.settings.is_exclusive_to_pods() else Holders.container
    if kind is None:
        print(f"An exclusive GPU belongs to one {before.value}")
    elif dry_run:
        _preview(tracker, f"An exclusive GPU would belong to one {kind.value}", is_change=kind is not before)
    else:
        tracker.settings.set_exclusive_to_pods(shared=kind is Holders.pod)
        print(f"An exclusive GPU belongs to one {kind.value}")
        _print_unchanged(is_change=kind is not before)


def _preview(tracker: Tracker, change: str, *, is_change: bool) -> None:
    """Print what a setting would change; TrackerDisabled if setting it would be refused."""
    if not tracker.is_enabled():
        raise TrackerDisabled
    print(change if is_change else NOTHING_WOULD_CHANGE)


def _print_unchanged(*, is_change: bool) -> None:
    if not is_change:
        print_note(NOTHING_CHANGED)


def initialize(context: typer.Context) -> None:
    """Take over the state of the original toolkit; packages do this when they are installed."""
    Tracker(host_of(context), lock=CommandLock).initialize(tell=print_note)


def release(context: typer.Context, container_id: Annotated[str, typer.Argument(metavar="CONTAINER_ID")]) -> None:
    """Give back the GPUs of a container that is gone, as containers of the original toolkit ask in their hooks."""
    numbers = Tracker(host_of(context), lock=CommandLock).release(container_id)
    print(f"Released GPUs {_list(numbers)} used by container {container_id}", file=sys.stderr)


def show_help(context: typer.Context, command: Annotated[str, typer.Argument(metavar="COMMAND")] = "") -> None:
    """Show a list of commands or help for one command."""
    group = context.parent
    if group is None:
        return
    commands = getattr(group.command, "commands", {})
    if command in commands:
        print(commands[command].get_help(type(context)(commands[command], info_name=command, parent=group)))
    else:
        print(group.get_help())


def begin(context: typer.Context) -> None:
    """Show the help if no command is given; name the simulated host that a command is about to change."""
    if context.invoked_subcommand is None:
        print(context.get_help())
    elif context.invoked_subcommand not in READ_ONLY and not host_of(context).is_this_machine:
        print_error(SIMULATED_NOTICE.format(root=host_of(context).root))


def host_of(context: typer.Context) -> Host:
    """Return the host of this command, which the root command chose."""
    host: Host = context.find_root().obj
    return host


def print_note(sentence: str) -> None:
    """Print on standard error what is not in AMD's guide; ids of containers may hold anything."""
    print_error(printable(sentence))


def suggest_refresh(host: Host) -> None:
    """Print how to update the CDI spec after a switch; for programs that cannot do it."""
    if host.stat(CDI_SPEC):
        print("Run 'sudo amd-ctk cdi refresh' to update the CDI spec", file=sys.stderr)


def main() -> None:
    """Run amd-gpu-tracker, and end the process."""
    run_and_leave(run_command_line)


def run_command_line() -> None:
    """Run the command in `sys.argv`; an expected failure prints one sentence on stderr and sets its exit code."""
    prepare_streams()
    try:
        standalone_app()()
    except ToolkitError as error:
        print_error(printable_lines(str(error)))
        sys.exit(error.exit_code)


def standalone_app() -> typer.Typer:
    """Return the commands of amd-gpu-tracker when it runs without amd-ctk."""
    app = tracker_app("amd-gpu-tracker", suggest_refresh)
    app.callback()(_choose_host)
    return app


def _end_of_wait(names: list[str]) -> str:
    """Return a sentence about waiting jobs that end because the tracker was disabled."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    jobs = "1 waiting job ends" if len(names) == 1 else f"{len(names)} waiting jobs end"
    return f"{jobs} without GPUs: {', '.join(names[:MOST_NAMED])}{more}"


def _nearest_command(word: str) -> str:
    """Return the command that a misspelt one probably means, "" if none is similar."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, EXAMPLES, n=1)), "")


def _print_change(change: AccessibilityChange, operation: str, *, dry_run: bool) -> None:
    """Print the result of a change, or of a dry run, in the guide's words."""
    if not change.tracked:
        print(DISABLED)
    done, not_done = ("would be", "would not be") if dry_run else ("have been", "have not been")
    new = tuple(number for number in change.changed if number not in change.already)
    # The guide's words even if nothing changed, because programs may look for them.
    if named := new if dry_run else change.changed:
        print(f"GPUs {_list(named)} {done} made {operation}")
    if change.in_use:
        reason = "more than one container is currently using it"
        print(f"GPUs {_list(change.in_use)} {not_done} made exclusive because {reason}")
    if change.rootless:
        print(f"GPUs {_list(change.rootless)} {not_done} made exclusive because a rootless container is using it")
    if not new and change.is_complete:
        print(NOTHING_WOULD_CHANGE) if dry_run else print_note(NOTHING_CHANGED)
    if change.broken_ranges:
        print(f"Ignoring {_list(change.broken_ranges)} GPUs Ranges as they are invalid")
    if change.unknown:
        print(f"Ignoring {_list(change.unknown)} GPUs as they are invalid")


def _print_version(context: typer.Context, asked: bool) -> None:
    # TAB completion parses the line as well.
    if asked and not context.resilient_parsing:
        import amd_gpu_tracker

        print(f"amd-gpu-tracker version {amd_gpu_tracker.__version__}")
        raise typer.Exit


def _choose_host(
    context: typer.Context,
    host_root: Annotated[
        str, typer.Option(envvar=ROOT_VARIABLE, hidden=True, help="Serve the simulated host in this directory.")
    ] = "",
    # Its callback ends the program.
    asks_version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    context.obj = host_from_environment({ROOT_VARIABLE: host_root})
    begin(context)


def _list(items: tuple[int, ...] | tuple[str, ...]) -> str:
    return f"[{' '.join(map(str, items))}]"


def _offer_accessibility(ctx: Any, incomplete: str) -> list[str]:
    """Return GPUs for the first word, and their accessibility for the second."""
    if not ctx.params.get("words"):
        return complete_gpus(incomplete)
    return [word for word in (EXCLUSIVE, SHARED) if word.startswith(incomplete)]
