"""Jobs of Swarm: a one-shot service for each line of a file of parameters. Swarm keeps each pending until it fits."""

from __future__ import annotations

from amd_ctk.parameters import lines_from, parse_lines
from amd_ctk.swarm.docker import docker
from amd_ctk.swarm.errors import SwarmError
from amd_ctk.swarm.services import LABEL
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amd_ctk.swarm.resources import Resource

# As many services in one call; more would keep a manager busy for minutes.
MOST_JOBS = 1000
# A service's name is a host name on its networks (moby, daemon/cluster/controllers/plugin and swarmkit's validateName).
LONGEST_NAME = 63


class Job(Value):
    """One job.

    Attributes:
        name: Name of its service.
        line: The line of the file that it was made of, from 1.
        words: What the line adds to the command.
    """

    name: str
    line: int
    words: tuple[str, ...]


class Template(Value):
    """What all jobs of a file have in common.

    Attributes:
        resources: What each reserves.
        constraints: Which nodes may run it, as `docker service create --constraint` takes them.
        image: Its image.
        command: The command before the words of its line.
    """

    resources: tuple[Resource, ...]
    constraints: tuple[str, ...]
    image: str
    command: tuple[str, ...]


def parse_jobs(name: str, text: str, where: str, *, first: int = 1) -> list[Job]:
    """Return a job for each line with parameters, from the line `first` on; ParametersError, SwarmError."""
    lines = parse_lines(text, where)
    if len(lines) > MOST_JOBS:
        raise SwarmError(
            f"{where} has {len(lines)} lines with parameters, {MOST_JOBS} at most", hint="submit it in parts"
        )
    _require_name(f"{name}-{lines[-1].number}")
    chosen = lines_from(lines, first, where)
    return [Job(name=f"{name}-{line.number}", line=line.number, words=line.words) for line in chosen]


def require_new_names(jobs: Sequence[Job]) -> None:
    """Raise SwarmError if a service of one of these names exists; so nothing is half done by a second call."""
    taken = set(docker("service", "ls", "--format", "{{.Name}}").split())
    if both := [job.name for job in jobs if job.name in taken]:
        raise SwarmError(
            f"a service {both[0]} exists already, so nothing was submitted",
            hint="choose another name, or run 'amd-ctk swarm prune' if it is finished",
        )


def submit(jobs: Sequence[Job], template: Template, where: str) -> Iterator[Job]:
    """Make the services, and yield each job when its service is made; SwarmError says what was made before."""
    for position, job in enumerate(jobs):
        try:
            docker(*service_command(job, template)[1:])
        except SwarmError as error:
            raise SwarmError(
                f"line {job.line} of {where}: {error.message}; {_made(jobs[:position])}",
                hint=f"submit the rest with --from-line={job.line}",
            ) from error
        yield job


def service_command(job: Job, template: Template) -> list[str]:
    """Return the command that makes the service of a job."""
    options = [f"--name={job.name}", "--detach", "--restart-condition=none", f"--label={LABEL}=true"]
    options += [f"--generic-resource={resource}" for resource in template.resources]
    options += [f"--constraint={constraint}" for constraint in template.constraints]
    return ["docker", "service", "create", *options, template.image, *template.command, *job.words]


def _require_name(longest: str) -> None:
    parts = longest.replace("_", "-").replace(".", "-").split("-")
    if len(longest) > LONGEST_NAME or not all(part.isascii() and part.isalnum() for part in parts):
        raise SwarmError(
            f"{longest} is not a name for a service",
            hint=f"use at most {LONGEST_NAME} letters, digits, dots, dashes and underscores, as in sweep",
        )


def _made(jobs: Sequence[Job]) -> str:
    if not jobs:
        return "nothing was submitted"
    names = jobs[0].name if len(jobs) == 1 else f"{jobs[0].name} to {jobs[-1].name}"
    return f"{names} {'was' if len(jobs) == 1 else 'were'} submitted"
