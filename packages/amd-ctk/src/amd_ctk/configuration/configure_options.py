"""The options of `amd-ctk runtime configure`, and the edit they ask for."""

from __future__ import annotations

from amd_ctk.configuration.plan import WantedRuntime, configure, remove, unset_default
from amd_ctk.configuration.runtime_program import check_runtime_path, find_runtime_program
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.configuration.edit import Edit
    from amd_ctk.configuration.engine import Engine


class ConfigureOptions(Value):
    """The options of `amd-ctk runtime configure`."""

    runtime_name: str
    runtime_path: str
    cdi: bool | None
    set_as_default: bool
    unset_as_default: bool
    remove: bool
    undo: bool
    dry_run: bool
    show_diff: bool
    validate: bool
    restart: bool

    @property
    def adds_runtime(self) -> bool:
        """Whether the engine calls amd-container-runtime afterwards."""
        return not (self.remove or self.undo or self.unset_as_default)


def plan_edit(
    engine: Engine, options: ConfigureOptions, *, ourselves: str, search_path: str, must_exist: bool = True
) -> tuple[Edit, str]:
    """Return the edit, and the program that the engine then calls, "" where the edit adds none.

    `ourselves` and `search_path` say where to look for amd-container-runtime. A path that the user gave is not checked
    where it need not exist, as on a simulated host, which has no programs.
    """
    name = options.runtime_name
    if options.remove:
        return lambda document, changes: remove(document, engine, name, changes), ""
    if options.unset_as_default:
        return lambda document, changes: unset_default(document, engine, name, changes), ""
    if options.runtime_path:
        program = check_runtime_path(options.runtime_path, must_exist=must_exist)
    else:
        program = find_runtime_program(ourselves, search_path)
    runtime = WantedRuntime(runtime_name=name, program=program, as_default=options.set_as_default, cdi=options.cdi)
    # What is asked for by name stays when 'amd-ctk swarm setup', which may have made it first, is taken back.
    return lambda document, changes: configure(document, engine, runtime, changes.unmarked()), program
