"""Claims and releases GPUs by OCI hook: reads the container's state on standard input, prints a refusal on stderr."""

from __future__ import annotations

import posix
import sys
import time

from amd_gpu_tracker.book.history import HOOK
from amd_gpu_tracker.book.lease import BY_CDI
from amd_gpu_tracker.book.state import State, open_state
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.claims.hook_entries import (
    CLAIM,
    ENFORCE,
    IMAGE_REQUIREMENTS,
    RELEASE,
    REQUIRE_LIMIT,
    refuse_unlimited,
)
from amd_gpu_tracker.enabled import may_be_tracking
from amd_gpu_tracker.errors import ContainerRunning, GpusRefused, Message
from amd_gpu_tracker.leases.processes import Processes, option_in
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import append_to_file
from amdgpu_discovery.host import Host, read_environment
from amdgpu_discovery.untrusted.plain_json import as_log_word, dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from amdgpu_discovery.gpu import GpuLocation

# The runtime runs its hooks itself or, like crun, through a child.
GENERATIONS = 3
LOG_FILE = "/var/log/amd-container-runtime.log"


def main(words: list[str]) -> int:
    """Run one hook; return its exit code."""
    host = Host(_option(words, "--host-root") or "/")
    directory = _option(words, "--run-directory")
    state = State(host, directory) if directory else open_state(host, read_environment())
    container: dict[str, Any] = {}
    try:
        container = _read_container()
        if words[0] == RELEASE:
            _release(state, container, Processes())
        else:
            act = _claim if words[0] == CLAIM else _check
            requirements = _option(words, IMAGE_REQUIREMENTS) or ENFORCE
            act(state, container, Processes(), requirements, require_limit=REQUIRE_LIMIT in words)
    except ToolkitError as error:
        _report(state, str(container.get("id", "")), error, words[0])
        return error.exit_code
    return 0


def _option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words else ""


def _claim(
    state: State, container: dict[str, Any], processes: Processes, image_requirements: str, *, require_limit: bool
) -> None:
    """Claim the GPUs whose device nodes the container has."""
    if not may_be_tracking(state.host):
        if require_limit:
            refuse_unlimited({}, is_alone=False)
        return
    from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
    from amdgpu_discovery.choices.oci_spec import read_spec

    creators = processes.ancestors(posix.getppid(), GENERATIONS)
    runtime_words = processes.words(creators[0].pid) if creators else []
    bundle = _find_bundle(container["bundle"], runtime_words)
    config = f"{bundle}/config.json"
    starting = StartingContainer(
        container_id=container["id"],
        spec=read_spec(config, name=config),
        # The container's state does not have it.
        root=option_in(runtime_words, "root"),
        bundle=bundle,
        creators=tuple(creators),
        init=processes.find(container["pid"]),
        source=BY_CDI,
        run_directory=state.run_directory if state.is_rootless else "",
    )
    claim = claim_nodes(state.host, starting)
    if require_limit:
        refuse_unlimited(starting.spec, is_alone=claim is not None and claim.is_alone())
    if claim:
        _check_image(state, starting.container_id, starting.spec, claim.gpus, image_requirements)
    if claim and not claim.reserve():
        raise ContainerRunning(f"a container {starting.container_id} that uses GPUs is already running")
    for sentence in claim.find_unreserved_use() if claim else ():
        _log(state, "WARN", "A container is given a GPU that is in use", sentence, starting.container_id)


def _check(
    state: State, container: dict[str, Any], processes: Processes, image_requirements: str, *, require_limit: bool
) -> None:
    """Check the image of a container that claims no GPUs; if its bundle cannot be found, it starts."""
    if require_limit:
        refuse_unlimited({}, is_alone=False)
    from amdgpu_discovery.choices.oci_spec import read_spec

    creators = processes.ancestors(posix.getppid(), GENERATIONS)
    try:
        bundle = _find_bundle(container["bundle"], processes.words(creators[0].pid) if creators else [])
        spec = read_spec(f"{bundle}/config.json", name=f"{bundle}/config.json")
    except ToolkitError as error:
        _log(state, "WARN", "Image requirements were not checked", str(error), container["id"])
        return
    _check_image(state, container["id"], spec, (), image_requirements)


def _check_image(
    state: State, container_id: str, spec: dict[str, Any], gpus: Iterable[GpuLocation], setting: str
) -> None:
    """Refuse a container whose image requires other GPUs than it has, or only log that, as the setting says."""
    from amdgpu_discovery.choices.oci_spec import names_requirements

    if not names_requirements(spec):
        return
    # Few images require anything.
    from amdgpu_discovery.requirements.check import check_image

    for note in check_image(state.host, spec, gpus, setting=setting):
        _log(state, "WARN", "The image of a container with GPUs", note, container_id)


def _release(state: State, container: dict[str, Any], processes: Processes) -> None:
    from amd_gpu_tracker.claims.release import release

    creators = processes.ancestors(posix.getppid(), GENERATIONS)
    release(Book(state, processes), container["id"], creators=creators, how=HOOK)


def _read_container() -> dict[str, Any]:
    """Return the container's state, which the runtime writes to standard input."""
    try:
        state = loads(sys.stdin.buffer.read())
        return {"id": str(state["id"]), "pid": int(state.get("pid") or 0), "bundle": str(state.get("bundle", ""))}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ToolkitError("the container's state on standard input is not what OCI runtimes write") from error


def _find_bundle(reported: str, runtime_words: list[str]) -> str:
    """Return the directory of the bundle; `reported` is the one in the container's state.

    crun 1.21 and 1.28 change to / before they run hooks of a container that has device nodes and its own user
    namespace, and then report their current directory as the bundle. The engine's command line for crun is the only
    other source that a container cannot influence: by now, the container's init may be in a directory of the image.
    """
    if reported != "/":
        return reported
    bundle = option_in(runtime_words, "bundle", "b")
    if not bundle.startswith("/"):
        raise ToolkitError(
            "the runtime calls / the container's bundle, and its command line does not name another directory",
            hint="call it with --bundle and an absolute path",
        )
    return bundle


def _report(state: State, container_id: str, error: ToolkitError, command: str) -> None:
    """Print the error, which runtimes show, and log it for users whose engine shows only an exit code."""
    print(error, file=sys.stderr)
    message = str(error)
    # GpusRefused was recorded when it was decided.
    if command == CLAIM and not isinstance(error, GpusRefused):
        from amd_gpu_tracker.book.refusal_log import record_refusal

        record_refusal(state, container_id=container_id, ways=(BY_CDI,), message=Message(text=message))
    summary = "cannot release" if command == RELEASE else "refused"
    _log(state, "ERROR", f"amd-gpu-tracker {summary} GPUs", message, container_id)


def _log(state: State, level: str, summary: str, message: str, container_id: str) -> None:
    line = f'time={time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())} level={level} msg="{summary}" '
    place = "" if state.host.is_this_machine else f" host_root={dumps(state.host.root).decode()}"
    line += f"error={dumps(message).decode()} container={as_log_word(container_id)}{place}\n"
    try:
        append_to_file(state.host.path(LOG_FILE), line.encode())
    except OSError:
        return
