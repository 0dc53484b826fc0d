"""The page of `amd-ctk report --html` as a browser shows it: on a phone and on a screen, light and dark."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from browser.look import PAPER, look
from browser.test_site import PHONE, SCREEN
from support.installed import our_program

pytestmark = [pytest.mark.e2e, pytest.mark.site]

GPUS = ("0000:03:00.0/0", "0000:26:00.0/0", "0000:43:00.0/0", "0000:c3:00.0/0")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """Return the page of a host on which five people had GPUs for a week."""
    directory = tmp_path_factory.mktemp("report")
    host = build_host(directory / "host", "mi210-4", bare=True)
    history = Path(host.path("/var/lib/amd-container-toolkit/history"))
    history.mkdir(parents=True)
    (history / "2026-01.jsonl").write_text("".join(lines()))
    words = [our_program("amd-ctk"), "report", f"--html={directory}/week.html"]
    subprocess.run(words, env={"AMD_CTK_HOST_ROOT": host.root, "PATH": "/usr/bin:/bin"}, check=True)
    return directory / "week.html"


def lines():
    for number in range(60):
        since = time.time() - number * 9000
        fields = {
            "version": 1,
            "boot_id": "b",
            "start": 1000.0 + number,
            "id": f"c{number}",
            "root": "",
            "since": since,
        }
        fields |= {"ways": ["env"], "person": 60000 + number % 5, "vram_mb": 0, "part_of": ""}
        fields |= {"gpus": list(GPUS[: 1 + number % 4]), "end": 9000.0 + number, "how": "hook"}
        yield f"\n{json.dumps(fields)}\n"


@pytest.mark.parametrize("size", [PHONE, SCREEN], ids=["phone", "screen"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_has_the_colours_that_the_reader_chose(page_file, size, scheme):
    def count_bars(page):
        return page.eval_on_selector_all("svg rect", "bars => bars.filter(bar => bar.getBBox().width > 0).length")

    width, paper, asked, bars = look(page_file, size, scheme, count_bars)

    assert (width <= size["width"], paper, bars) == (True, PAPER[scheme], 150)
    assert asked == [page_file.as_uri()]
