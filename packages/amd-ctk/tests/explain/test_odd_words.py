"""What explain says of right and wrong words, beside what engines and Compose answered to them.

tests-integration/cdi/test_odd_words.py asked the engines, and writes the files in words/ again. Each difference is one
of the notes in words/notes.json, found by the engine's message, or by the words where the engine took them.
WRITE_WORDS_PAGE=1 writes the page.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from amd_ctk.explain import engine_spec, engine_view
from amd_ctk.explain.compose import read_service
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run
from amdgpu_discovery.errors import ToolkitError
from support import compose_services
from support.about_gpus import differences
from support.kept_answers import DIRECTORY, read_answers
from support.odd_env_files import DIRECTORY as ENV_DIRECTORY
from support.odd_env_files import TEXT_BY_PATH
from support.recorder import AMD_RUNTIME, KFD
from support.run_lines import CALLER, ENV_FILE_TEXT, IMAGE, IMAGE_VARIABLES

VERSIONS = {
    "docker-20": (20, 10, 24),
    "docker-26": (26, 1, 5),
    "docker-28": (28, 5, 2),
    "podman-4.3": (4, 3, 1),
    "podman-5.4": (5, 4, 2),
    "podman-5.8": (5, 8, 0),
    "compose-1.29": (20, 10, 24),
    "compose-2.26": (26, 1, 5),
}
TITLES = {
    "docker-20": "Docker 20.10",
    "docker-26": "Docker 26.1",
    "docker-28": "Docker 28.5",
    "podman-4.3": "Podman 4.3",
    "podman-5.4": "Podman 5.4",
    "podman-5.8": "Podman 5.8",
    "compose-1.29": "Compose 1.29",
    "compose-2.26": "Compose 2.26",
}
NOTES = json.loads((DIRECTORY / "notes.json").read_bytes())
PAGE = Path(__file__).parents[4] / "docs/maintain/engine-words.md"


@pytest.fixture
def ask(sleeping_host, amd_ctk, tmp_path, monkeypatch):
    """Return a function that gives what explain says of a question to an engine: a spec, or a refusal."""
    machine = make_machine(sleeping_host, amd_ctk)
    (tmp_path / compose_services.ENV_FILE).write_text(ENV_FILE_TEXT, encoding="utf-8")
    (tmp_path / ".env").write_text(compose_services.DEFAULTS, encoding="utf-8")
    (tmp_path / "odd").mkdir()
    for path, text in TEXT_BY_PATH.items():
        (tmp_path / "odd" / Path(path).name).write_bytes(text)
    # Podman passes on what begins with AMD_, and ./check has such a variable.
    own = {name for name in os.environ if name.startswith("AMD_")} - {"AMD_CTK_HOST_ROOT"}
    for name in (*CALLER, *own):
        monkeypatch.delenv(name, raising=False)
    # As the commands are typed in the box.
    monkeypatch.chdir("/")

    def ask(engine, question):
        for module in (engine_view, engine_spec):
            monkeypatch.setattr(module, "find_version", lambda *_: VERSIONS[engine])
        caller = CALLER if question[-1] else {}
        with monkeypatch.context() as calling:
            for name, value in caller.items():
                calling.setenv(name, value)
            try:
                container = read(engine, question, caller, tmp_path, machine)
            except ToolkitError as error:
                return None, str(error)
            image = IMAGE_VARIABLES if container.image == IMAGE else ()
            explanation = explain_container(container.replace(image_environment=image), machine)
        if explanation.starts:
            return json.loads(json.dumps(explanation.plan.spec).replace(machine.root, "")), ""
        return None, str(explanation.plan.refusals[0])

    return ask


def make_machine(made, amd_ctk):
    """Make a host what the box of an engine is: its nodes are those of GPUs, and Docker has two runtimes."""
    os.unlink(made.path("/dev/dri/card0"))
    amd_ctk("cdi", "generate")
    Path(made.path("/etc/docker")).mkdir(parents=True)
    runtimes = {"amd": {"path": AMD_RUNTIME}, "recorder": {"path": "/box/recorder"}}
    settings = {"runtimes": runtimes, "default-runtime": "recorder", "features": {"cdi": True}}
    Path(made.path("/etc/docker/daemon.json")).write_text(json.dumps(settings), encoding="utf-8")
    return made


def read(engine, question, caller, directory, machine):
    if engine.startswith("compose"):
        (directory / "compose.yaml").write_text(question[0], encoding="utf-8")
        return read_service(str(directory / "compose.yaml"), "main", caller, machine)
    before, words, _ = question
    program = engine.partition("-")[0]
    runtime = ["--runtime=amd"] if program == "docker" else []
    first = [f"--runtime={AMD_RUNTIME}"] if program == "podman" else []
    here = [word.replace(ENV_DIRECTORY, str(directory / "odd")) for word in words]
    version = VERSIONS[engine] if program == "podman" else ()
    return parse_run(
        [program, *first, *before, "run", "--rm", "--network=none", *runtime, *here], caller, version=version
    )


def find_differences(engine, ask):
    for answer in read_answers(engine):
        spec, refusal = ask(engine, answer.asked)
        if found := differences(answer.spec, spec, kfd=KFD):
            yield answer, found, refusal


def noted(engine, ask):
    """Return the differences of an engine by the number of their note, 0 for those without one."""
    numbered = {}
    for answer, found, refusal in find_differences(engine, ask):
        text = answer.reason if answer.spec is None else " ".join(map(str, words_of(answer.asked)))
        notes = (number for number, note in enumerate(NOTES, 1) if applies(note, engine, text))
        numbered.setdefault(next(notes, 0), []).append((answer, found, refusal))
    return numbered


def applies(note, engine, text):
    return engine.startswith(note.get("of", "")) and re.search(note["pattern"], text)


def words_of(asked):
    return [*asked[0], *asked[1]] if len(asked) == 3 else asked[:1]


def row_of(engine, numbered):
    asked, different = len(read_answers(engine)), sum(map(len, numbered.values()))
    return [TITLES[engine], f"{asked}", f"{asked - different}", f"{different}", ", ".join(map(str, sorted(numbered)))]


@pytest.mark.parametrize("engine", VERSIONS)
@pytest.mark.needs("root")
def test_explain_answers_as_the_engine_does(ask, engine):
    numbered = noted(engine, ask)

    assert numbered.get(0, []) == []
    expect_on_page(f"| {TITLES[engine]} |", f"| {' | '.join(row_of(engine, numbered))} |")


def test_notes_have_the_words_of_an_engine():
    answers = [(engine, answer.reason) for engine in VERSIONS for answer in read_answers(engine)]
    for number, note in enumerate(NOTES, 1):
        said = [text for engine, text in answers if text and applies(note, engine, text)]
        # Some patterns find words, too, that explain refuses as the engine does.
        example = note.get("example", said[0])
        assert example in said
        expect_on_page(f"{number}. ", f"{number}. {note['about']} `{example}`")


def expect_on_page(beginning, line):
    """Look for a line of the page that begins like that; or write it there. Podman would pass a name with AMD_ on."""
    text = PAGE.read_text(encoding="utf-8")
    if "WRITE_WORDS_PAGE" in os.environ:
        # Before it the page has numbered lines of its own.
        before, mark, tables = text.partition("<!-- begin words -->\n")
        lines = [line if old.startswith(beginning) else old for old in tables.splitlines()]
        PAGE.write_text(before + mark + "\n".join(lines) + "\n", encoding="utf-8")
    else:
        assert line in text.splitlines()
