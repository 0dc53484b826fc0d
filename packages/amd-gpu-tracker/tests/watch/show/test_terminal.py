"""Status on a real terminal, as people see it; `test_cli.py` has what files and programs get."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amd_gpu_tracker.book.lease import Lease, boot_offset
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
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
WIDE_IN_86_COLUMNS = f"""\
{"-" * 86}
GPU Id  UUID                Accessibility  Container Ids  Name              Since
{"-" * 86}
0       0xEA35F57CC80DEB35  Shared         36b012bb34c9   web               3 days ago
1       0x89CAA15875FF5A43  Shared         36b012bb34c9   web               3 days ago
                                           90cb29e11e83   training…q1r2s3t  1 day ago
2       0x6E32F10EFC982B4C  Shared         -
3       0x12FE4F7FDAF06B9   Exclusive      -
"""
IN_160_COLUMNS = f"""\
{"-" * 124}
GPU Id  UUID                Accessibility  Container Ids  Name                                  Since       By
{"-" * 124}
0       0xEA35F57CC80DEB35  Shared         36b012bb34c9   web                                   3 days ago  env
1       0x89CAA15875FF5A43  Shared         36b012bb34c9   web                                   3 days ago  env
                                           90cb29e11e83   training.1.x8f3k2j5l6m7n8o9p0q1r2s3t  1 day ago   swarm, 16000 MiB
2       0x6E32F10EFC982B4C  Shared         -
3       0x12FE4F7FDAF06B9   Exclusive      -
"""  # noqa: E501
IN_200_COLUMNS = f"""\
{"-" * 175}
GPU Id  UUID                Accessibility  Container Ids                                                     Name                                  Since       By
{"-" * 175}
0       0xEA35F57CC80DEB35  Shared         {FIRST}  web                                   3 days ago  env
1       0x89CAA15875FF5A43  Shared         {FIRST}  web                                   3 days ago  env
                                           {SECOND}  training.1.x8f3k2j5l6m7n8o9p0q1r2s3t  1 day ago   swarm, 16000 MiB
2       0x6E32F10EFC982B4C  Shared         -
3       0x12FE4F7FDAF06B9   Exclusive      -
"""  # noqa: E501
NOT_SHORTENED = f"""\
{"-" * 184}
GPU Id  UUID                Accessibility  Container Ids                                                     Name                                  Since                By
{"-" * 184}
0       0xEA35F57CC80DEB35  Shared         {FIRST}  web                                   THE TIME OF THE 1ST  env
1       0x89CAA15875FF5A43  Shared         {FIRST}  web                                   THE TIME OF THE 1ST  env
                                           {SECOND}  training.1.x8f3k2j5l6m7n8o9p0q1r2s3t  THE TIME OF THE 2ND  swarm, 16000 MiB
