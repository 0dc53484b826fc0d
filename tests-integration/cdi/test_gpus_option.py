"""Podman of Debian experimental still answers to `--gpus` as what is kept of it says.

packages/amd-ctk/tests/explain/test_gpus_of_podman.py compares explain with the kept answers, which
AMD_EXPLAINED_DATA=1 writes again.
"""

from __future__ import annotations

import pytest

from cdi.test_image_lines import compare
from support.debian_root import EXPERIMENTAL, debian_root
from support.gpus_option import AMD, DIRECTORY, LINES, SPECS
from support.kept_answers import answer_of
from support.recorded import Recorded

pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.experimental, pytest.mark.timeout(3600)]


def test_podman_gives_the_devices_that_it_gave_for_the_option(make_machine):
    here = Recorded(make_machine(debian_root(EXPERIMENTAL)), "podman")
    here.box("mv", AMD, "/box/amd.json")
    answers = []

    for line in LINES:
        has_amd, others = SPECS[line.specs]
        here.box("sh", "-c", f"rm -rf {DIRECTORY}/*")
        if has_amd:
            here.box("cp", "/box/amd.json", AMD)
        for name, text in others.items():
            here.box.write(f"{DIRECTORY}/{name}", text.encode())
        command = here.command((*line.words, line.image, "true"), with_runtime=line.with_runtime)
        spec, printed = here.ask_engine(command, with_caller=False)
        answers.append(answer_of(line, spec, printed))

    compare("gpus-podman-6", answers, here)
