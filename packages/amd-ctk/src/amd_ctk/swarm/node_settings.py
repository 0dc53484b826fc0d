"""The settings of Docker that matter to a swarm, from its file and from its daemon's command line."""

from __future__ import annotations

import os.path
from typing import Any  # noqa: TID253  no container start comes here

from amd_ctk.configuration.apply import find_target
from amd_ctk.configuration.config_file import read_text
from amd_ctk.configuration.daemon_options import read_daemon_options
from amd_ctk.configuration.engine import RUNTIME_PROGRAM
from amd_ctk.documents.document import ABSENT
from amd_ctk.engines.docker import DOCKER, LAYOUT
from amd_ctk.swarm.generic_resources import read_resources
from amd_ctk.swarm.resources import Resource, parse_resource
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from amd_ctk.configuration.apply import Target
    from amd_ctk.configuration.unit_files import CommandLine
    from amd_ctk.documents.document import Document
    from amdgpu_discovery.host import Host

DEFAULT_RUNTIME = "--default-runtime"
ADD_RUNTIME = "--add-runtime"
GENERIC_RESOURCE = "--node-generic-resource"
LIVE_RESTORE = "--live-restore"


class NodeSettings(Value):
    """Docker's settings on a node."""

    resources: tuple[Resource, ...]
    # Where the resources come from: the file, or the unit that has them on its command line.
    resources_from: str
    # The program of the default runtime, "" for Docker's own.
    default_program: str
    # The unit that has the default runtime on its command line, "" for none.
    default_from: str
    live_restore: bool


def read_node_settings(target: Target, text: str | None) -> NodeSettings:
    """Return the settings of Docker where its file holds this text; DocumentError."""
    engine = target.engine
    document = engine.read(engine.new_text if text is None else text)
    options = read_daemon_options(engine, target.file, target.host)
    advertised = options.values_of(GENERIC_RESOURCE)
    return NodeSettings(
        resources=tuple(map(parse_resource, advertised) if advertised else read_resources(document)),
        resources_from=options.unit if advertised else target.file.shown,
        default_program=_default_program(document, options),
        default_from=options.unit if options.values_of(DEFAULT_RUNTIME) else "",
        live_restore=document.get(("live-restore",)) is True or options.has_flag(LIVE_RESTORE),
    )


def advertises_gpus(host: Host) -> bool:
    """Return whether Docker on a host advertises generic resources to a swarm, as far as its file can be read."""
    try:
        target = find_target(host, DOCKER, "")
        return bool(read_node_settings(target, read_text(target.file)).resources)
    except ToolkitError:
        return False


def read_given_budget(target: Target, vram_kind: str) -> tuple[list[Resource], str]:
    """Return what the daemon's command line advertises if memory is among it, and the unit; [] if it is not."""
    options = read_daemon_options(target.engine, target.file, target.host)
    given = [parse_resource(value) for value in options.values_of(GENERIC_RESOURCE)]
    has_budget = any(resource.kind == vram_kind and resource.amount for resource in given)
    return (given, options.unit) if has_budget else ([], "")


def find_obstacles(settings: NodeSettings) -> Iterator[str]:
    """Yield a sentence for each thing in Docker's settings that keeps tasks of Swarm from getting GPUs."""
    if os.path.basename(settings.default_program) != RUNTIME_PROGRAM:
        yield (
            "Swarm runs every task under the default runtime, which is not the AMD Container Runtime"
            f" ({_advice(settings.default_from)})"
        )
    if settings.live_restore:
        yield 'Docker cannot join a swarm while "live-restore" is true'


def _advice(unit: str) -> str:
    """Say how to make it the default runtime. Docker does not start if file and command line both set one."""
    command = "'amd-ctk runtime configure --set-as-default'"
    if not unit:
        return f"run {command}"
    return f"remove {DEFAULT_RUNTIME} from {unit}, then run {command}"


def _default_program(document: Document, options: CommandLine) -> str:
    """Return the program of the default runtime; runtimes of the file and of the command line are joined."""
    given = options.values_of(DEFAULT_RUNTIME)
    name: Any = given[-1] if given else document.get(LAYOUT.default_runtime)
    runtimes = document.get(LAYOUT.runtimes)
    entry = runtimes.get(name, ABSENT) if isinstance(runtimes, dict) and isinstance(name, str) else ABSENT
    added = dict(value.partition("=")[::2] for value in options.values_of(ADD_RUNTIME))
    return added.get(name, "") if entry is ABSENT else LAYOUT.program_of(entry)
