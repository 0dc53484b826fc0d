"""Lines of gres.conf as people and programs write them, and what slurmd made of each.

forms.json has the answers of `slurmd -G`: forms that were thought of, and 250 that a program put together.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amd_device_spec.slurm.conf import find_device_files
from amd_device_spec.slurm.grammar import parse_lines
from amd_device_spec.slurm_job import SlurmError

FORMS = json.loads(Path(__file__).with_name("forms.json").read_text(encoding="utf-8"))["forms"]
RENDER = "/dev/dri/renderD"

# slurmd reads these files; the order of the GPUs does not follow from their lines alone.
NOT_READ = {"autodetect blank", "autodetect nvml", "autodetect amdgpu", "multiplefiles", "no file", "include"}
# slurmd refuses a file for what it says, not for its form. A start is refused later if no GPU has this file.
SAID_OTHERWISE = {
    "unknown key": ["128"],
    "count less": ["128", "129", "130", "131"],
    "count more": ["128", "129"],
    "open quote": [f'"{RENDER}128'],
    "open quote blank": [f'"{RENDER}128'],
    "quote inside": ['1"2"8'],
    "quoted glued": [f'"{RENDER}128"Type=a'],
    "quoted comma": [f'"{RENDER}128"', "129"],
    "single quotes": [f"'{RENDER}128'"],
    "two ==": [f"={RENDER}128"],
}
# slurm.conf of the trial had no types, so slurmd left this device out.
NO_FILE = {"empty value"}


def read(text: str) -> list[str] | str:
    try:
        files = find_device_files(parse_lines(text), "vm", ["a", '"a', ""])
    except SlurmError:
        return "refused"
    return [file.removeprefix(RENDER) for file in files]


@pytest.mark.parametrize("form", FORMS, ids=[f"{number}-{form['form']}" for number, form in enumerate(FORMS)])
def test_a_line_means_what_slurmd_makes_of_it(form):
    expected = "refused" if form["form"] in NOT_READ | NO_FILE else SAID_OTHERWISE.get(form["form"], form["slurmd"])

    assert read(form["text"]) == expected


def test_the_place_that_slurmd_refuses_is_named():
    with pytest.raises(SlurmError) as refusal:
        parse_lines("Name=gpu File=/dev/dri/renderD128, /dev/dri/renderD129\n")

    assert str(refusal.value) == (
        "slurmd refuses gres.conf at '/dev/dri/renderD129'"
        " (write NodeName= first, each setting as Key=value, and a value with blanks in quotes)"
    )


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "text", ['a="b ' * 200_000, "a= " * 300_000, "a=b " * 250_000, "\\\n" * 500_000, "\\#" * 500_000]
)
def test_a_line_of_any_length_costs_little(text):
    try:
        parse_lines(text)
    except SlurmError:
        return
