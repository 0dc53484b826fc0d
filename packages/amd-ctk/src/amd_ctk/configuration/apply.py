"""Change an engine's configuration, or preview the change; every command that edits one uses this."""

from __future__ import annotations

from amd_ctk.configuration.checker import check
from amd_ctk.configuration.config_file import ConfigFile
from amd_ctk.configuration.daemon_options import read_daemon_options, refuse_taken_directives
from amd_ctk.configuration.edit import prepare_edit, save
from amd_ctk.configuration.ledger import Ledger, ledger_directory, open_ledger
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from amd_ctk.configuration.edit import Edit, Edited
    from amd_ctk.configuration.engine import Engine
    from amd_ctk.configuration.ledger import Record
    from amdgpu_discovery.host import Host


class Target(Value):
    """A configuration file of a host, and the engine as that file has it."""

    host: Host
    engine: Engine
    file: ConfigFile


def find_target(host: Host, engine: Engine, config_path: str) -> Target:
    """Return the configuration file to edit; `config_path` "" means the engine's default."""
    if config_path:
        shown = host.given(config_path)
    else:
        engine = engine.on_host(host) if engine.on_host else engine
        shown = engine.config_path
    return Target(host=host, engine=engine, file=ConfigFile(path=host.path(shown), shown=shown))


def prepare(
    target: Target, edit: Edit, record: Record, *, validate: bool, adds: bool = True, program: str = ""
) -> Edited:
    """Return what an edit would do, checked by the engine; ToolkitError where the engine would not start with it.

    `adds` is False for an edit that only removes; `program` has to be in the configuration that the engine prints.
    """
    engine, file = target.engine, target.file
    edited = prepare_edit(engine, file, edit, record)
    if not edited.changed or edited.new is None:
        return edited
    if adds:
        old = engine.read(engine.new_text if edited.old is None else edited.old)
        options = read_daemon_options(engine, file, target.host)
        refuse_taken_directives(engine, file, options, old=old, new=engine.read(edited.new))
    if validate:
        check(engine, edited.new, file.shown, program=program)
    return edited


def preview(target: Target, prepare_change: Callable[[Record], Edited], environment: Mapping[str, str]) -> Edited:
    """Return what a change would do, without doing it."""
    ledger = Ledger(ledger_directory(target.host, environment))
    return prepare_change(ledger.get(target.file.shown))


def apply(
    target: Target,
    prepare_change: Callable[[Record], Edited],
    environment: Mapping[str, str],
    *,
    before_saving: Callable[[], None] = lambda: None,
) -> Edited:
    """Make a change that `prepare_change` returns for the record of the file; ToolkitError, and nothing is changed.

    `before_saving` is called once the change is known to be possible, even where there is nothing to write.
    """
    with open_ledger(target.host, environment) as ledger:
        record = ledger.get(target.file.shown)
        edited = prepare_change(record)
        before_saving()
        if edited.changed:
            save(edited, ledger)
        elif edited.record != record:
            ledger.put(target.file.shown, edited.record)
    return edited
