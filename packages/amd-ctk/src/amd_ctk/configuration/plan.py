"""What to change in an engine's configuration, and what to take back: documents in, documents out."""

from __future__ import annotations

import os.path

from amd_ctk.configuration.changes import Changes, remove_empty_tables, set_keys, take_back
from amd_ctk.documents.document import ABSENT, Document, DocumentError, KeyPath, read_path
from amd_ctk.engines.engine import RUNTIME_PROGRAM, Engine, Layout
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value


class ForeignRuntime(ToolkitError):
    """A runtime of the wanted name is there already and runs something else."""


class ReservedName(ToolkitError):
    """A runtime cannot have this name."""


class Wish(Value):
    """What the configuration shall say."""

    runtime_name: str
    program: str
    as_default: bool = False
    # True and False are the user's word; None turns it on where nobody has said anything.
    cdi: bool | None = None


def configure(document: Document, engine: Engine, wish: Wish, ours: Changes) -> tuple[Document, Changes]:
    """Add the runtime, and what goes with it; ReservedName or ForeignRuntime where its name is taken."""
    _refuse_reserved(engine, wish.runtime_name)
    layout = _find_layout(document, engine)
    wanted = [*layout.preamble]
    if not _runtimes(document, layout):
        wanted += [((*layout.runtimes, name), entry) for name, entry in layout.otherwise_lost]
    entry_path = (*layout.runtimes, wish.runtime_name)
    entry = document.get(entry_path)
    if entry is ABSENT:
        wanted.append((entry_path, layout.entry(wish.program)))
    elif layout.program_of(entry) != wish.program:
        _refuse_foreign(entry, layout, wish.runtime_name, ours)
        wanted.append(((*entry_path, *layout.program), read_path(layout.entry(wish.program), layout.program)))
    if wish.as_default:
        wanted.append((layout.default_runtime, wish.runtime_name))
    if layout.cdi and wish.cdi is False:
        document, ours = take_back(document, layout.cdi, ours)
    elif layout.cdi and (wish.cdi or document.get(layout.cdi) is ABSENT):
        wanted.append((layout.cdi, True))
    return set_keys(document, wanted, ours)


def unset_default(document: Document, engine: Engine, name: str, ours: Changes) -> tuple[Document, Changes]:
    """Make `name` the default runtime no longer: the one before us is again, or none; another's stays."""
    layout = _find_layout(document, engine)
    path = layout.default_runtime
    if document.get(path) != name:
        return document, ours
    change = ours.find(path)
    before = change.before if change else ABSENT
    if before in _runtimes(document, layout) or before in engine.built_in:
        return document.set(path, before), ours.without(path)
    return remove_empty_tables(document.remove(path), ours.without(path))


def remove(document: Document, engine: Engine, name: str, ours: Changes) -> tuple[Document, Changes]:
    """Take out the runtime if it is ours and, with the last one of ours, all else that is."""
    if document.is_empty:
        return document, Changes()
    layout = _find_layout(document, engine)
    path = (*layout.runtimes, name)
    entry = document.get(path)
    if entry is not ABSENT and is_ours(entry, layout, name, ours):
        document, ours = unset_default(document, engine, name, ours)
        document = document.remove(path)
        if not ours.find(path):
            # Configured by the original, which leaves no record and empties the table in the same way.
            ours = ours.replace(tables=(*ours.tables, layout.runtimes))
    ours = ours.without(path)
    if not _runtimes_of_ours(layout, ours):
        for change in reversed(ours.keys):
            document, ours = take_back(document, change.path, ours)
    return remove_empty_tables(document, ours)


def is_ours(entry: object, layout: Layout, name: str, ours: Changes) -> bool:
    """Return whether a runtime's entry runs our program, or the one that we gave it."""
    program = layout.program_of(entry)
    path = (*layout.runtimes, name)
    changes = [ours.find(path), ours.find((*path, *layout.program))]
    given = {layout.program_of(changes[0].value)} if changes[0] else set()
    given |= {changes[1].value} if changes[1] and isinstance(changes[1].value, str) else set()
    return os.path.basename(program) == RUNTIME_PROGRAM or program in given


def _find_layout(document: Document, engine: Engine) -> Layout:
    """Return where the document keeps what we change; DocumentError where it holds what no engine takes there."""
    layout = engine.find_layout(document)
    document.get((*layout.runtimes, ""))
    _expect(document, layout.default_runtime, str, "a string")
    if layout.cdi:
        _expect(document, layout.cdi, bool, "true or false")
    return layout


def _expect(document: Document, path: KeyPath, kind: type, words: str) -> None:
    value = document.get(path)
    if value is not ABSENT and not isinstance(value, kind):
        raise DocumentError(f'"{".".join(path)}" is not {words}')


def _runtimes_of_ours(layout: Layout, ours: Changes) -> set[str]:
    """Return the names of the runtimes that we added for their own sake."""
    depth = len(layout.runtimes)
    names = {change.path[depth] for change in ours.keys if change.path[:depth] == layout.runtimes}
    return names - {name for name, _ in layout.otherwise_lost}


def _refuse_reserved(engine: Engine, name: str) -> None:
    hint = "choose another with --runtime-name"
    if not name.strip():
        raise ReservedName("the name of the runtime is empty", hint=hint)
    # dockerd --validate accepts it, and the daemon ends with "runtime name 'runc' is reserved".
    if name in engine.built_in:
        raise ReservedName(f'{engine.name} has a runtime of its own called "{name}"', hint=hint)


def _refuse_foreign(entry: object, layout: Layout, name: str, ours: Changes) -> None:
    if not is_ours(entry, layout, name, ours):
        raise ForeignRuntime(
            f'the runtime "{name}" is there already and runs {layout.program_of(entry) or "something else"}',
            hint="choose another with --runtime-name",
        )


def _runtimes(document: Document, layout: Layout) -> dict[str, object]:
    runtimes = document.get(layout.runtimes)
    return runtimes if isinstance(runtimes, dict) else {}
