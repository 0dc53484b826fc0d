"""One-shot services of Swarm: which are finished and can be removed."""

from __future__ import annotations

import json  # noqa: TID253  no container start comes here
from typing import Any  # noqa: TID253

from amd_ctk.swarm.docker import docker
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The user who sets this label on a service agrees to its removal.
LABEL = "com.amd.container-toolkit.one-shot"
# Final states of a task, as `docker service ps` prints them.
ENDED = ("Complete", "Failed", "Rejected", "Shutdown", "Orphaned", "Remove")
COMPLETE = "Complete"
# A task's name is that of its service and its number; without names, the service's id and its number.
TASKS_BY_ID = ("--no-trunc", "--no-resolve", "--format", "{{.Name}} {{.CurrentState}}")


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
