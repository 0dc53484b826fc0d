"""What explain says of commands with images, groups, drivers, CDI directories and volumes, beside the engines' answers.

tests-integration/cdi/test_image_lines.py asked the engines, and writes words/images-*.json again. WRITE_WORDS_PAGE=1
writes the table of the page.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from pathlib import Path

import pytest

from amd_ctk.engines.engine_answers import ImageSettings
from amd_ctk.engines.engine_words import environment_of, without_prefixes
from amd_ctk.engines.image_names import read_names
from amd_ctk.explain import engine_spec, engine_view, running
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run
from amdgpu_discovery.command_line.programs import parse_version
from amdgpu_discovery.errors import ToolkitError
from support.about_gpus import differences
from support.image_lines import DIRECTORIES, GROUP, PASSWD, ImageLine, image_name, other_specs
from support.kept_answers import DIRECTORY as ANSWERS
from support.kept_answers import KEPT, read_answers, read_versions
from support.recorder import AMD_RUNTIME, KFD
from support.run_lines import CALLER, ENV_FILE_TEXT

PAGE = Path(__file__).parents[4] / "docs/maintain/engine-words.md"
# The engine started the container: with another runtime than the recorder, its program cannot run. The last line of
# what crun 1.28 prints then is "}".
STARTED = re.compile("exec /bin/true|OCI runtime create failed|[Ee]xecutable file|Exec format error|}$")
# What a box lacks: a terminal, a /dev whose mounts are shared, and a network.
OF_THE_BOX = re.compile("not a TTY|not a shared or slave mount|setting rlimits|catatonit")
ENGINES = ("docker-20", "docker-26", "docker-28", "podman-4.3", "podman-5.4", "podman-5.8")
# They pass over the third part of such a USER, which later versions refuse, as explain does.
PASSED_OVER = "1000:44:1"
PASS_OVER = ("docker-20", "docker-26", "podman-4.3", "podman-5.4")


@pytest.fixture
def machine(sleeping_host, amd_ctk, tmp_path, monkeypatch):
    """Return a host as the box of an engine is, whose images have the names of PASSWD and GROUP."""
    os.unlink(sleeping_host.path("/dev/dri/card0"))
    amd_ctk("cdi", "generate")
    for path, text in {**other_specs(), "/layer/etc/passwd": PASSWD, "/layer/etc/group": GROUP}.items():
        write(sleeping_host, path, text)
    write(sleeping_host, "/box/recorder", "")
    (tmp_path / "box").mkdir()
    (tmp_path / "box/variables").write_text(ENV_FILE_TEXT, encoding="utf-8")
    names = read_names({"Data": {"UpperDir": sleeping_host.path("/layer")}})
    monkeypatch.setattr(running, "ask_names", lambda *_: names)
    monkeypatch.setattr(running, "is_set_up", lambda _: True)
    for name in {*CALLER, *(name for name in os.environ if name.startswith("AMD_"))} - {"AMD_CTK_HOST_ROOT"}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir("/")
    return sleeping_host


def write(host, path, text):
    file = Path(host.path(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def set_directories(host, directories):
    """Write the engines' files as the box of an engine has them."""
    runtimes = {"amd": {"path": AMD_RUNTIME}, "recorder": {"path": "/box/recorder"}}
    named = {"cdi-spec-dirs": directories} if directories else {}
    settings = {"runtimes": runtimes, "default-runtime": "recorder", "features": {"cdi": True}, **named}
    write(host, "/etc/docker/daemon.json", json.dumps(settings))
    text = f"[engine]\ncdi_spec_dirs = {json.dumps(directories)}\n" if directories else ""
    write(host, "/etc/containers/containers.conf.d/90-box.conf", text)


