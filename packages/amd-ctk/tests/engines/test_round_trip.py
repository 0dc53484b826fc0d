"""On configurations as people have them: what we put in we take out again, to the byte."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amd_ctk.configuration.edit import EngineEdit, prepare_edit, prepare_undo, save
from amd_ctk.configuration.engine import Engine
from amd_ctk.configuration.ledger import Ledger
from amd_ctk.configuration.plan import ConfigureOptions, plan_edit
from amd_ctk.engines.known import ENGINES
from amdgpu_discovery.command_line.document import Document
from amdgpu_discovery.command_line.edited import ConfigFile

CORPUS = Path(__file__).parent / "corpus"
CASES = [
    pytest.param(ENGINES[path.parent.name], path, id=f"{path.parent.name}-{path.stem}") for path in CORPUS.glob("*/*")
]
ASKED_FOR = ConfigureOptions(
    runtime_name="amd",
    runtime_path="/usr/bin/amd-container-runtime",
    cdi=None,
    set_as_default=False,
    unset_as_default=False,
    remove=False,
    undo=False,
    dry_run=False,
    show_diff=False,
    validate=False,
    restart=False,
)
REMOVAL = ASKED_FOR.replace(remove=True)
requests = st.builds(
    ASKED_FOR.replace,
    runtime_path=st.sampled_from(["/usr/bin/amd-container-runtime", "/opt/amd/shim"]),
    cdi=st.sampled_from([None, True, False]),
    set_as_default=st.booleans(),
) | st.just(ASKED_FOR.replace(unset_as_default=True))


class Machine:
    """A configuration file and the record of what we did to it."""

    def __init__(self, engine: Engine, config: Path) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.engine = engine
        self.path = self.directory / config.name
        shutil.copy(config, self.path)
        self.file = ConfigFile(path=str(self.path), shown=str(self.path))
        self.ledger = Ledger(str(self.directory))

    def ask(self, options: ConfigureOptions) -> EngineEdit:
        record = self.ledger.get(self.file.shown)
        if options.undo:
            edited = prepare_undo(self.file, record)
        else:
            edit, _ = plan_edit(self.engine, options, own_path="", search_path="", must_exist=False)
            edited = prepare_edit(self.engine, self.file, edit, record)
        if edited.changed:
            save(edited, self.ledger)
        return edited

    def document(self) -> Document:
        return self.engine.read(self.path.read_bytes().decode())


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    made: list[Machine] = []
    yield made
    for machine in made:
        shutil.rmtree(machine.directory)


@pytest.mark.parametrize(("engine", "config"), CASES)
@given(asked=st.lists(requests, min_size=1, max_size=4))
@settings(max_examples=15, deadline=None)
def test_whatever_was_configured_removal_gives_back_every_byte(
    engine: Engine, config: Path, asked: list[ConfigureOptions]
) -> None:
    machine = Machine(engine, config)
    try:
        for options in asked:
            machine.ask(options)
            assert not machine.ask(options).changed

        machine.ask(REMOVAL)

        assert machine.path.read_bytes() == config.read_bytes()
        assert not machine.ask(REMOVAL).changed
    finally:
        shutil.rmtree(machine.directory)


@pytest.mark.parametrize(("engine", "config"), CASES)
def test_the_configured_file_says_what_it_said_and_one_runtime_more(
    engine: Engine, config: Path, machines: list[Machine]
) -> None:
    machine = Machine(engine, config)
    machines.append(machine)
    before = machine.document()

    machine.ask(ASKED_FOR.replace(set_as_default=True))

    after = machine.document()
    layout = engine.find_layout(after)
    assert layout.program_of(after.get((*layout.runtimes, "amd"))) == "/usr/bin/amd-container-runtime"
    assert after.get(layout.default_runtime) == "amd"
    for path, value in _leaves(before.get(())):
        assert after.get(path) == value or path == layout.default_runtime


@pytest.mark.parametrize(("engine", "config"), CASES)
def test_lines_that_others_wrote_in_between_survive_the_removal(
    engine: Engine, config: Path, machines: list[Machine]
) -> None:
    machine = Machine(engine, config)
    machines.append(machine)
    before = machine.document()
    machine.ask(ASKED_FOR.replace(set_as_default=True))
    layout = engine.find_layout(machine.document())
    theirs = machine.document().set((*layout.runtimes, "theirs"), layout.make_entry("/opt/theirs"))
    machine.path.write_bytes(theirs.text.encode())

    machine.ask(REMOVAL)

    expected = dict(_leaves(before.set((*layout.runtimes, "theirs"), layout.make_entry("/opt/theirs")).get(())))
    if before.is_empty:
        # Of a version that we had to give it; what somebody else built on that stays with it.
        expected = {path: value for path, value in expected.items() if path != ("version",)}
    assert dict(_leaves(machine.document().get(()))) == expected


@pytest.mark.parametrize(("engine", "config"), CASES)
def test_undo_gives_back_every_byte(engine: Engine, config: Path, machines: list[Machine]) -> None:
    machine = Machine(engine, config)
    machines.append(machine)
    machine.ask(ASKED_FOR)

    machine.ask(ASKED_FOR.replace(undo=True))

    assert machine.path.read_bytes() == config.read_bytes()


def _leaves(tree: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    if not isinstance(tree, dict):
        yield path, tree
        return
    for key, value in tree.items():
        yield from _leaves(value, (*path, key))
