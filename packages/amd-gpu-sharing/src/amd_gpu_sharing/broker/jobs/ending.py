"""End a job or container whose time is over: TERM, a grace period, then KILL, and never another user's processes.

Notes on disk let a new broker continue where a killed one stopped.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from amd_gpu_sharing.broker.jobs.job_processes import belongs_to, find_processes, open_process
from amd_gpu_sharing.broker.jobs.journal import Journal
from amd_gpu_sharing.broker.requests.protocol import SERVICE_UNIT
from amd_gpu_tracker.book.job_ids import owner_of
from amd_gpu_tracker.book.lease import Lease, ProcessId, format_lease, parse_lease
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.leases.container_names import docker_directory, read_of_root
from amd_gpu_tracker.leases.liveness import judge
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.leases.restarts import own_unit
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import make_directories, read_file, replace_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

# Between TERM and KILL, as Slurm's KillWait.
GRACE_SECONDS = 30.0
# Each round finds the processes that started during the one before.
ROUNDS = 20
ROUND_SECONDS = 0.5
# How much longer than the grace period an engine may take to stop a container.
STOP_SECONDS = 30.0
# The verdict in the journal.
ENDING_VERDICT = "ending"
SYSTEMD_RUN = ("systemd-run", "--quiet", "--collect", "--wait")
ENGINES = ("docker", "podman")
PODMAN_ENDINGS = ("userdata", "-containers")


class EndingNote(Value):
    """A job that is being ended.

    Attributes:
        lease: Its lease, as it was.
        known: Its processes when it got TERM.
        at: When it got TERM, in seconds since boot.
    """

    lease: Lease
    known: tuple[ProcessId, ...]
    at: float


def end_job(lease: Lease, book: Book, log: Journal, *, grace: float) -> None:
    """End the processes of a job. Log those that now run as another user, and leave them alone."""
    processes = book.processes
    found = find_processes(lease, processes)
    # The client of an engine passes TERM on to its container, which must not get it twice.
    programs = map(os.path.basename, processes.first_words([each.pid for each in found.inside]).values())
    known = found.inside if any(name in ENGINES for name in programs) else found.inside | found.contained
    _write_note(book, lease, known)
    termed = _send(known, owner_of(lease.container_id), processes, (signal.SIGTERM, signal.SIGCONT))
    _close(termed.values())
    log(ENDING_VERDICT, f"{lease.container_id}: TERM to {len(termed)} processes")
    _end_rest(lease, book, log, seconds=grace, known=known)


def resume_end(note: EndingNote, book: Book, log: Journal, *, grace: float) -> None:
    """Continue to end a job that got TERM from a broker that was killed."""
    seconds = max(0.0, note.at + grace - book.processes.now())
    _end_rest(note.lease, book, log, seconds=seconds, known=note.known)


def end_container(lease: Lease, processes: Processes, log: Journal, *, grace: float) -> None:
    """Stop a container through its engine; if that does not stop it, end its first process."""
    if command := _stop_command(lease):
        log(ENDING_VERDICT, f"container {lease.container_id}: {' '.join(command)}")
        _run([*command, "-t", str(int(grace)), lease.container_id], grace + STOP_SECONDS)
    verdict = judge(lease, processes)
    init = lease.init or verdict.found_init
    if verdict.is_alive and init:
        log(ENDING_VERDICT, f"container {lease.container_id}: TERM to its first process, then KILL")
        _end_first_process(init, processes, grace)


def read_notes(state: State) -> list[EndingNote]:
    """Return the jobs that were being ended. Delete notes that cannot be read."""
    notes = []
    for name in sorted(os.listdir(_notes_of(state))) if os.path.isdir(_notes_of(state)) else ():
        try:
            note = loads(read_file(f"{_notes_of(state)}/{name}"))
            known = tuple(ProcessId(pid=int(each["pid"]), start=int(each["start"])) for each in note["known"])
            notes.append(EndingNote(lease=parse_lease(dumps(note["lease"])), known=known, at=float(note["at"])))
        except (OSError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
            with suppress(OSError):
                os.unlink(f"{_notes_of(state)}/{name}")
    return notes


def _write_note(book: Book, lease: Lease, known: Iterable[ProcessId]) -> None:
    """Note which processes of a job get TERM now. On a full disk, the job ends without a note."""
    note = {
        "lease": loads(format_lease(lease)),
        "known": [each.as_dict() for each in known],
        "at": book.processes.now(),
    }
    with suppress(OSError, FileError):
        make_directories(_notes_of(book.state))
        replace_file(_note_of(book.state, lease), dumps(note) + b"\n", mode=0o600)


def _end_rest(lease: Lease, book: Book, log: Journal, *, seconds: float, known: Collection[ProcessId]) -> None:
    """Give the `known` processes of a job, which got TERM, some seconds to end; then kill what is left of the job."""
    opened = [opened for each in known if (opened := open_process(each, book.processes)) is not None]
    _wait_for(opened, seconds)
    _close(opened)
    _kill_rest(lease, book.processes, log, known=known)
    with suppress(OSError):
        os.unlink(_note_of(book.state, lease))


def _stop_command(lease: Lease) -> tuple[str, ...]:
    """Return the command that stops a container, without its options; () if no known engine runs it."""
    if docker_directory(read_of_root(f"{lease.bundle}/config.json"), lease.container_id):
        return "docker", "stop"
    # Podman's bundles: <graph root>/overlay-containers/<id>/userdata
    parts = lease.bundle.split("/")
    is_podmans = len(parts) > 3 and parts[-1] == PODMAN_ENDINGS[0] and parts[-3].endswith(PODMAN_ENDINGS[1])
    # Podman has no daemon and writes where the service may not, so systemd has to run it.
    outside = SYSTEMD_RUN if own_unit() == SERVICE_UNIT else ()
    return (*outside, "podman", "stop") if is_podmans else ()


def _run(command: Sequence[str], seconds: float) -> None:
    """Run a program and ignore its failure: the caller ends a container that still runs."""
    import subprocess

    quiet = subprocess.DEVNULL
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, check=False, stdin=quiet, stdout=quiet, stderr=quiet, timeout=seconds)


def _end_first_process(init: ProcessId, processes: Processes, grace: float) -> None:
    """End the first process of a container. The kernel then ends all others in its pid namespace."""
    opened = open_process(init, processes)
    if opened is None:
        return
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(opened, signal.SIGTERM)
        _wait_for([opened], grace)
        signal.pidfd_send_signal(opened, signal.SIGKILL)
    os.close(opened)


def _kill_rest(lease: Lease, processes: Processes, log: Journal, *, known: Iterable[ProcessId]) -> None:
    owner = owner_of(lease.container_id)
    for _ in range(ROUNDS):
        found = find_processes(lease, processes, tuple(known))
        killed = _send(found.inside | found.contained, owner, processes, (signal.SIGKILL,))
        if not killed:
            break
        log(ENDING_VERDICT, f"{lease.container_id}: KILL to {len(killed)} processes")
        _wait_for(killed.values(), ROUND_SECONDS)
        _close(killed.values())
    for each in sorted(found.inside, key=lambda each: each.pid):
        log("left alone", f"process {each.pid} of {lease.container_id}, which is of user {processes.uid(each.pid)}")


def _send(
    targets: Iterable[ProcessId], owner: int, processes: Processes, signals: Iterable[int]
) -> dict[ProcessId, int]:
    """Send signals to processes of a user; return pidfds of those that got them, for the caller to close."""
    sent = {}
    for each in targets:
        opened = open_process(each, processes)
        if opened is None:
            continue
        # Check after the pidfd is open, so that the check is about the process that gets the signal.
        if belongs_to(each.pid, owner, processes) and _is_sent(opened, signals):
            sent[each] = opened
        else:
            os.close(opened)
    return sent


def _is_sent(opened: int, signals: Iterable[int]) -> bool:
    try:
        for number in signals:
            signal.pidfd_send_signal(opened, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _wait_for(pidfds: Iterable[int], seconds: float) -> None:
    """Wait until all of these processes have ended, but at most `seconds`."""
    end = time.monotonic() + seconds
    left = set(pidfds)
    poll = select.poll()
    for each in left:
        poll.register(each, select.POLLIN)
    while left and (rest := end - time.monotonic()) > 0:
        for ended, _ in poll.poll(int(rest * 1000) + 1):
            poll.unregister(ended)
            left.discard(ended)


def _close(pidfds: Iterable[int]) -> None:
    for each in pidfds:
        os.close(each)


def _notes_of(state: State) -> str:
    return f"{state.run_directory}/ending"


def _note_of(state: State, lease: Lease) -> str:
    return f"{_notes_of(state)}/{os.path.basename(state.lease_path(lease.key))}"
