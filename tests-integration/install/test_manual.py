"""The manual pages that packages carry, as the two programs judge them that format manual pages."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess

import pytest

from amd_device_spec.settings import Settings

pytestmark = [pytest.mark.e2e, pytest.mark.install]

JUDGES = {"mandoc": ["-T", "lint", "-W", "warning"], "groff": ["-ww", "-mandoc", "-Tutf8", "-z"]}
# A command is typed as it stands; the last line is of the guide of AMD's toolkit.
IS_COMMAND = re.compile(r" +(sudo )?amd-| +gpu-ids ")
PAGES = [
    *("amd-ctk.1", "amd-gpu-images.1", "amd-gpu-sharing.1", "amd-gpu-tracker.1", "amdgpu-simulator.1"),
    *("amd-container-toolkit-config.toml.5", "amd-container-runtime.8"),
]


@pytest.fixture(scope="module")
def pages(debs, tmp_path_factory):
    """Return the manual pages of all packages, unpacked."""
    directory = tmp_path_factory.mktemp("pages")
    for deb in debs:
        subprocess.run(["dpkg-deb", "--extract", deb, directory], check=True)
    packed = sorted(directory.rglob("usr/share/man/man*/*.gz"))
    for page in packed:
        page.with_suffix("").write_bytes(gzip.decompress(page.read_bytes()))
    return [page.with_suffix("") for page in packed]


def test_every_program_has_a_page_and_the_settings_have_one(pages):
    assert [page.name for page in pages] == PAGES


def test_every_setting_stands_in_the_page_of_the_settings(pages):
    (page,) = (page for page in pages if page.suffix == ".5")
    names = [name.replace("_", "-") for name in Settings().as_dict()]
    said = page.read_text().replace("\\-", "-")

    assert [name for name in names if f".SS {name}\n" not in said] == []


@pytest.mark.parametrize("judge", JUDGES)
def test_nothing_is_wrong_with_a_page(judge, pages):
    if shutil.which(judge) is None:
        pytest.skip(f"{judge} is not installed")

    for page in pages:
        words = [judge, *JUDGES[judge], page]
        judged = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert (judged.returncode, judged.stdout) == (0, "")


def test_every_command_stands_in_the_page_of_its_program(pages):
    said = {page.stem: page.read_text().replace("\\-", "-") for page in pages}

    for command in ("gpu list", "cdi generate", "cdi refresh", "runtime configure", "swarm setup", "config set"):
        assert f'.SS "amd-ctk {command}' in said["amd-ctk"]
    for command in ("enable", "status", "reset"):
        assert f'.SS "amd-gpu-tracker {command}' in said["amd-gpu-tracker"]


def test_everything_but_commands_fits_80_columns(pages):
    for page in pages:
        words = ["man", "--local-file", page]
        shown = subprocess.run(words, env={**os.environ, "MANWIDTH": "80"}, capture_output=True, text=True, check=True)

        assert [line for line in shown.stdout.splitlines() if len(line) > 80 and not IS_COMMAND.match(line)] == []
