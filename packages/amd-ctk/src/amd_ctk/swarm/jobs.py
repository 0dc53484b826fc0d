"""One-shot services of Swarm: one for each line of a file of parameters; those that are finished can be removed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amd_ctk.parameters import lines_from, parse_lines
from amd_ctk.swarm.docker import docker
from amd_ctk.swarm.resources import Resource, SwarmError
from amdgpu_discovery.value import Value

# The user who sets this label on a service agrees to its removal.
LABEL = "com.amd.container-toolkit.one-shot"
# Final states of a task, as `docker service ps` prints them.
ENDED = ("Complete", "Failed", "Rejected", "Shutdown", "Orphaned", "Remove")
COMPLETE = "Complete"
# A task's name is that of its service and its number; without names, the service's id and its number.
TASKS_BY_ID = ("--no-trunc", "--no-resolve", "--format", "{{.Name}} {{.CurrentState}}")
# As many services in one call; more would keep a manager busy for minutes.
MOST_JOBS = 1000
# A service's name is a host name on its networks (moby, daemon/cluster/controllers/plugin and swarmkit's validateName).
LONGEST_NAME = 63


class OneShot(Value):
    """A labelled service: how many tasks it wants, when tasks are restarted, and the states of its tasks."""

    identity: str
    name: str
    wanted: int
    # none, on-failure or any.
    restart_condition: str
    # Tasks of jobs are not restarted once they are complete, whatever the condition.
    is_job: bool
    states: tuple[str, ...]

    @property
    def is_done(self) -> bool:
        """Return whether every task has ended and none will follow; a task that waits for a GPU has not ended."""
        if not set(self.states) <= set(ENDED):
            return False
        if self.restart_condition == "none":
            return len(self.states) >= self.wanted
        repeats = self.restart_condition == "any" and not self.is_job
        return not repeats and self.states.count(COMPLETE) >= self.wanted

    @property
    def has_failed(self) -> bool:
        """Return whether a task ended in another state than complete."""
        return any(state != COMPLETE for state in self.states)


def read_one_shots() -> list[OneShot]:
    """Return the labelled services of the swarm by name; SwarmError on a node that is not a manager."""
    identities = docker("service", "ls", "--quiet", "--filter", f"label={LABEL}=true").split()
    if not identities:
        return []
    specs = json.loads(docker("service", "inspect", *identities))
    states = _read_states(identities)
    return sorted((_describe(spec, states) for spec in specs), key=lambda service: service.name)


def remove_service(service: OneShot) -> None:
    """Remove a service and its tasks; SwarmError."""
    docker("service", "rm", service.identity)


def _read_states(identities: Sequence[str]) -> dict[str, list[str]]:
    """Return the states of the tasks of services, by the service's id; all are asked for at once."""
    states: dict[str, list[str]] = {}
    for line in docker("service", "ps", *TASKS_BY_ID, *identities).splitlines():
        task, state, *_ = line.split()
        states.setdefault(task.partition(".")[0], []).append(state)
    return states


def _describe(service: dict[str, Any], states: Mapping[str, Sequence[str]]) -> OneShot:
    spec = service["Spec"]
    mode = spec.get("Mode") or {}
    policy = (spec.get("TaskTemplate") or {}).get("RestartPolicy") or {}
    return OneShot(
        identity=service["ID"],
        name=spec["Name"],
        wanted=_wanted(mode),
        restart_condition=policy.get("Condition", "any"),
        is_job="ReplicatedJob" in mode or "GlobalJob" in mode,
        states=tuple(states.get(service["ID"], ())),
    )


def _wanted(mode: dict[str, Any]) -> int:
    replicas = (mode.get("Replicated") or {}).get("Replicas")
    completions = (mode.get("ReplicatedJob") or {}).get("TotalCompletions")
    return replicas or completions or 1


class SwarmJob(Value):
    """One job: the name of its service, the line of the file, from 1, and what that adds to the command."""

    name: str
    line: int
    words: tuple[str, ...]


class Template(Value):
    """What all jobs of a file have in common."""

    # What each reserves.
    resources: tuple[Resource, ...]
    # Which nodes may run it, as `docker service create --constraint` takes them.
    constraints: tuple[str, ...]
    image: str
    # Before the words of a line.
    command: tuple[str, ...]


def parse_jobs(name: str, text: str, where: str, *, first: int = 1) -> list[SwarmJob]:
    """Return a job for each line with parameters, from the line `first` on; ParametersError, SwarmError."""
    lines = parse_lines(text, where)
    if len(lines) > MOST_JOBS:
        raise SwarmError(
            f"{where} has {len(lines)} lines with parameters, {MOST_JOBS} at most", hint="submit it in parts"
        )
    _require_name(f"{name}-{lines[-1].number}")
    chosen = lines_from(lines, first, where)
    return [SwarmJob(name=f"{name}-{line.number}", line=line.number, words=line.words) for line in chosen]


def require_new_names(jobs: Sequence[SwarmJob]) -> None:
    """Raise SwarmError if a service of one of these names exists; so nothing is half done by a second call."""
    taken = set(docker("service", "ls", "--format", "{{.Name}}").split())
    if both := [job.name for job in jobs if job.name in taken]:
        raise SwarmError(
            f"a service {both[0]} exists already, so nothing was submitted",
            hint="choose another name, or run 'amd-ctk swarm prune' if it is finished",
        )


def submit(jobs: Sequence[SwarmJob], template: Template, where: str) -> Iterator[SwarmJob]:
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


def service_command(job: SwarmJob, template: Template) -> list[str]:
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


def _made(jobs: Sequence[SwarmJob]) -> str:
    if not jobs:
        return "nothing was submitted"
    names = jobs[0].name if len(jobs) == 1 else f"{jobs[0].name} to {jobs[-1].name}"
    return f"{names} {'was' if len(jobs) == 1 else 'were'} submitted"
