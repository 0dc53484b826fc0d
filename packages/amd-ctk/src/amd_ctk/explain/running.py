"""What engines know: a running container by its id or name, its spec, and the variables of an image."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from amd_ctk.engines.engine_answers import ENGINE_SECONDS, ask_image, ask_names
from amd_ctk.engines.engine_words import ENGINES, KEEP_GROUPS, PODMAN, engine_of, number_of_id
from amd_ctk.explain.container import Container, ExplainError
from amd_gpu_tracker import Processes, RunningContainer, find_running_containers
from amdgpu_discovery.choices.oci_spec import read_spec
from amdgpu_discovery.command_line.programs import Answer, ask, is_podman_set_up
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.value import Value

SHORTEST_ID = 3
# A CDI device is a request too, with the driver "cdi".
REQUESTS = " {{.HostConfig.Runtime}}{{range .HostConfig.DeviceRequests}} {{.Driver}}:{{end}}"
FORMATS = {"docker": "{{.Id}} {{.State.Pid}}" + REQUESTS, "podman": "{{.Id}} {{.State.Pid}}"}
CDI_REQUEST = "cdi:"
LARGEST_CONFIG = 16 * 1024 * 1024


class InspectedContainer(Value):
    """A container as its engine knows it; `pid` is its first process on the engine's machine, 0 if there is none."""

    container_id: str
    pid: int
    # Only Docker reports these: the runtime's name, and whether `--gpus` was given.
    runtime: str = ""
    asks_gpus: bool = False


class EngineAnswers(Value):
    """The engines' answers about a container; `late` has a clause for each engine that did not answer in time."""

    containers: tuple[InspectedContainer, ...] = ()
    late: str = ""


def ask_engines(name: str) -> EngineAnswers:
    """Return each engine's answer about a container of this name or id."""
    from concurrent.futures import ThreadPoolExecutor

    if name.startswith("-"):
        return EngineAnswers()
    with ThreadPoolExecutor(max_workers=len(ENGINES)) as pool:
        args = ("inspect", "--type", "container", "--format")
        answers = list(pool.map(lambda engine: ask_engine(engine, *args, FORMATS[engine], name), ENGINES))
    return EngineAnswers(
        containers=tuple(filter(None, map(_parse_inspected, answers))),
        late=", ".join(answer.problem for answer in answers if answer.is_late),
    )


def ask_engine(engine: str, *args: str, seconds: float | None = None) -> Answer:
    """Return an engine's answer within `seconds`, by default ENGINE_SECONDS; the engine does not set itself up."""
    if not is_set_up(engine):
        return Answer(problem="podman has no containers and no images")
    return ask([engine, *args], seconds=seconds or ENGINE_SECONDS)


def is_set_up(engine: str) -> bool:
    """Return whether an engine was used before.

    Podman makes its database at its first call, whatever that is, and keeps the settings of that call.
    """
    return engine_of(engine) != PODMAN or is_podman_set_up()


def find_running(host: Host, name: str, containers: Iterable[InspectedContainer]) -> RunningContainer | None:
    """Return root's running container of this id, its start, or an engine's id; None unless exactly one fits."""
    running = find_running_containers(host, Processes())
    for known in (name, *(engine.container_id for engine in containers)):
        is_short = len(known) >= SHORTEST_ID
        found = [
            one for one in running if one.container_id == known or (is_short and one.container_id.startswith(known))
        ]
        if len(found) == 1:
            return found[0]
    return None


def _parse_inspected(answer: Answer) -> InspectedContainer | None:
    fields = answer.output.split()
    if not answer.succeeded or len(fields) < 2 or not fields[1].isdecimal():
        return None
    runtime, *drivers = fields[2:] or [""]
    asks_gpus = any(driver != CDI_REQUEST for driver in drivers)
    return InspectedContainer(container_id=fields[0], pid=int(fields[1]), runtime=runtime, asks_gpus=asks_gpus)


def add_image(container: Container) -> Container:
    """Return a container with the settings of its image; unchanged if no engine knows the image."""
    engine, image = container.engine, container.image
    is_asked = engine in ENGINES and not container.is_engine_silent and is_set_up(engine)
    if not is_asked or not image or image.startswith("-"):
        return container
    command = [engine, *container.engine_options]
    found = ask_image(command, image)
    container = container.replace(
        is_engine_silent=bool(found.late),
        late=found.late,
        is_image_known=found.is_known,
        image_environment=found.environment,
        user=container.user or found.user,
        is_user_of_image=bool(found.user) and not container.user,
    )
    if container.is_user_of_image:
        # Few images name a user.
        from amd_ctk.explain.run_words import refuse_ids

        refused = refuse_ids(engine, f"USER {container.user}", container.user)
        container = container.replace(refusals=(*container.refusals, *refused))
    names = ask_names(command, image) if found.is_known and _needs_names(container) else None
    if names is None:
        return container
    # Few containers need this.
    from amd_ctk.engines.image_names import resolve_user

    numbered = resolve_user(container.user, container.groups, names, is_podman=engine == PODMAN)
    if not numbered.refusal:
        return container.replace(user=numbered.user, groups=numbered.groups)
    refusal = ToolkitError(f"{engine}: {numbered.refusal}", hint="use its number, or an image that has it")
    return container.replace(user="", groups=(), refusals=(*container.refusals, refusal))


def _needs_names(container: Container) -> bool:
    """Return whether the image decides about the groups of a container's program: root may open every node."""
    uid, _, gid = container.user.partition(":")
    words = [gid, *(group for group in container.groups if group != KEEP_GROUPS)]
    return uid not in ("", "0", "root") or any(number_of_id(word) is None for word in words)


def read_bundle(directory: str) -> dict[str, Any]:
    """Return the spec of a bundle; FileError."""
    path = os.path.join(directory, "config.json")
    return read_spec(
        path, name=f"the bundle's {path}", read=lambda path: read_plain_file(path, largest=LARGEST_CONFIG)[0]
    )


def read_running(host: Host, name: str) -> tuple[RunningContainer, dict[str, Any]]:
    """Return a running container and its spec by its id or its engine's name for it; ExplainError."""
    asked = ask_engines(name)
    found = find_running(host, name, asked.containers)
    if found and found.bundle:
        return found, read_bundle(found.bundle)
    # Only Docker reports the runtime.
    if os.geteuid() and any(known.pid and not known.runtime for known in asked.containers):
        problem = f"{name} is a container of rootless Podman, of which only the command can be explained"
        raise ExplainError(problem, hint="run 'amd-ctk explain -- podman run ARGS...'")
    root = "" if os.geteuid() == 0 else "; run it with sudo"
    late = f"; {asked.late}" if asked.late else ""
    problem = f"no container {name} is running, as far as can be seen here{late}{root}"
    raise ExplainError(problem, hint="name it by its id")
