"""Docker's settings for a swarm: read them, prepare a node for a swarm, and undo that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amd_ctk.configuration.apply import Target, find_target
from amd_ctk.configuration.edit import Edit, read_text
from amd_ctk.configuration.engine import is_amd_runtime
from amd_ctk.configuration.ledger import Changes, set_keys, take_back
from amd_ctk.configuration.plan import WantedRuntime, configure, remove, unset_default
from amd_ctk.configuration.unit_files import CommandLine, read_daemon_options
from amd_ctk.engines.docker import DOCKER, LAYOUT
from amd_ctk.swarm.resources import Resource, SwarmError, gpus_named_by, parse_resource
from amdgpu_discovery.command_line.document import ABSENT, Document, DocumentError
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

PATH = ("node-generic-resources",)
DEFAULT_RUNTIME = "--default-runtime"
ADD_RUNTIME = "--add-runtime"
GENERIC_RESOURCE = "--node-generic-resource"
LIVE_RESTORE = "--live-restore"
DATA_ROOT = "--data-root"
USUAL_DATA_ROOT = "/var/lib/docker"
# In Docker's directory for swarms as long as the node is in one.
MEMBERSHIP = "docker-state.json"
RUNTIME_NAME = "amd"
# Marks the changes of this command other than resources.
SETUP = "swarm setup"


def read_resources(document: Document) -> list[Resource]:
    """Return the resources in a configuration; DocumentError if they are not a list of strings."""
    return [parse_resource(entry) for entry in _read(document)]


def read_added_resources(changes: Changes) -> list[Resource]:
    """Return the resources that amd-ctk added to a configuration."""
    return [parse_resource(entry) for entry in _added(changes)]


def advertise(
    document: Document, wanted: Sequence[Resource], gpus: Sequence[Gpu], changes: Changes
) -> tuple[Document, Changes]:
    """Advertise these resources in place of those added earlier and of all others of the same kinds.

    SwarmError if another entry names one of the GPUs, because Swarm would give that GPU out twice.
    """
    kinds = {resource.kind for resource in wanted}
    change = changes.find(PATH)
    if change and document.get(PATH) != change.value:
        # The list was edited since. Without the added entries, it is the new original.
        document, changes = withdraw(document, changes)
    before = _added(changes)
    kept = [entry for entry in _read(document) if entry not in before and parse_resource(entry).kind not in kinds]
    for entry in kept:
        if numbers := gpus_named_by(parse_resource(entry), gpus):
            raise SwarmError(
                f"{entry} in node-generic-resources names GPU {numbers[0]}, and Swarm would give that out twice",
                hint=f"remove the entry, or use --kind {parse_resource(entry).kind}",
            )
    return set_keys(document, [(PATH, [*kept, *map(str, wanted)])], changes)


def withdraw(document: Document, changes: Changes) -> tuple[Document, Changes]:
    """Remove the entries that amd-ctk added. Entries that others added since then stay."""
    change = changes.find(PATH)
    if change is None or document.get(PATH) == change.value:
        return take_back(document, PATH, changes)
    kept = [entry for entry in _read(document) if entry not in _added(changes)]
    return document.set(PATH, kept) if kept else document.remove(PATH), changes.without(PATH)


def _read(document: Document) -> list[str]:
    entries = document.get(PATH)
    if entries is ABSENT:
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise DocumentError(f'"{PATH[0]}" is not a list of strings')
    return entries


def _added(changes: Changes) -> list[str]:
    change = changes.find(PATH)
    if change is None:
        return []
    before = [] if change.before is ABSENT else change.before
    return [entry for entry in change.value if entry not in before]


class NodeSettings(Value):
    """Docker's settings on a node."""

    resources: tuple[Resource, ...]
    # The source of the resources: the file, or the unit with them on its command line.
    resources_from: str
    # The program of the default runtime, "" for Docker's own.
    default_program: str
    # The unit with the default runtime on its command line, "" for none.
    default_from: str
    live_restore: bool
    data_root: str


