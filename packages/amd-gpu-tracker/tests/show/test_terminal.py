"""Status on a real terminal, as people see it; `test_cli.py` has what files and programs get."""

from __future__ import annotations

import json
import os
import re
import signal
import sys

import pytest

from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.lease import Lease
from amd_gpu_tracker.tracker import Tracker
from amdgpu_discovery.numbering import locate_gpus
from support.terminal import STYLE, on_terminal, shown_on_terminal, without_styles

FIRST = "36b012bb34c96149a6ef5b28623e6e75cf9f71eb2b824b2c8f44e0449c7a1aa8"
SECOND = "90cb29e11e83aa3ae497c68c90e1f0894b85262188c1ef9c7284457a9bc35ffd"
TASK = "training.1.x8f3k2j5l6m7n8o9p0q1r2s3t"
STATUS = [sys.executable, "-c", "from amd_gpu_tracker.cli import main; main()", "status"]
IN_80_COLUMNS = f"""\
{"-" * 80}
GPU Id  UUID                Accessibility  Container Ids  Name
{"-" * 80}
0       0xEA35F57CC80DEB35  Shared         36b012bb34c9   web
1       0x89CAA15875FF5A43  Shared         36b012bb34c9   web
                                           90cb29e11e83   training.1.…9p0q1r2s3t
2       0x6E32F10EFC982B4C  Shared         -
3       0x12FE4F7FDAF06B9   Exclusive      -
"""
WIDE_IN_96_COLUMNS = f"""\
{"-" * 96}
GPU Id  UUID                Accessibility  Container Ids  Name               Since
{"-" * 96}
0       0xEA35F57CC80DEB35  Shared         36b012bb34c9   web                2026-11-22 10:00:00
1       0x89CAA15875FF5A43  Shared         36b012bb34c9   web                2026-11-22 10:00:00
                                           90cb29e11e83   training…0q1r2s3t  2026-11-22 11:00:00
2       0x6E32F10EFC982B4C  Shared         -
3       0x12FE4F7FDAF06B9   Exclusive      -
"""
IN_160_COLUMNS = f"""\
{"-" * 133}
GPU Id  UUID                Accessibility  Container Ids  Name                                  Since                By
{"-" * 133}
0       0xEA35F57CC80DEB35  Shared         36b012bb34c9   web                                   2026-11-22 10:00:00  env
1       0x89CAA15875FF5A43  Shared         36b012bb34c9   web                                   2026-11-22 10:00:00  env
                                           90cb29e11e83   training.1.x8f3k2j5l6m7n8o9p0q1r2s3t  2026-11-22 11:00:00  swarm, 16000 MiB
2       0x6E32F10EFC982B4C  Shared         -
3       0x12FE4F7FDAF06B9   Exclusive      -
"""  # noqa: E501
IN_200_COLUMNS = f"""\
{"-" * 184}
GPU Id  UUID                Accessibility  Container Ids                                                     Name                                  Since                By
{"-" * 184}
0       0xEA35F57CC80DEB35  Shared         {FIRST}  web                                   2026-11-22 10:00:00  env
1       0x89CAA15875FF5A43  Shared         {FIRST}  web                                   2026-11-22 10:00:00  env
                                           {SECOND}  training.1.x8f3k2j5l6m7n8o9p0q1r2s3t  2026-11-22 11:00:00  swarm, 16000 MiB
2       0x6E32F10EFC982B4C  Shared         -
3       0x12FE4F7FDAF06B9   Exclusive      -
"""  # noqa: E501


@pytest.fixture
def environment(untracked):
    """Return the environment of a user at a terminal."""
    without = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    return {
        **{name: value for name, value in os.environ.items() if name not in without},
        "AMD_CTK_HOST_ROOT": untracked.host.root,
        "TZ": "UTC",
    }


@pytest.fixture
def tracked(untracked, tmp_path):
    """Return the host where a container has GPUs 0 and 1, and a task of Swarm 16000 MiB of GPU 1; 3 is exclusive."""
    tracker = Tracker(untracked.host)
    tracker.enable()
    tracker.set_accessibility("3", exclusive=True)
    # 10:00 and 11:00 of 22 November 2026.
    _lease(untracked, FIRST, (0, 1), name="web", directory=tmp_path / "first", since=1795341600.0, ways=("env",))
    _lease(
        untracked,
        SECOND,
        (1,),
        name=TASK,
        directory=tmp_path / "second",
        since=1795345200.0,
        ways=("swarm",),
        vram_mb=16000,
    )
    return untracked


