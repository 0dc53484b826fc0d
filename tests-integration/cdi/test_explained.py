"""What `amd-ctk explain` says of a command line is what the engine and the runtime make of it.

The runtime behind the engine, or behind amd-container-runtime, keeps config.json and makes no container. The answers of
engines are kept in packages/amd-ctk/tests/explain/engines, which AMD_EXPLAINED_DATA=1 writes again.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from support.about_gpus import about_gpus, differences
from support.cdi_engines import DockerInBox, PodmanInBox
from support.debian_root import debian_root
from support.recorder import AMD_RUNTIME, KFD, RECORDER
from support.run_lines import CALLER, ENV_FILE_TEXT, IMAGE, IMAGE_VARIABLES, NAME_OF_TWO_FILES, make_lines

# A busy machine takes its time for a hundred containers.
pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.timeout(3600)]

CASES = int(os.environ.get("AMD_EXPLAINED_CASES", "120"))
DATA = Path(__file__).parents[2] / "packages/amd-ctk/tests/explain/engines"
ENGINES = {
    "docker-20": ("bookworm", "docker"),
    "docker-26": ("trixie", "docker"),
    "docker-28": ("forky", "docker"),
    "podman-4.3": ("bookworm", "podman"),
    "podman-5.4": ("trixie", "podman"),
    "podman-5.8": ("forky", "podman"),
}


class Recorded:
    """A machine on which the engine's containers end in a file."""

    def __init__(self, box, engine):
        self.box = box
        self.engine = engine
        box.write("/box/recorder", RECORDER.encode())
        box("chmod", "755", "/box/recorder")
        box.write("/box/variables", ENV_FILE_TEXT.encode())
        for name in ("one", "two"):
            box.write(f"/etc/cdi/{name}.json", NAME_OF_TWO_FILES.encode())
        box("amd-ctk", "config", "set", "low-level-runtime", "/box/recorder")
        runtimes = {"amd": {"path": AMD_RUNTIME}, "recorder": {"path": "/box/recorder"}}
        settings = {"runtimes": runtimes, "default-runtime": "recorder"}
        made = DockerInBox(box, **settings) if engine == "docker" else PodmanInBox(box)
        changes = [f"--change=ENV {variable}" for variable in IMAGE_VARIABLES]
        self.words = ["docker"] if engine == "docker" else made._words[:-1]
        box(*self.words, "import", *changes, '--change=CMD ["sh"]', "/box/image.tar", IMAGE)

    def command(self, line):
        if self.engine == "docker":
            return [
                *self.words,
                "run",
                "--rm",
                "--network=none",
                *(["--runtime=amd"] if line.with_runtime else []),
                *line.words,
            ]
        runtime = AMD_RUNTIME if line.with_runtime else "/box/recorder"
        return [*self.words, f"--runtime={runtime}", "run", "--rm", "--network=none", *line.words]

    def ask(self, line):
        """Return the engine's spec, None where there is none, and what explain says."""
        environment = [f"{name}={value}" for name, value in CALLER.items()] if line.with_caller else []
        command = self.command(line)
        self.box("rm", "-f", "/box/recorded.json")
        ended = self.box("env", *environment, *command, check=False)
        spec = self.box("cat", "/box/recorded.json", check=False).stdout
        explained = self.box("env", *environment, "amd-ctk", "explain", "--json", "--", *command, check=False)
        assert explained.stdout, explained.stderr
        return (json.loads(spec) if spec else None), json.loads(explained.stdout), ended.stderr


@pytest.fixture(scope="module")
def machine(make_machine):
    """Return a function that gives the machine of an engine."""
    boxes, machines = {}, {}

    def find(name):
        suite, engine = ENGINES[name]
        if suite not in boxes:
            boxes[suite] = make_machine(debian_root(suite))
        if name not in machines:
            machines[name] = Recorded(boxes[suite], engine)
        return machines[name]

    return find


@pytest.mark.parametrize("name", ENGINES)
def test_explain_says_what_the_engine_does(machine, name):
    here = machine(name)
    lines = make_lines(29, CASES, is_podman=here.engine == "podman")
    kept, wrong = [], []

    for line in lines:
        spec, explained, said = here.ask(line)
        made = None if spec is None else about_gpus(spec, kfd=KFD)
        kept.append({"line": line, "spec": made})
        if difference := differences(made, explained["spec"] if explained["starts"] else None, kfd=KFD):
            wrong.append(
                (shlex.join(here.command(line)), line.with_caller, difference, said[-300:] if spec is None else "")
            )

    if os.environ.get("AMD_EXPLAINED_DATA"):
        DATA.mkdir(exist_ok=True)
        (DATA / f"{name}.json").write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n", encoding="utf-8")
    assert not wrong, f"{len(wrong)} of {len(lines)}:\n" + "\n".join(map(str, wrong))