def read_node_settings(target: Target, text: str | None) -> NodeSettings:
    """Return Docker's settings, given the text of its file; DocumentError."""
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
        data_root=_data_root(document, options),
    )


def advertises_gpus(host: Host, *, joined: bool = False) -> bool:
    """Return whether Docker on a host advertises generic resources; False if its file cannot be read.

    With `joined`, False also if Docker's files say that the node is in no swarm, as after `docker swarm leave`.
    """
    try:
        target = find_target(host, DOCKER, "")
        settings = read_node_settings(target, read_text(target.file))
    except ToolkitError:
        return False
    # Docker removes all files of a swarm that the node leaves, and keeps the directory.
    swarm = f"{settings.data_root}/swarm"
    is_in_none = host.stat(swarm) is not None and host.stat(f"{swarm}/{MEMBERSHIP}") is None
    return bool(settings.resources) and not (joined and is_in_none)


def read_given_budget(target: Target, vram_kind: str) -> tuple[list[Resource], str]:
    """Return the resources on the daemon's command line and the unit, if memory is among them; else []."""
    options = read_daemon_options(target.engine, target.file, target.host)
    given = [parse_resource(value) for value in options.values_of(GENERIC_RESOURCE)]
    has_budget = any(resource.kind == vram_kind and resource.amount for resource in given)
    return (given, options.unit) if has_budget else ([], "")


def find_obstacles(settings: NodeSettings) -> Iterator[str]:
    """Yield a sentence for each of Docker's settings that keeps Swarm's tasks from getting GPUs."""
    if not is_amd_runtime(settings.default_program):
        yield (
            "Swarm runs every task under the default runtime, which is not the AMD Container Runtime"
            f" ({_advice(settings.default_from)})"
        )
    if settings.live_restore:
        yield 'Docker cannot join a swarm while "live-restore" is true'


def _advice(unit: str) -> str:
    """Tell how to set the default runtime. Docker does not start if both file and command line set one."""
    command = "'sudo amd-ctk runtime configure --set-as-default'"
    if not unit:
        return f"run {command}"
    return f"remove {DEFAULT_RUNTIME} from {unit}, then run {command}"


def _data_root(document: Document, options: CommandLine) -> str:
    written = document.get((DATA_ROOT.lstrip("-"),))
    if given := options.values_of(DATA_ROOT):
        return given[-1]
    return written if isinstance(written, str) else USUAL_DATA_ROOT


def _default_program(document: Document, options: CommandLine) -> str:
    """Return the program of the default runtime. Docker merges the runtimes of file and command line."""
    given = options.values_of(DEFAULT_RUNTIME)
    name = given[-1] if given else LAYOUT.default_in(document)
    added = dict(value.partition("=")[::2] for value in options.values_of(ADD_RUNTIME))
    return {**added, **LAYOUT.programs_in(document)}.get(name, "")


def plan_setup(resources: Sequence[Resource], gpus: Sequence[Gpu], *, default_program: str) -> Edit:
    """Return the edit that advertises these resources and makes this program, unless "", the default runtime.

    Without resources, the advertised ones stay unchanged, because they are on the daemon's command line.
    """

    def edit(document: Document, changes: Changes) -> tuple[Document, Changes]:
        if default_program:
            runtime = WantedRuntime(runtime_name=RUNTIME_NAME, program=default_program, as_default=True)
            document, after = configure(document, DOCKER, runtime, changes)
            changes = after.marked(SETUP, of=changes)
        return advertise(document, resources, gpus, changes) if resources else (document, changes)

    return edit


def take_setup_back(document: Document, changes: Changes) -> tuple[Document, Changes]:
    """Withdraw the resources, and remove the runtime or its role as default if `plan_setup` added them."""
    document, changes = withdraw(document, changes)
    made = {change.path for change in changes.keys if change.by == SETUP}
    if (*LAYOUT.runtimes, RUNTIME_NAME) in made:
        return remove(document, DOCKER, RUNTIME_NAME, changes)
    return (
        unset_default(document, DOCKER, RUNTIME_NAME, changes)
        if LAYOUT.default_runtime in made
        else (document, changes)
    )
