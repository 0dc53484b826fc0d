"""What a user asks for, and the edit that does it."""

from __future__ import annotations

from amd_ctk.configuration.plan import Wish, configure, remove, unset_default
from amd_ctk.configuration.runtime_program import check_runtime_path, find_runtime_program
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.configuration.edit import Edit
    from amd_ctk.engines.engine import Engine


class Request(Value):
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
        """Whether the engine shall call our program afterwards."""
        return not (self.remove or self.undo or self.unset_as_default)


def plan_edit(
    engine: Engine, request: Request, *, ourselves: str, search_path: str, must_exist: bool = True
) -> tuple[Edit, str]:
    """Return the edit, and the program that the engine calls after it, "" where it calls none of ours.

    `ourselves` and `search_path` are where amd-container-runtime is looked for; a path that the user gave is taken
    without a look where it need not exist, as on a simulated host, which has no programs.
    """
    name = request.runtime_name
    if request.remove:
        return lambda document, ours: remove(document, engine, name, ours), ""
    if request.unset_as_default:
        return lambda document, ours: unset_default(document, engine, name, ours), ""
    if request.runtime_path:
        program = check_runtime_path(request.runtime_path, must_exist=must_exist)
    else:
        program = find_runtime_program(ourselves, search_path)
    wish = Wish(runtime_name=name, program=program, as_default=request.set_as_default, cdi=request.cdi)
    return lambda document, ours: configure(document, engine, wish, ours), program
