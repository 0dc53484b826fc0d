"""Add a runtime to an engine's configuration document for `runtime configure`, or remove it."""

from __future__ import annotations

from amd_ctk.configuration.edit import Edit
from amd_ctk.configuration.engine import Engine, EngineLayout, is_amd_runtime
from amd_ctk.configuration.ledger import Changes, remove_empty_tables, set_keys, take_back
from amd_ctk.configuration.runtime_program import check_runtime_path, find_runtime_program
from amdgpu_discovery.command_line.document import ABSENT, Document, DocumentError, KeyPath, read_path
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value


class ForeignRuntime(ToolkitError):
    """A runtime of that name already exists and runs another program."""


class ReservedName(ToolkitError):
    """The name is empty, or belongs to a built-in runtime of the engine."""


class WantedRuntime(Value):
    """The runtime that the configuration should have."""

    runtime_name: str
    program: str
    as_default: bool = False
    # None enables CDI only if the configuration does not set it.
    cdi: bool | None = None


def configure(document: Document, engine: Engine, runtime: WantedRuntime, changes: Changes) -> tuple[Document, Changes]:
    """Add the runtime and the keys that it needs; ReservedName or ForeignRuntime if its name is taken."""
    _refuse_reserved(engine, runtime.runtime_name)
    layout = _find_layout(document, engine)
    wanted = [*layout.preamble]
    if not _runtimes(document, layout):
        wanted += [((*layout.runtimes, name), entry) for name, entry in layout.implicit_runtimes]
    entry_path = (*layout.runtimes, runtime.runtime_name)
    entry = document.get(entry_path)
    if entry is ABSENT:
        wanted.append((entry_path, layout.make_entry(runtime.program)))
    elif layout.program_of(entry) != runtime.program:
        _refuse_foreign(entry, engine, layout, runtime.runtime_name, changes)
        wanted.append(((*entry_path, *layout.program), read_path(layout.make_entry(runtime.program), layout.program)))
    elif layout.is_outdated(entry):
        wanted.append((entry_path, layout.make_entry(runtime.program)))
    if runtime.as_default:
        wanted.append((layout.default_runtime, runtime.runtime_name))
    if layout.cdi and runtime.cdi is False:
        document, changes = take_back(document, layout.cdi, changes)
    elif layout.cdi and (runtime.cdi or document.get(layout.cdi) is ABSENT):
        wanted.append((layout.cdi, True))
    return set_keys(document, wanted, changes)


def unset_default(document: Document, engine: Engine, name: str, changes: Changes) -> tuple[Document, Changes]:
    """If `name` is the default runtime, restore the default from before amd-ctk set it, or none."""
    layout = _find_layout(document, engine)
    path = layout.default_runtime
    if document.get(path) != name:
        return document, changes
    change = changes.find(path)
    before = change.before if change else ABSENT
    if before in _runtimes(document, layout) or before in engine.built_in:
        return document.set(path, before), changes.without(path)
    return remove_empty_tables(document.remove(path), changes.without(path))


def remove(document: Document, engine: Engine, name: str, changes: Changes) -> tuple[Document, Changes]:
    """Remove the runtime if amd-ctk added it. Along with the last such runtime, remove all other changes."""
    if document.is_empty:
        return document, Changes()
    layout = _find_layout(document, engine)
    path = (*layout.runtimes, name)
    entry = document.get(path)
    if entry is not ABSENT and is_added(entry, layout, name, changes):
        document, changes = unset_default(document, engine, name, changes)
        document = document.remove(path)
        if not changes.find(path):
            # The original toolkit configured it, which leaves no record and also empties the table.
            changes = changes.replace(tables=(*changes.tables, layout.runtimes))
    changes = changes.without(path)
    if not _runtimes_of_added(layout, changes):
        for change in reversed(changes.keys):
            document, changes = take_back(document, change.path, changes)
    return remove_empty_tables(document, changes)


def is_added(entry: object, layout: EngineLayout, name: str, changes: Changes) -> bool:
    """Return whether a runtime's entry runs amd-container-runtime, or the program that amd-ctk wrote there."""
    program = layout.program_of(entry)
    path = (*layout.runtimes, name)
    whole, in_entry = changes.find(path), changes.find((*path, *layout.program))
    given = {layout.program_of(whole.value)} if whole else set()
    given |= {in_entry.value} if in_entry and isinstance(in_entry.value, str) else set()
    return is_amd_runtime(program) or program in given


def _find_layout(document: Document, engine: Engine) -> EngineLayout:
    """Return the layout of the document; DocumentError if the document has values that no engine accepts."""
    layout = engine.find_layout(document)
    document.get((*layout.runtimes, ""))
    _expect(document, layout.default_runtime, str, "a string")
    if layout.cdi:
        _expect(document, layout.cdi, bool, "true or false")
    return layout


def _expect(document: Document, path: KeyPath, expected: type, words: str) -> None:
    value = document.get(path)
    if value is not ABSENT and not isinstance(value, expected):
        raise DocumentError(f'"{".".join(path)}" is not {words}')


def _runtimes_of_added(layout: EngineLayout, changes: Changes) -> set[str]:
    """Return the names of the runtimes that amd-ctk added, except those that had to accompany them."""
    depth = len(layout.runtimes)
    names = {change.path[depth] for change in changes.keys if change.path[:depth] == layout.runtimes}
    return names - {name for name, _ in layout.implicit_runtimes}


def _refuse_reserved(engine: Engine, name: str) -> None:
    hint = "choose another with --runtime-name"
    if not name.strip():
        raise ReservedName("the name of the runtime is empty", hint=hint)
    # dockerd --validate accepts the name, but the daemon fails with "runtime name 'runc' is reserved".
    if name in engine.built_in:
        raise ReservedName(f'{engine.name} has a runtime of its own called "{name}"', hint=hint)


def _refuse_foreign(entry: object, engine: Engine, layout: EngineLayout, name: str, changes: Changes) -> None:
    if not is_added(entry, layout, name, changes):
        raise ForeignRuntime(
            f'the runtime "{name}" exists already and runs {layout.program_of(entry) or "something else"}',
            hint=engine.foreign_hint,
        )


def _runtimes(document: Document, layout: EngineLayout) -> dict[str, object]:
    runtimes = document.get(layout.runtimes)
    return runtimes if isinstance(runtimes, dict) else {}


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
        """Whether the engine calls amd-container-runtime after the change."""
        return not (self.remove or self.undo or self.unset_as_default)


def plan_edit(
    engine: Engine, options: ConfigureOptions, *, own_path: str, search_path: str, must_exist: bool = True
) -> tuple[Edit, str]:
    """Return the edit, and the program that the engine then calls, "" if the edit adds none.

    The search for amd-container-runtime starts from `own_path` and `search_path`. With `must_exist` False, a path from
    the user is not checked, for example on a simulated host, which has no programs.
    """
    name = options.runtime_name
    if options.remove:
        return lambda document, changes: remove(document, engine, name, changes), ""
    if options.unset_as_default:
        return lambda document, changes: unset_default(document, engine, name, changes), ""
    if options.runtime_path:
        program = check_runtime_path(options.runtime_path, must_exist=must_exist)
    else:
        program = find_runtime_program(own_path, search_path)
    runtime = WantedRuntime(runtime_name=name, program=program, as_default=options.set_as_default, cdi=options.cdi)
    # 'amd-ctk swarm setup' may have added the runtime first; removing that setup must not remove it any more.
    return lambda document, changes: configure(document, engine, runtime, changes.unmarked()), program
