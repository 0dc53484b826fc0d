"""Query the Docker engine of this node through its `docker` command."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from amd_ctk.swarm.resources import Resource, SwarmError
from amd_device_spec.request import SWARM_PREFIX
from amdgpu_discovery.value import Value

SWARM_SECONDS = 30
TASK_LABEL = "com.docker.swarm.task.id"
# swarmkit sets these labels on the container of every task (moby, daemon/cluster/executor/container/container.go).
NAME_FORMAT = '{{.ID}} {{.Label "com.docker.swarm.service.name"}} {{.Label "com.docker.swarm.task.name"}}'


class DockerInfo(Value):
    """The swarm-related fields of `docker info`."""

    resources: tuple[Resource, ...]
    # The id of this node in its swarm, "" for none, and whether it is a manager.
    node_id: str
    is_manager: bool


class TaskName(Value):
    """Swarm's names for the task in a container, and for its service."""

    service: str
    task: str


def docker(*args: str) -> str:
    """Run a docker command and return its output; SwarmError with docker's own message if it fails."""
    program = shutil.which("docker")
    if program is None:
        raise SwarmError("docker is not installed", hint="run this on a node of the swarm")
    try:
        done = subprocess.run([program, *args], capture_output=True, text=True, timeout=SWARM_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise SwarmError(f"docker {args[0]} gave no answer within {SWARM_SECONDS} seconds") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise SwarmError(f"docker {args[0]} failed: {lines[-1]}")
    return done.stdout


def read_docker_info() -> DockerInfo:
    """Return what the daemon reports; SwarmError if there is no daemon."""
    info = json.loads(docker("info", "--format", "{{json .}}"))
    swarm = info.get("Swarm") or {}
    # Without a daemon, the command prints an answer with empty fields.
    if not info.get("ServerVersion"):
        raise SwarmError(
            "the docker daemon does not answer", hint="check that it runs and that you may use it: 'docker info'"
        )
    return DockerInfo(
        # Docker lists them in no particular order.
        resources=tuple(sorted(map(_parse_generic, info.get("GenericResources") or ()), key=str)),
        node_id=swarm.get("NodeID", ""),
        is_manager=bool(swarm.get("ControlAvailable")),
    )


def read_labels(node_id: str) -> dict[str, str]:
    """Return the labels of a node; SwarmError if this node is not a manager."""
    labels: dict[str, str] = json.loads(docker("node", "inspect", "--format", "{{json .Spec.Labels}}", node_id))
    return labels or {}


def read_tasks() -> dict[str, list[Resource]]:
    """Return the resources that Swarm gave its running containers on this node, by container id; SwarmError."""
    lines = _inspect(_read_task_ids(), "{{.Id}} {{json .Config.Env}}")
    environments = dict(line.split(" ", 1) for line in lines)
    return {container_id: _resources_in(environment) for container_id, environment in environments.items()}


def _read_task_ids() -> list[str]:
    return docker("ps", "--quiet", "--no-trunc", "--filter", f"label={TASK_LABEL}").split()


def _inspect(ids: list[str], template: str) -> list[str]:
    """Return a line for each of these containers, except those that end in the meantime; SwarmError."""
    while ids:
        try:
            # Docker escapes ends of lines in values, but not the others that splitlines() knows.
            lines = docker("inspect", "--format", template, *ids).split("\n")
            return [line for line in lines if line]
        except SwarmError:
            running = _read_task_ids()
            left = [container_id for container_id in ids if container_id in running]
            if left == ids:
                raise
            ids = left
    return []


def read_task_names() -> dict[str, TaskName]:
    """Return the names of this node's running tasks by container id; SwarmError."""
    lines = docker("ps", "--no-trunc", "--filter", f"label={TASK_LABEL}", "--format", NAME_FORMAT).splitlines()
    fields = [line.split(" ") for line in lines]
    return {each[0]: TaskName(service=each[1], task=each[2]) for each in fields if len(each) == 3}


def _parse_generic(spec: dict[str, Any]) -> Resource:
    fields = spec.get("NamedResourceSpec") or spec.get("DiscreteResourceSpec") or {}
    return Resource(kind=fields.get("Kind", ""), value=str(fields.get("Value", "")))


def _resources_in(environment: str) -> list[Resource]:
    return [
        Resource(kind=name.removeprefix(SWARM_PREFIX), value=value)
        for name, _, values in (entry.partition("=") for entry in json.loads(environment) or ())
        if name.startswith(SWARM_PREFIX)
        for value in values.split(",")
    ]
