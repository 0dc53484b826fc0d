"""One-shot services of Swarm: create one for each line of a file of parameters, and find finished ones for removal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amd_ctk.swarm.docker import docker
from amd_ctk.swarm.resources import Resource, SwarmError
from amd_device_spec.request import VRAM_KIND
from amd_device_spec.settings import read_settings
from amdgpu_discovery.command_line.parameters import lines_from, parse_lines
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# By setting this label on a service, a user agrees to its removal.
LABEL = "com.amd.container-toolkit.one-shot"
# Final states of a task, as `docker service ps` prints them.
ENDED = ("Complete", "Failed", "Rejected", "Shutdown", "Orphaned", "Remove")
COMPLETE = "Complete"
# A task is named after its service and its number. With --no-resolve, the service's id replaces its name.
TASKS_BY_ID = ("--no-trunc", "--no-resolve", "--format", "{{.Name}} {{.CurrentState}}")
# Limit for one call; more services would keep a manager busy for minutes.
MOST_JOBS = 1000
# A service's name is a host name on its networks (moby, daemon/cluster/controllers/plugin and swarmkit's validateName).
LONGEST_SERVICE_NAME = 63
# Swarm counts generic resources in signed 64-bit numbers (swarmkit, api/types.proto: DiscreteGenericResource).
LARGEST_RESOURCE_AMOUNT = 2**63 - 1


class OneShot(Value):
    """A labelled service: how many tasks it wants, when Swarm restarts tasks, and the states of its tasks."""

    identity: str
    name: str
    replicas: int
    # none, on-failure or any.
    restart_condition: str
    # Swarm never restarts complete tasks of jobs, whatever the condition.
    is_job: bool
    states: tuple[str, ...]

    @property
    def is_done(self) -> bool:
        """Return whether every task has ended and none will follow. A task that waits for a GPU has not ended."""
        if not set(self.states) <= set(ENDED):
            return False
        if self.restart_condition == "none":
            return len(self.states) >= self.replicas
        repeats = self.restart_condition == "any" and not self.is_job
        return not repeats and self.states.count(COMPLETE) >= self.replicas

    @property
    def has_failed(self) -> bool:
        """Return whether a task has a state other than complete."""
        return any(state != COMPLETE for state in self.states)


def read_one_shots() -> list[OneShot]:
    """Return the labelled services of the swarm, sorted by name; SwarmError if this node is not a manager."""
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
    """Return the states of tasks by the ids of their services, from one call of docker."""
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
        replicas=_count_replicas(mode),
        restart_condition=policy.get("Condition", "any"),
        is_job="ReplicatedJob" in mode or "GlobalJob" in mode,
        states=tuple(states.get(service["ID"], ())),
    )


def _count_replicas(mode: dict[str, Any]) -> int:
    replicas = (mode.get("Replicated") or {}).get("Replicas")
    completions = (mode.get("ReplicatedJob") or {}).get("TotalCompletions")
    return replicas or completions or 1


class SwarmJob(Value):
    """One job: the name of its service, its line in the file, from 1, and the arguments that it adds to the command."""

    name: str
    line: int
    args: tuple[str, ...]


class Template(Value):
    """What all jobs of a file have in common."""

    # Each job reserves these.
    resources: tuple[Resource, ...]
    # Which nodes may run the jobs, as in `docker service create --constraint`.
    constraints: tuple[str, ...]
    image: str
    # Precedes the arguments of a line.
    command: tuple[str, ...]


def parse_jobs(name: str, text: str, where: str, *, first: int = 1) -> list[SwarmJob]:
    """Return a job for each line with parameters, starting with line `first`; ParametersError, SwarmError."""
    lines = parse_lines(text, where)
    if len(lines) > MOST_JOBS:
        raise SwarmError(
            f"{where} has {len(lines)} lines with parameters, {MOST_JOBS} at most", hint="submit it in parts"
        )
    _require_name(f"{name}-{lines[-1].number}")
    chosen = lines_from(lines, first, where)
    return [SwarmJob(name=f"{name}-{line.number}", line=line.number, args=line.args) for line in chosen]


def require_new_names(jobs: Sequence[SwarmJob]) -> None:
    """Raise SwarmError if one of these names is taken, so that a repeated call does not stop halfway."""
    taken = set(docker("service", "ls", "--format", "{{.Name}}").split())
    if both := [job.name for job in jobs if job.name in taken]:
        raise SwarmError(
            f"a service {both[0]} exists already, so nothing was submitted",
            hint="choose another name, or run 'amd-ctk swarm prune' if it is finished",
        )


def submit(jobs: Sequence[SwarmJob], template: Template, where: str) -> Iterator[SwarmJob]:
    """Create the services, and yield each job after its service; a SwarmError names those created before it."""
    for position, job in enumerate(jobs):
        try:
            docker(*service_command(job, template)[1:])
        except SwarmError as error:
            raise SwarmError(
                f"line {job.line} of {where}: {error.message}; {_format_submitted(jobs[:position])}",
                hint=f"submit the rest with --from-line={job.line}",
            ) from error
        yield job


def service_command(job: SwarmJob, template: Template) -> list[str]:
    """Return the command that creates the service of a job."""
    options = [f"--name={job.name}", "--detach", "--restart-condition=none", f"--label={LABEL}=true"]
    options += [f"--generic-resource={resource}" for resource in template.resources]
    options += [f"--constraint={constraint}" for constraint in template.constraints]
    return ["docker", "service", "create", *options, template.image, *template.command, *job.args]


def _require_name(longest: str) -> None:
    parts = longest.replace("_", "-").replace(".", "-").split("-")
    if len(longest) > LONGEST_SERVICE_NAME or not all(part.isascii() and part.isalnum() for part in parts):
        raise SwarmError(
            f"{longest} is not a name for a service",
            hint=f"use at most {LONGEST_SERVICE_NAME} letters, digits, dots, dashes and underscores, as in sweep",
        )


def _format_submitted(jobs: Sequence[SwarmJob]) -> str:
    if not jobs:
        return "nothing was submitted"
    names = jobs[0].name if len(jobs) == 1 else f"{jobs[0].name} to {jobs[-1].name}"
    return f"{names} {'was' if len(jobs) == 1 else 'were'} submitted"


def resources_of_job(host: Host, *, vram_mib: int, gpus: int) -> tuple[Resource, ...]:
    """Return what a job reserves (either memory or whole GPUs, or SwarmError), by the kinds of this node's settings."""
    if bool(vram_mib) == bool(gpus):
        raise SwarmError("a job reserves either memory or whole GPUs", hint="use --vram=MIB or --gpus=N")
    amount = vram_mib or gpus
    if amount > LARGEST_RESOURCE_AMOUNT:
        raise SwarmError(
            f"{amount} is more than Docker accepts", hint=f"the largest amount is {LARGEST_RESOURCE_AMOUNT}"
        )
    settings = read_settings(host)
    if vram_mib:
        kinds, usual_kind = settings.swarm_vram_resources, VRAM_KIND
    else:
        kinds, usual_kind = settings.swarm_resources, "AMD_GPU"
    return (Resource(kind=kinds[0] if kinds else usual_kind, value=str(amount)),)
