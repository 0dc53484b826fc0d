"""The machine before every cut: booted, with all files in place, and what each step of a job leaves and takes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kernel.image import Image
from power.disk import copy_disk, make_disk, mounted, on_host, read_files
from power.machine import Machine
from power.work import JOBS, ON_HOST, REPORT, read_starts, steps

# They write no file that is compared.
ONLY_IN_THE_MACHINE = ("create", "upgrade")
TIMED = """begin=$(cut -d ' ' -f 1 /proc/uptime)
{{ {commands}
}} >/dev/null 2>&1 || exit
echo $begin $(cut -d ' ' -f 1 /proc/uptime)"""


class Saved(NamedTuple):
    """What every cut begins with, the files after each step of each job, and how many seconds a job takes.

    `starts` is how many reservations the history has.
    """

    image: Image
    disk: Path
    state: Path
    files: dict[str, list[dict[str, str]]]
    seconds: dict[str, float]
    starts: int


def save_machine(image: Image, directory: Path) -> Saved:
    """Make the disk, learn what each step leaves, boot, time each job, and save the machine."""
    disk, state = directory / "disk", directory / "state"
    make_disk(image, disk)
    with mounted(disk) as root:
        # A record of changes mentions the one before, so that the first time differs from all others.
        for _ in range(2):
            files = {job: _results(root, job) for job in JOBS}
    machine = Machine(image, disk)
    # dpkg writes thousands of files.
    seconds = {"upgrade": _time(machine, "upgrade")}
    machine.slow_disk()
    seconds |= {job: _time(machine, job) for job in JOBS if job != "upgrade"}
    starts, _ = read_starts(machine.run(REPORT))
    machine.run("sync")
    machine.save(state)
    return Saved(image, disk, state, files, seconds, starts)


def continue_machine(saved: Saved) -> Machine:
    """Let a copy of the saved machine go on; there is one such copy."""
    disk = saved.disk.with_name("copy")
    copy_disk(saved.disk, disk)
    machine = Machine(saved.image, disk, state=saved.state)
    # QEMU does not save it.
    machine.slow_disk()
    machine.go()
    return machine


def _results(root: Path, job: str) -> list[dict[str, str]]:
    """Do a job with the programs of the disk; return its files before the first and after each step."""
    results = [read_files(root)]
    for step in steps(job):
        if job not in ONLY_IN_THE_MACHINE:
            on_host(root, step.command)
        results.append(read_files(root))
    return results


def _time(machine: Machine, job: str) -> float:
    commands = "\n".join(f"( {step.command} ) &&" for step in steps(job)) + " true"
    begin, end = machine.run(f"export {ON_HOST}\n{TIMED.format(commands=commands)}").split()
    return float(end) - float(begin)
