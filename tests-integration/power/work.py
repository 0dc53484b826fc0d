"""What the machine does while its power is cut: jobs of several steps, each of which is confirmed when it has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

# The serial console, which the outside records.
CONSOLE = "/dev/ttyS0"
CUT = "cut here"
ON_HOST = "AMD_CTK_HOST_ROOT=/srv/host"
CTK = "amd-ctk"
RUN = "amd-container-runtime --root /run/power run --detach --bundle"
END = " && runc --root /run/power kill c1 KILL && amd-container-runtime --root /run/power delete --force c1"
SLEEPING = f"{RUN} /srv/bundles/exclusive c1 >/dev/null 2>&1"
CONFIGURE = f"{CTK} runtime configure --no-validate"
REPORT = f"{ON_HOST} {CTK} report --json 2>/dev/null"
# Each begins and ends with the files as SET_UP leaves them.
JOBS = {
    "exclusive": (
        f"{CTK} gpu-tracker 0 exclusive",
        f"{CTK} gpu-tracker all exclusive",
        f"{CTK} gpu-tracker 0,2-3 shared",
    ),
    "enable": (f"{CTK} gpu-tracker disable", f"{CTK} gpu-tracker enable", f"{CTK} gpu-tracker 1 exclusive"),
    "drain": (
        f"{CTK} gpu-tracker drain 2 --reason 'fan swap'",
        f"{CTK} gpu-tracker drain 3 --for 48",
        f"{CTK} gpu-tracker undrain 2-3",
    ),
    "docker": (f"{CONFIGURE} --set-as-default", f"{CONFIGURE} --remove", CONFIGURE),
    "podman": (f"{CONFIGURE} --runtime=podman", f"{CONFIGURE} --runtime=podman --remove"),
    "settings": (f"{CTK} config set log-level info", f"{CTK} config unset log-level"),
    "cdi": (
        f"{CTK} cdi generate --by-model",
        f"{CTK} cdi generate --output=/etc/cdi/lab.json --vendor=lab.example",
        f"{CTK} cdi remove --output=/etc/cdi/lab.json",
        f"{CTK} cdi generate",
    ),
    "refresh": ("rm /srv/host/etc/cdi/amd.json && sync", f"{CTK} cdi refresh"),
    "create": tuple(f"{RUN} /srv/bundles/{name} c1 {END}" for name in ("shared", "exclusive", "hooks")),
    "upgrade": ("dpkg --install /srv/debs/*.deb",),
}
SET_UP = f"""
{CTK} config set low-level-runtime runc
{CTK} gpu-tracker enable
{CTK} gpu-tracker 1 exclusive
{CTK} cdi generate
{CTK} cdi generate --output=/run/cdi/amd.json
{CONFIGURE}
"""


class Step(NamedTuple):
    """One command of a job."""

    job: str
    number: int
    command: str

    @property
    def name(self) -> str:
        return f"{self.job} {self.number}"


def steps(job: str) -> Iterator[Step]:
    """Return the steps of a job in their order."""
    return (Step(job, number, command) for number, command in enumerate(JOBS[job], 1))


def script(job: str, seconds: float) -> str:
    """Return a script that works at a job and says after so many seconds of the machine that power is to be cut."""
    lines = [f"export {ON_HOST}; exec >/tmp/job.log 2>&1 3>{CONSOLE}", f"(sleep {seconds:.3f}; echo {CUT} >&3) &"]
    for step in steps(job):
        lines += [f"echo begin {step.name} >&3", f"( {step.command} ) || {{ echo failed {step.name} >&3; exit; }}"]
        lines += [f"echo confirmed {step.name} >&3"]
    return "\n".join(lines)


class Progress(NamedTuple):
    """How far a job was: the step that was confirmed last, and the one that had begun; 0 for none."""

    confirmed: int
    begun: int


NOTHING = Progress(0, 0)


def read_progress(console: str, job: str) -> Progress:
    """Return how far a job was when the console ended; a line without its end says nothing."""
    lines = console.rpartition("\n")[0].splitlines()
    assert not any(line.startswith("failed ") for line in lines), console
    latest = dict.fromkeys(("confirmed", "begin"), 0)
    for line in lines:
        word, _, name = line.partition(" ")
        if word in latest and name.startswith(f"{job} "):
            latest[word] = int(name.removeprefix(f"{job} "))
    return Progress(latest["confirmed"], latest["begin"])


def read_starts(report: str) -> tuple[int, int]:
    """Return how many reservations a report counts, and how many lines of the history it could not read."""
    document = json.loads(report)
    return document["all"]["starts"], document["lines_not_read"]
