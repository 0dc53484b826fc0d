"""The repairs that doctor may make: to the toolkit's files and state, and to nodes; not to engines or groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from difflib import unified_diff
from functools import partial

from amd_ctk.cdi.generate_options import GenerateOptions, read_all_generate_options
from amd_ctk.cdi.specs import FoundGpus, prepare_spec, write_spec
from amd_ctk.doctor.check import OK
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.gpus import TRIGGER
from amd_ctk.doctor.run import Result
from amd_device_spec.settings_file import compile_settings
from amd_gpu_tracker import Tracker
from amdgpu_discovery.command_line.programs import ask
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

MOST_LINES = 200


class Repair(Value):
    """One change: the check that asks for it, a sentence, what differs, and the function to apply it (ToolkitError)."""

    check: str
    words: str
    difference: str
    apply: Callable[[], object]


class RepairError(ToolkitError):
    """A repair that did not work."""


def find_repairs(host: Host, facts: Facts, results: Sequence[Result]) -> list[Repair]:
    """Return the repairs for what the checks found, and change nothing."""
    found = {result.check for result in results if result.finding.state != OK}
    finders = (_refresh_cdi, _make_nodes, _prune, _compile)
    repairs = [repair for find in finders for repair in _try(find, host, facts)]
    return [repair for repair in repairs if repair.check in found]


def _try(find: Callable[[Host, Facts], Iterator[Repair]], host: Host, facts: Facts) -> list[Repair]:
    try:
        return list(find(host, facts))
    except ToolkitError:
        # A check already reports what prevents this repair.
        return []


def _refresh_cdi(host: Host, facts: Facts) -> Iterator[Repair]:
    # A spec describes the nodes of the host, so they must be right first.
    if facts.gpus.node_problems or not facts.cdi.untrue:
        return
    for wanted in read_all_generate_options(host):
        difference = ""
        # One file that cannot be written does not prevent refreshing the others.
        with suppress(ToolkitError):
            difference = _compare(host, wanted)
        if difference:
            words = f"refresh {wanted.output}"
            yield Repair(check="cdi", words=words, difference=difference, apply=partial(_write_spec, host, wanted))


def _write_spec(host: Host, wanted: GenerateOptions) -> None:
    # The GPUs are found again: repairs before this one may have changed them.
    write_spec(FoundGpus(host), wanted)


def _compare(host: Host, wanted: GenerateOptions) -> str:
    _, old, new = prepare_spec(FoundGpus(host), wanted)
    before, after = (content.decode("utf-8", "replace").splitlines() for content in (old, new))
    lines = list(unified_diff(before, after, wanted.output, wanted.output, lineterm=""))
    left_out = [f"... and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    return "\n".join([*lines[:MOST_LINES], *left_out])


def _make_nodes(host: Host, facts: Facts) -> Iterator[Repair]:
    missing = [problem for problem in facts.gpus.node_problems if problem.is_missing]
    # A simulated host has no udev, and a user namespace gets its nodes from outside.
    if missing and host.is_this_machine and not facts.kernel.is_user_namespace:
        check = "partitions" if all(problem.is_partition for problem in missing) else "nodes"
        # All GPUs need /dev/kfd, so each of them reports the same problem with it.
        lines = dict.fromkeys(f"+{problem.message}" for problem in missing)
        yield Repair(check=check, words="have udev make missing nodes", difference="\n".join(lines), apply=_trigger)


def _trigger() -> None:
    answer = ask(TRIGGER.removeprefix("sudo ").split())
    if not answer.succeeded:
        raise RepairError(f"udevadm did not make the nodes: {answer.problem or answer.errors.strip()}")


def _prune(host: Host, facts: Facts) -> Iterator[Repair]:
    count = facts.toolkit.dead_leases
    if count:
        words = f"remove {count} reservation{'' if count == 1 else 's'} of containers that are gone"
        yield Repair(check="tracker", words=words, difference="", apply=Tracker(host).prune)


def _compile(host: Host, facts: Facts) -> Iterator[Repair]:
    if not facts.toolkit.is_compiled:
        words = "compile config.toml for container starts"
        yield Repair(check="settings", words=words, difference="", apply=partial(compile_settings, host))