def read(engine, line, version, box):
    """Return the container of a line, as `amd-ctk explain` reads it."""
    program = engine.partition("-")[0]
    runtime = AMD_RUNTIME if line.with_runtime else "/box/recorder"
    first = [f"--runtime={runtime}"] if program == "podman" else []
    own = ["--runtime=amd"] if line.with_runtime and program == "docker" else []
    here = [word.replace("=/box", f"={box}") if "env-file" in word else word for word in line.words]
    here = [
        word.replace("/box", str(box)) if before == "--env-file" else word
        for before, word in zip(("", *here), here, strict=False)
    ]
    words = [*line.launcher, program, *first, *line.before, "run", "--rm", "--network=none", *own, *here]
    command = without_prefixes(words)
    return parse_run(command.argv, environment_of(command, os.environ), version=version if program == "podman" else ())


def explain(engine, line, version, machine, box, monkeypatch):
    """Return the spec that explain expects, the targets of volumes with nodes, and the first refusal."""
    settings = ImageSettings(is_known=True, environment=tuple(line.environment), user=line.user)
    with monkeypatch.context() as calling:
        for name, value in CALLER.items() if line.with_caller else ():
            calling.setenv(name, value)
        for module in (engine_view, engine_spec):
            calling.setattr(module, "find_version", lambda *_: version)
        calling.setattr(running, "ask_image", lambda _, name: settings if name == image_of(line) else ImageSettings())
        try:
            container = running.add_image(read(engine, line, version, box))
            explanation = explain_container(container, machine)
        except ToolkitError as error:
            return None, [], str(error)
    if not explanation.starts:
        return None, [], str(explanation.plan.refusals[0])
    spec = json.loads(json.dumps(explanation.plan.spec).replace(machine.root, ""))
    return spec, sorted({posixpath.normpath(target) for _, target in container.mounts}), ""


def image_of(line):
    return image_name(line.user, tuple(line.environment))


def compare(answer, found):
    """Return how an engine's answer differs from explain's."""
    spec, targets, _ = found
    if OF_THE_BOX.search(answer.reason) or (STARTED.search(answer.reason) and spec):
        return {}
    if answer.spec is None or spec is None:
        return differences(answer.spec, spec, kfd=KFD)
    mounted = sorted(posixpath.normpath(mount.partition(" ")[0]) for mount in answer.spec["mounts"])
    nodes = [target for target in targets if target.startswith(("/dev/dri", "/dev/kfd", "/dev/gpu"))]
    rest = differences({**answer.spec, "mounts": []}, spec, kfd=KFD)
    if answer.spec["user"][0] == 0:
        # Explain does not ask for the groups of root, who may open every node.
        rest.pop("groups", None)
    return {**rest, "mounts": (mounted, nodes)} if mounted != nodes else rest


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.needs("root")
def test_explain_answers_commands_with_images_as_the_engine_does(machine, tmp_path, monkeypatch, engine):
    version, wrong = parse_version(read_versions()[f"images-{engine}"]), []
    answers, directories = read_answers(f"images-{engine}"), ""

    for answer in answers:
        line = ImageLine(*answer.asked)
        if line.directories != directories:
            directories = line.directories
            set_directories(machine, DIRECTORIES[directories])
        found = explain(engine, line, version, machine, tmp_path / "box", monkeypatch)
        if different := compare(answer, found):
            wrong.append((line, answer.reason, different, found[2]))

    other = [found for found in wrong if not (engine in PASS_OVER and found[0].user == PASSED_OVER)]
    assert other == []
    if ANSWERS == KEPT:
        expect_row(engine, answers, len(wrong))


def expect_row(engine, answers, different):
    """Look for an engine's row on the page, or write it there."""
    name = f"{engine.partition('-')[0].capitalize()} {read_versions()[f'images-{engine}']}"
    started = sum(answer.spec is not None or bool(STARTED.search(answer.reason)) for answer in answers)
    row = f"| {name} | {len(answers)} | {started} | {len(answers) - started} | {different} |"
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    if "WRITE_WORDS_PAGE" in os.environ:
        place = next(place for place, line in enumerate(lines) if line.startswith((f"| {name} |", f"| {engine} |")))
        lines[place] = row
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        assert row in lines
