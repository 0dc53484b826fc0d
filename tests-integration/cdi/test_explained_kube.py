"""What `amd-ctk explain` says of a pod's container is what `podman kube play` and the runtime make of it.

The answers are kept in packages/amd-ctk/tests/explain/kube, which AMD_EXPLAINED_DATA=1 writes again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.about_gpus import about_gpus, differences
from support.cdi_engines import PodmanInBox
from support.debian_root import debian_root
from support.kube_files import PAUSE, PAUSE_COMMAND, containers_conf, make_pods, make_pods_with_nodes
from support.recorder import KFD, POD_RECORDER
from support.run_lines import IMAGE, IMAGE_VARIABLES, NAME_OF_TWO_FILES

# A busy machine takes its time for a hundred containers.
pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.timeout(3600)]

CASES = int(os.environ.get("AMD_EXPLAINED_CASES", "120"))
DATA = Path(__file__).parents[2] / "packages/amd-ctk/tests/explain/kube"
SUITES = {"podman-4.3": "bookworm", "podman-5.4": "trixie", "podman-5.8": "forky"}
FILE = "/box/pod.yaml"


class Recorded:
    """A machine on which the containers of pods end in a file."""

    def __init__(self, box):
        self.box = box
        box.write("/box/recorder", POD_RECORDER.encode())
        box("chmod", "755", "/box/recorder")
        for name in ("one", "two"):
            box.write(f"/etc/cdi/{name}.json", NAME_OF_TWO_FILES.encode())
        box("amd-ctk", "config", "set", "low-level-runtime", "/box/recorder")
        self.words = PodmanInBox(box).words[:-1]
        changes = [f"--change=ENV {variable}" for variable in IMAGE_VARIABLES]
        box(*self.words, "import", *changes, '--change=CMD ["sh"]', "/box/image.tar", IMAGE)
        box(*self.words, "import", PAUSE_COMMAND, "/box/image.tar", PAUSE)

    def ask(self, pod):
        """Return the spec that the container comes to, None where there is none, what explain says, and Podman."""
        self.box.write("/etc/containers/containers.conf", containers_conf(with_runtime=pod.with_runtime).encode())
        self.box.write(FILE, pod.text.encode())
        self.box("rm", "-f", "/box/recorded.json")
        ended = self.box(*self.words, "kube", "play", "--network=none", "--replace", FILE, check=False)
        spec = self.box("cat", "/box/recorded.json", check=False).stdout
        explained = self.box("amd-ctk", "explain", "--json", FILE, "main", check=False)
        answer = json.loads(explained.stdout) if explained.stdout else {"starts": False}
        return (json.loads(spec) if spec else None), answer, ended.stderr


@pytest.mark.parametrize("name", SUITES)
def test_explain_says_what_kube_play_does(make_machine, name):
    here = Recorded(make_machine(debian_root(SUITES[name])))
    kept, wrong = [], []

    for pod in (*make_pods(29, CASES), *make_pods_with_nodes()):
        spec, explained, said = here.ask(pod)
        made = None if spec is None else about_gpus(spec, kfd=KFD)
        kept.append({"pod": pod, "spec": made})
        if difference := differences(made, explained["spec"] if explained["starts"] else None, kfd=KFD):
            wrong.append((pod.text, pod.with_runtime, difference, said[-300:] if spec is None else ""))

    if os.environ.get("AMD_EXPLAINED_DATA"):
        DATA.mkdir(exist_ok=True)
        (DATA / f"{name}.json").write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n", encoding="utf-8")
    assert not wrong, f"{len(wrong)} of {len(kept)}:\n" + "\n".join(map(str, wrong))
