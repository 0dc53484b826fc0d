"""Podman still adds the devices and variables of its configuration files as what is kept of it says.

packages/amd-ctk/tests/explain/test_podman_settings.py compares explain with the kept answers, which
AMD_EXPLAINED_DATA=1 writes again.
"""

from __future__ import annotations

import pytest

from cdi.test_image_lines import compare
from support.kept_answers import answer_of
from support.podman_settings import FILES, LINES, file_text
from support.recorded import ENGINES

pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("name", [name for name, (_, engine) in ENGINES.items() if engine == "podman"])
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