2       0x6E32F10EFC982B4C  Shared         -
3       0x12FE4F7FDAF06B9   Exclusive      -
"""  # noqa: E501
DAY = 86400.0


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
    # Half a day from where the words change.
    since = time.time() - 3.5 * DAY, time.time() - 1.5 * DAY
    _lease(untracked, FIRST, (0, 1), name="web", directory=tmp_path / "first", since=since[0], ways=("env",))
    _lease(
        untracked,
        SECOND,
        (1,),
        name=TASK,
        directory=tmp_path / "second",
        since=since[1],
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
            boot_offset=boot_offset(),
            boot_id=processes.boot_id,
            namespace=processes.namespace,
            **fields,
        )
    )


def show_json(environment):
    return subprocess.run([*STATUS, "--json"], env=environment, stdout=subprocess.PIPE, check=True).stdout


def test_status_fits_80_columns(tracked, environment):
    assert shown_on_terminal(STATUS, environment, columns=80) == (0, IN_80_COLUMNS)


def test_a_wide_status_leaves_out_how_and_then_since_when(tracked, environment):
    assert shown_on_terminal([*STATUS, "--wide"], environment, columns=80) == (0, IN_80_COLUMNS)
    assert shown_on_terminal([*STATUS, "--wide"], environment, columns=86) == (0, WIDE_IN_86_COLUMNS)


def test_status_uses_160_columns(tracked, environment):
    assert shown_on_terminal(STATUS, environment, columns=160) == (0, IN_160_COLUMNS)


def test_status_uses_200_columns(tracked, environment):
    assert shown_on_terminal(STATUS, environment, columns=200) == (0, IN_200_COLUMNS)


@pytest.mark.parametrize("columns", [80, 200])
def test_nothing_is_shortened_for_who_asks_for_all(tracked, environment, columns):
    uses = json.loads(show_json(environment))["gpus"][1]["containers"]
    first, second = (time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(use["since"])) for use in uses)

    shown = shown_on_terminal([*STATUS, "--no-trunc"], environment, columns=columns)

    assert shown == (0, NOT_SHORTENED.replace("THE TIME OF THE 1ST", first).replace("THE TIME OF THE 2ND", second))


def test_no_line_of_a_table_ends_with_blanks(tracked, environment):
    # Of any version of rich: nox -s bundled draws with the one that the packages carry.
    assert STYLE.sub("", shown_on_terminal(STATUS, environment, columns=80, styled=True)[1]) == IN_80_COLUMNS


def test_a_disabled_tracker_says_so(untracked, environment):
    assert shown_on_terminal(STATUS, environment, columns=80) == (0, "GPU Tracker is disabled\n")


def test_a_person_reads_how_a_disabled_tracker_is_enabled(untracked, environment):
    command = [*STATUS[:-1], "0", "exclusive"]

    code, shown = shown_on_terminal(command, environment, columns=80)

    # The first line says that the host is a simulated one.
    assert (code, shown.partition("\n")[2]) == (
        11,
        "GPU Tracker is disabled\nenable it with 'sudo amd-ctk gpu-tracker enable'\n",
    )


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
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


def page_of(program, environment, *, columns, rows, last):
    """Return what `--watch` draws on a terminal of this size, up to this word."""
    with on_terminal(program, environment, columns=columns, rows=rows) as terminal:
        terminal.wait_for(last)
        page = terminal.page()
        terminal.type("\x03")
        assert terminal.wait() == 0
    return page


def test_a_small_screen_is_used_for_rows(tracked, environment):
    page = page_of([*STATUS, "--watch"], environment, columns=20, rows=5, last="more lines")

    assert re.fullmatch(r"GPU Tracker \d\d:\d\d:\d\d", page[0])
    assert page[1:] == ["GPU Id  UUID", "0       0xEA35…DEB35", "1       0x89CA…F5A43", "... 2 more lines"]


def test_notes_about_the_list_are_below_it_on_the_screen(tracked, environment):
    Path(f"{tracked.state.leases_directory}/broken.json").write_text("{")

    page = page_of([*STATUS, "--watch"], environment, columns=100, rows=24, last="reset")

    notes = next(at for at, line in enumerate(page) if line.startswith("the lease"))
    assert page[notes - 1].endswith("?")
    assert "cannot be understood" in " ".join(page[notes:])


def test_ctrl_z_gives_the_terminal_back_until_the_program_continues(tracked, environment):
    # A program stops only where a shell with job control (-m) waits for it.
    shell = ["sh", "-mc", '"$@"; echo "stopped: $?"; fg >/dev/null; echo "ended: $?"', "sh", *STATUS, "--watch"]

    with on_terminal(shell, environment, columns=80) as terminal:
        terminal.wait_for("Exclusive")
        terminal.type("\x1a")
        stopped = terminal.wait_for(f"stopped: {128 + signal.SIGTSTP}\n")
        again = terminal.wait_for("Exclusive")
        terminal.type("\x03")
        terminal.wait_for("ended: 0\n")

    assert "\x1b[?25h\x1b[?1049l" in stopped
    # What was read with the line of the shell belongs to what came after it.
    assert "\x1b[?1049h" in (stopped + again).rpartition("\x1b[?1049l")[2]


def test_a_terminal_without_a_cursor_is_a_pipe(tracked, environment):
    dumb = ["env", "TERM=dumb", *STATUS]

    assert shown_on_terminal(dumb, environment, columns=80)[1].splitlines()[0] == "-" * 120
    with on_terminal([*dumb, "--watch"], environment, columns=200) as terminal:
        shown = terminal.wait_for("Exclusive")
        terminal.type("\x03")
        assert terminal.wait() == 0
    assert "\x1b" not in shown


def test_a_watch_that_cannot_begin_has_no_screen(tracked, environment):
    Path(tracked.state.policy_path).write_text("{")

    code, shown = shown_on_terminal([*STATUS, "--watch"], environment, columns=80, styled=True)

    assert code != 0
    assert "\x1b" not in shown