def _lease(machine, container_id, numbers, *, name, directory, **fields):
    """Write the lease of a container that this process keeps alive; engines have given it a name."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"annotations": {"nerdctl/name": name}}))
    processes = Processes()
    keys = [gpu.key for gpu in locate_gpus(machine.host) if gpu.number in numbers]
    machine.state.write_lease(
        Lease(
            container_id=container_id,
            bundle=str(directory),
            creator=processes.myself(),
            gpus=tuple(keys),
            boot_offset=0.0,
            boot_id=processes.boot_id,
            namespace=processes.namespace,
            **fields,
        )
    )


def test_status_fits_80_columns(tracked, environment):
    assert shown_on_terminal(STATUS, environment, columns=80) == (0, IN_80_COLUMNS)


def test_a_wide_status_leaves_out_how_and_then_since_when(tracked, environment):
    assert shown_on_terminal([*STATUS, "--wide"], environment, columns=80) == (0, IN_80_COLUMNS)
    assert shown_on_terminal([*STATUS, "--wide"], environment, columns=96) == (0, WIDE_IN_96_COLUMNS)


def test_status_uses_160_columns(tracked, environment):
    assert shown_on_terminal(STATUS, environment, columns=160) == (0, IN_160_COLUMNS)


def test_status_uses_200_columns(tracked, environment):
    assert shown_on_terminal(STATUS, environment, columns=200) == (0, IN_200_COLUMNS)
    assert shown_on_terminal([*STATUS, "--no-trunc"], environment, columns=200) == (0, IN_200_COLUMNS)


def test_nothing_is_shortened_for_who_asks_for_all(tracked, environment):
    assert shown_on_terminal([*STATUS, "--no-trunc"], environment, columns=80) == (0, IN_200_COLUMNS)


def test_a_disabled_tracker_says_so(untracked, environment):
    assert shown_on_terminal(STATUS, environment, columns=80) == (0, "GPU Tracker is disabled\n")


def test_colours_say_nothing_that_words_do_not(tracked, environment):
    styled = shown_on_terminal(STATUS, environment, columns=80, styled=True)[1]
    uncoloured = shown_on_terminal(STATUS, {**environment, "NO_COLOR": "1"}, columns=80, styled=True)[1]

    assert "\x1b[33mExclusive " in styled
    assert set(STYLE.findall(uncoloured)) == {"\x1b[0m", "\x1b[1m", "\x1b[2m"}
    assert without_styles(styled) == without_styles(uncoloured) == IN_80_COLUMNS


def test_a_terminal_without_unicode_gets_dots(tracked, environment):
    shown = shown_on_terminal(STATUS, {**environment, "PYTHONIOENCODING": "ascii"}, columns=80)[1]

    assert shown == IN_80_COLUMNS.replace("training.1.…9p0q1r2s3t", "training.1..9p0q1r2s3t")


def test_a_screen_follows_what_changes_and_gives_the_terminal_back(untracked, environment):
    with on_terminal([*STATUS, "--watch"], environment, columns=80) as terminal:
        first = terminal.wait_for("GPU Tracker is disabled")
        Tracker(untracked.host).enable()
        terminal.wait_for("0x12FE4F7FDAF06B9   Shared")
        terminal.type("\x03")
        code = terminal.wait()
        shown, is_as_before = terminal.shown, terminal.is_as_before()

    assert code == 0
    assert is_as_before
    # The other screen, the cursor hidden; at the end both are taken back.
    assert shown.startswith("\x1b[?1049h\x1b[H\x1b[?25l")
    assert shown.endswith("\x1b[?25h\x1b[?1049l")
    assert re.search(r"GPU Tracker {50}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n", without_styles(first))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_gives_the_terminal_back(tracked, environment, number):
    with on_terminal([*STATUS, "--watch"], environment, columns=80) as terminal:
        terminal.wait_for("Accessibility")
        terminal.process.send_signal(number)
        code = terminal.wait()
        shown = terminal.shown

    assert code == 128 + number
    assert shown.endswith("\x1b[?25h\x1b[?1049l")


def test_a_screen_fits_a_terminal_that_becomes_smaller(tracked, environment):
    with on_terminal([*STATUS, "--watch"], environment, columns=200) as terminal:
        terminal.wait_for(FIRST)
        terminal.resize(80, 8)
        shown = without_styles(terminal.wait_for("... 3 more lines"))
        terminal.type("\x03")
        terminal.wait()

    page = shown.partition("... 3 more lines")[0].rpartition("GPU Tracker ")[2]
    assert page.splitlines()[1:] == ["", *IN_80_COLUMNS.splitlines()[:5]]


def test_lists_need_no_more_of_rich_than_packages_carry(tracked, environment):
    without = "import sys; sys.modules.update(dict.fromkeys(['pygments', 'markdown_it', 'mdurl'])); "
    program = [STATUS[0], "-c", without + STATUS[2], "status"]

    assert shown_on_terminal(program, environment, columns=80) == (0, IN_80_COLUMNS)
    with on_terminal([*program, "--watch"], environment, columns=80) as terminal:
        terminal.wait_for("Exclusive")
        terminal.type("\x03")
        assert terminal.wait() == 0
