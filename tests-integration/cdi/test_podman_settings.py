"""Podman still adds the devices and variables of its configuration files as what is kept of it says.

packages/amd-ctk/tests/explain/test_podman_settings.py compares explain with the kept answers, which
AMD_EXPLAINED_DATA=1 writes again.
"""

from __future__ import annotations

import pytest

from cdi.test_image_lines import compare
from support.kept_answers import answer_of
from support.kube_files import PAUSE, PAUSE_COMMAND, containers_conf
from support.podman_settings import FILES, LINES, OTHER_LINES, ask_podman, file_text
from support.recorded import ENGINES
from support.recorder import POD_RECORDER

pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.timeout(3600)]


PODMANS = [name for name, (_, engine) in ENGINES.items() if engine == "podman"]


@pytest.mark.parametrize("name", PODMANS)
def test_podman_adds_what_its_files_say_as_it_did(recorded, name):
    here = recorded(name)
    answers = []

    for line in LINES:
        for path, text in zip(FILES, line.texts, strict=True):
            here.box.write(path, file_text(text).encode())
        command = here.command((*line.words, line.image, "true"), with_runtime=line.with_runtime)
        spec, printed = here.ask_engine(command, with_caller=False)
        answers.append(answer_of(line, spec, printed))
    here.box("rm", "-f", *FILES)

    compare(f"settings-{name}", answers, here)


@pytest.mark.parametrize("name", PODMANS)
def test_podman_adds_it_for_dockers_client_and_for_pods(recorded, name):
    here = recorded(name)
    here.box(*here.words, "import", PAUSE_COMMAND, "/box/image.tar", PAUSE)
    here.box.write("/box/pod-recorder", POD_RECORDER.encode())
    here.box("chmod", "755", "/box/pod-recorder")
    here.box.write("/etc/containers/containers.conf", containers_conf(with_runtime=False).encode())
    words = [*here.words, "--runtime=/box/pod-recorder"]

    answers = [answer_of(line, *ask_podman(here.box, words, line)) for line in OTHER_LINES]
    here.box("rm", "-f", *FILES)

    compare(f"made-{name}", answers, here)
