"""The page of `amd-ctk gpu page` as a browser shows it: on a phone and on a screen, light and dark."""

from __future__ import annotations

import subprocess

import pytest

from amd_gpu_tracker import Tracker
from amdgpu_simulator import build_host
from browser.look import PAPER, look
from browser.test_site import PHONE, SCREEN
from support.installed import our_program

pytestmark = [pytest.mark.e2e, pytest.mark.site]

HOSTILE = "<img src=x onerror=document.body.remove()>"


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """Return the page of a host whose GPUs are drained and have a job with a hostile name."""
    directory = tmp_path_factory.mktemp("status")
    host = build_host(directory / "host", "mi300x-8", bare=True)
    tracker = Tracker(host)
    tracker.enable()
    tracker.drain("6-7", reason=f"{HOSTILE} {'fan ' * 20}")
    tracker.reserve("0-3", name=HOSTILE)
    words = [our_program("amd-ctk"), "status", "--html", f"--output={directory}/gpus.html"]
    subprocess.run(words, env={"AMD_CTK_HOST_ROOT": host.root, "PATH": "/usr/bin:/bin"}, check=True)
    return directory / "gpus.html"


@pytest.mark.parametrize("size", [PHONE, SCREEN], ids=["phone", "screen"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_runs_nothing(page_file, size, scheme, tmp_path):
    def read(page):
        states = page.eval_on_selector_all("td[class]", "cells => cells.map(cell => cell.innerText)")
        named = page.eval_on_selector_all("td", "cells => cells.map(cell => cell.innerText)").count(HOSTILE)
        page.screenshot(path=tmp_path / "page.png")
        return states, named

    width, paper, asked, (states, named) = look(page_file, size, scheme, read)

    assert (width <= size["width"], paper) == (True, PAPER[scheme])
    assert states == ["reserved"] * 4 + ["free"] * 2 + ["drained"] * 2
    # Of each GPU, and of the job.
    assert named == 5
    assert asked == [page_file.as_uri()]
