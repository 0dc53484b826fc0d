"""What `amd-ctk explain` says of a service is what Docker Compose and the runtime make of it.

The answers are kept in packages/amd-ctk/tests/explain/compose, which AMD_EXPLAINED_DATA=1 writes again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.about_gpus import about_gpus, differences
from support.cdi_engines import DockerInBox
from support.compose_services import DEFAULTS, ENV_FILE, make_doubly_asking, make_services
from support.debian_root import tools_root
from support.recorder import AMD_RUNTIME, KFD, RECORDER
from support.run_lines import CALLER, ENV_FILE_TEXT, IMAGE, IMAGE_VARIABLES

# A busy machine takes its time for a hundred containers.
pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.timeout(3600)]

CASES = int(os.environ.get("AMD_EXPLAINED_CASES", "120"))
DATA = Path(__file__).parents[2] / "packages/amd-ctk/tests/explain/compose"
FILE = "/box/project/compose.yaml"


@pytest.fixture(scope="module")
def box(make_machine):
    """Return a machine on which the containers of Compose end in a file."""
    box = make_machine(tools_root())
    box.write("/box/recorder", RECORDER.encode())
    box("chmod", "755", "/box/recorder")
    box.write(f"/box/project/{ENV_FILE}", ENV_FILE_TEXT.encode())
    box.write("/box/project/.env", DEFAULTS.encode())
    box("amd-ctk", "config", "set", "low-level-runtime", "/box/recorder")
    runtimes = {"amd": {"path": AMD_RUNTIME}, "recorder": {"path": "/box/recorder"}}
    DockerInBox(box, **{"runtimes": runtimes, "default-runtime": "recorder"})
    changes = [f"--change=ENV {variable}" for variable in IMAGE_VARIABLES]
    box("docker", "import", *changes, '--change=CMD ["sh"]', "/box/image.tar", IMAGE)
    return box


def ask(box, service):
    """Return the spec that the service comes to, None where there is none, what explain says, and what Compose said."""
    environment = [f"{name}={value}" for name, value in CALLER.items()] if service.with_caller else []
    box.write(FILE, service.text.encode())
    box("rm", "-f", "/box/recorded.json")
    ended = box("env", *environment, "docker", "compose", f"--file={FILE}", "up", "--force-recreate", check=False)
    spec = box("cat", "/box/recorded.json", check=False).stdout
    explained = box("env", *environment, "amd-ctk", "explain", "--json", FILE, "main", check=False)
    answer = json.loads(explained.stdout) if explained.stdout else {"starts": False}
    return (json.loads(spec) if spec else None), answer, ended.stderr


def test_explain_says_what_compose_does(box):
    kept, wrong = [], []

    for service in (*make_services(29, CASES), *make_doubly_asking()):
        spec, explained, said = ask(box, service)
        made = None if spec is None else about_gpus(spec, kfd=KFD)
        kept.append({"service": service, "spec": made})
        if difference := differences(made, explained["spec"] if explained["starts"] else None, kfd=KFD):
            wrong.append((service.text, service.with_caller, difference, said[-300:] if spec is None else ""))

    if os.environ.get("AMD_EXPLAINED_DATA"):
        DATA.mkdir(exist_ok=True)
        (DATA / "compose-2.40.json").write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n", encoding="utf-8")
    assert not wrong, f"{len(wrong)} of {len(kept)}:\n" + "\n".join(map(str, wrong))
