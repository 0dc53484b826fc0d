"""The screen of all GPUs on a real terminal, and what files get of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker, find_states
from amd_gpu_tracker.book.drains import Drain, write_drains
from amd_gpu_tracker.book.lease import Lease, boot_offset
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.watch.states.text import idle_notes
from support.enabled_tracker import enable
from support.line import put_ticket
from support.terminal import on_terminal, shown_on_terminal, without_styles

GIBIBYTE = 1 << 30
HOUR = 3600.0
SHOW = """
import os, sys
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.face import state_table
from amdgpu_discovery.host import host_from_environment
host = host_from_environment(os.environ)
getattr(state_table, sys.argv[1])(Tracker(host))
"""
ONCE = [sys.executable, "-c", SHOW, "print_states"]
TOP = [sys.executable, "-c", SHOW, "watch_states"]
# For what one look shows and the next does not.
HASTY = f"from amd_gpu_tracker.face import state_table; state_table.REFRESH_SECONDS = 0.1\n{SHOW}"
HASTY_TOP = [sys.executable, "-c", HASTY, "watch_states"]
NOTES = """\
GPU 3 is suspect: 3 uncorrectable errors since the driver was loaded
GPU 5 is drained: fan swap
GPU 6 is sick: reading gpu_busy_percent ends with an I/O error
"""
IN_A_FILE = f"""\
{"-" * 95}
GPU  Model   State     VRAM              Memory  Busy  Temp   Watt  Who    What           Since
{"-" * 95}
0    MI300X  in use    21 %   40.0 of 192.0 GiB  97 %  71 C  512 W  carol  python3        -
1    MI300X  reserved   0 %    0.0 of 192.0 GiB   0 %  44 C  140 W  alice  nightly-sweep  3 h
2    MI300X  in use    83 %  160.0 of 192.0 GiB  63 %  62 C  380 W  alice  vllm           -
3    MI300X  suspect    0 %    0.0 of 192.0 GiB   0 %  94 C  700 W  -      -              -
4    MI300X  free       0 %    0.0 of 192.0 GiB   0 %  41 C  131 W  -      -              -
5    MI300X  drained    0 %    0.0 of 192.0 GiB   0 %  40 C  130 W  -      -              2 d
6    MI300X  sick       0 %    0.0 of 192.0 GiB     -  39 C  128 W  -      -              2 h
7    MI300X  free         -      - of 192.0 GiB     -     -      -  -      asleep         -
{NOTES}"""
IN_60_COLUMNS = f"""\
{"-" * 60}
GPU  State     VRAM  Busy  Temp   Watt  Who    What
{"-" * 60}
0    in use    21 %  97 %  71 C  512 W  carol  python3
1    reserved   0 %   0 %  44 C  140 W  alice  nightly-sweep
2    in use    83 %  63 %  62 C  380 W  alice  vllm
3    suspect    0 %   0 %  94 C  700 W  -      -
4    free       0 %   0 %  41 C  131 W  -      -
5    drained    0 %   0 %  40 C  130 W  -      -
6    sick       0 %     -  39 C  128 W  -      -
7    free         -     -     -      -  -      asleep
{NOTES}"""
IN_80_COLUMNS = f"""\
{"-" * 77}
GPU  State     VRAM            Busy  Temp   Watt  Who    What           Since
{"-" * 77}
0    in use    21 %  ██░░░░░░  97 %  71 C  512 W  carol  python3        -
1    reserved   0 %  ░░░░░░░░   0 %  44 C  140 W  alice  nightly-sweep  3 h
2    in use    83 %  ███████░  63 %  62 C  380 W  alice  vllm           -
3    suspect    0 %  ░░░░░░░░   0 %  94 C  700 W  -      -              -
4    free       0 %  ░░░░░░░░   0 %  41 C  131 W  -      -              -
5    drained    0 %  ░░░░░░░░   0 %  40 C  130 W  -      -              2 d
6    sick       0 %  ░░░░░░░░     -  39 C  128 W  -      -              2 h
7    free         -               -     -      -  -      asleep         -
{NOTES}"""
IN_120_COLUMNS = f"""\
{"-" * 105}
GPU  Model   State     VRAM                        Memory  Busy  Temp   Watt  Who    What           Since
{"-" * 105}
0    MI300X  in use    21 %  ██░░░░░░   40.0 of 192.0 GiB  97 %  71 C  512 W  carol  python3        -
1    MI300X  reserved   0 %  ░░░░░░░░    0.0 of 192.0 GiB   0 %  44 C  140 W  alice  nightly-sweep  3 h
2    MI300X  in use    83 %  ███████░  160.0 of 192.0 GiB  63 %  62 C  380 W  alice  vllm           -
3    MI300X  suspect    0 %  ░░░░░░░░    0.0 of 192.0 GiB   0 %  94 C  700 W  -      -              -
4    MI300X  free       0 %  ░░░░░░░░    0.0 of 192.0 GiB   0 %  41 C  131 W  -      -              -
5    MI300X  drained    0 %  ░░░░░░░░    0.0 of 192.0 GiB   0 %  40 C  130 W  -      -              2 d
6    MI300X  sick       0 %  ░░░░░░░░    0.0 of 192.0 GiB     -  39 C  128 W  -      -              2 h
7    MI300X  free         -                - of 192.0 GiB     -     -      -  -      asleep         -
{NOTES}"""
# The trend begins with the first look.
SCREEN_OF_120_COLUMNS = f"""\
8 GPUs: 2 free, 1 reserved, 2 in use, 1 drained, 1 suspect, 1 sick{"THE DAY AND TIME":>51}

{"-" * 115}
GPU  Model   State     VRAM                        Memory  Busy  Trend     Temp   Watt  Who    What           Since
{"-" * 115}
0    MI300X  in use    21 %  ██░░░░░░   40.0 of 192.0 GiB  97 %         █  71 C  512 W  carol  python3        -
1    MI300X  reserved   0 %  ░░░░░░░░    0.0 of 192.0 GiB   0 %         ▁  44 C  140 W  alice  nightly-sweep  3 h
2    MI300X  in use    83 %  ███████░  160.0 of 192.0 GiB  63 %         ▅  62 C  380 W  alice  vllm           -
3    MI300X  suspect    0 %  ░░░░░░░░    0.0 of 192.0 GiB   0 %         ▁  94 C  700 W  -      -              -
4    MI300X  free       0 %  ░░░░░░░░    0.0 of 192.0 GiB   0 %         ▁  41 C  131 W  -      -              -
5    MI300X  drained    0 %  ░░░░░░░░    0.0 of 192.0 GiB   0 %         ▁  40 C  130 W  -      -              2 d
6    MI300X  sick       0 %  ░░░░░░░░    0.0 of 192.0 GiB     -         ▁  39 C  128 W  -      -              2 h
7    MI300X  free         -                - of 192.0 GiB     -         ▁     -      -  -      asleep         -
{NOTES}q ends, s sorts (by number), ? helps
"""
CLOCK = re.compile(r" {,3}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def sensors(temperature, watts, **more):
    return {
        "hwmon/hwmon0/temp2_label": "junction",
        "hwmon/hwmon0/temp2_input": f"{temperature}000",
        "hwmon/hwmon0/power1_average": f"{watts}000000",
        **more,
    }


@pytest.fixture
def busy_host(host_of):
    """Return a host on which each state occurs, and a GPU that sleeps."""
    measured = [(71, 512), (44, 140), (62, 380), (94, 700), (41, 131), (40, 130), (39, 128)]
    health = {number: sensors(*each) for number, each in enumerate(measured)}
    health[3]["ras/umc_err_count"] = "ue: 3\nce: 17"
    health[7] = {"power/runtime_status": "suspended"}
    host = host_of(vram={0: 40 * GIBIBYTE, 2: 160 * GIBIBYTE}, health=health, busy={0: 97, 2: 63})
    with open(host.path("/etc/passwd"), "a", encoding="utf-8") as file:
        file.write("alice:x:1001:1001::/home/alice:/bin/sh\n")
    status = Path(host.path("/proc/4002/status"))
    status.write_text(status.read_text().replace("1000", "1001"))
    Path(host.path("/proc/4002/comm")).write_text("vllm\n")
    gpus = find_states(host)
    break_file(host, gpus[6].pci_address, "gpu_busy_percent")
    enable(host)
    reserve(host, gpus[1].key, name="1001/nightly-sweep", person=1001, since=time.time() - 3.5 * HOUR)
    drained = Drain(key=gpus[5].key, reason="fan swap", since=time.time() - 60 * HOUR)
    sick = "reading gpu_busy_percent ends with an I/O error"
    seen = Drain(key=gpus[6].key, reason=sick, since=time.time() - 2.5 * HOUR, boot_id=Processes().boot_id)
    write_drains(host, [drained, seen])
    return host


def break_file(host, address, name):
    """Let reads of an attribute end in EIO, as those of /proc/self/mem at address 0 do."""
    path = Path(host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/{name}"))
    path.unlink(missing_ok=True)
    path.symlink_to("/proc/self/mem")


def reserve(host, key, *, name, person, since, **more):
    """Write the lease of a person's job that this process keeps alive."""
    processes = Processes()
    State(host).write_lease(
        Lease(
            container_id=name,
            bundle="",
            creator=processes.myself(),
            gpus=(key,),
            boot_offset=boot_offset(),
            boot_id=processes.boot_id,
            namespace=processes.namespace,
            ways=("api",),
            since=since,
            person=person,
            **more,
        )
    )


def environment(host):
    without = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    mine = {name: value for name, value in os.environ.items() if name not in without}
    return {**mine, "AMD_CTK_HOST_ROOT": host.root, "TZ": "UTC"}


def test_off_a_terminal_everything_is_printed_once(busy_host):
    for program in (ONCE, TOP):
        answer = subprocess.run(program, env=environment(busy_host), capture_output=True, text=True, check=False)

        assert (answer.stdout, answer.stderr, answer.returncode) == (IN_A_FILE, "", 0)


def test_the_limit_of_the_process_with_most_memory_is_shown(busy_host):
    cgroups = Path(busy_host.path("/sys/fs/cgroup"))
    region = f"drm/{find_states(busy_host)[0].pci_address}/vram"
    (cgroups / "docker/web").mkdir(parents=True)
    (cgroups / "dmem.capacity").write_text(f"{region} {192 * GIBIBYTE}\n")
    (cgroups / "docker/web/dmem.max").write_text(f"{region} {48 * GIBIBYTE}\n")
    (cgroups / "docker/web/dmem.current").write_text(f"{region} {41 * GIBIBYTE}\n")
    Path(busy_host.path("/proc/4000/cgroup")).write_text("0::/docker/web\n")

    answer = subprocess.run(ONCE, env=environment(busy_host), capture_output=True, text=True, check=True)

    header, _, first, second = answer.stdout.splitlines()[1:5]
    assert header.startswith("GPU  Model   State     VRAM              Memory             Limit  Busy  Temp")
    assert first.startswith("0    MI300X  in use    21 %   40.0 of 192.0 GiB  41.0 of 48.0 GiB  97 %  71 C")
    assert second.startswith("1    MI300X  reserved   0 %    0.0 of 192.0 GiB                     0 %  44 C")


def test_the_screen_shows_when_the_time_of_a_job_is_over(busy_host):
    key = Tracker(busy_host).status().gpus[4].key
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    # However long the command takes to start, no second has passed.
    reserve(busy_host, key, name="40001/short", person=40001, since=time.time() + HOUR, limit=now + 2.5 * HOUR)

    answer = subprocess.run(ONCE, env=environment(busy_host), capture_output=True, text=True, check=True)

    header, row, other = (answer.stdout.splitlines()[line] for line in (1, 7, 4))
    assert [line[header.index("Since") :] for line in (header, row, other)] == [
        "Since  Ends in",
        "0 s    2 h",
        "3 h    -",
    ]


@pytest.mark.parametrize(
    ("idle_for", "said"),
    [
        (9, None),
        (15, r"GPU 4 is idle since \d\d:\d\d, preemptible from \d\d:\d\d on"),
        (25, r"GPU 4 is idle since \d\d:\d\d, preemptible"),
    ],
)
def test_the_screen_shows_which_gpus_nobody_uses(busy_host, idle_for, said):
    key = Tracker(busy_host).status().gpus[4].key
    since = time.clock_gettime(time.CLOCK_BOOTTIME) - idle_for
    times = {"idle_since": since, "preemptible": since + 20}
    reserve(busy_host, key, name="40001/short", person=40001, since=time.time(), **times)

    # Whatever this takes, it is the same moment.
    notes = idle_notes(Tracker(busy_host).states(), now=since + idle_for + boot_offset())

    assert [bool(re.fullmatch(said, line)) for line in notes] == [True] if said else notes == []


@pytest.mark.parametrize(
    ("columns", "expected"),
    [(60, IN_60_COLUMNS), (80, IN_80_COLUMNS), (120, IN_120_COLUMNS), (200, IN_120_COLUMNS)],
)
def test_once_on_a_terminal_it_is_drawn_to_the_width(busy_host, columns, expected):
    assert shown_on_terminal(ONCE, environment(busy_host), columns=columns) == (0, expected)


def lines_of(terminal, last):
    """Return the lines of the screen when this word is seen, with what tells the time replaced."""
    terminal.wait_for(last)
    return [CLOCK.sub("   THE DAY AND TIME", line) for line in terminal.page()]


def test_the_screen_says_the_same_with_a_trend(busy_host):
    with on_terminal(TOP, environment(busy_host), columns=120) as terminal:
        page = lines_of(terminal, "helps")
        terminal.type("q")
        code = terminal.wait()
        is_as_before = terminal.is_as_before()

    assert "\n".join(page).rstrip() == SCREEN_OF_120_COLUMNS.rstrip()
    assert code == 0
    assert is_as_before


def test_keys_sort_help_and_end(busy_host):
    with on_terminal(TOP, environment(busy_host), columns=80) as terminal:
        terminal.wait_for("by number")
        terminal.type("s")
        by_state = lines_of(terminal, "by state")
        terminal.type("ss")
        by_memory = lines_of(terminal, "by memory")
        terminal.type("\x1b[A")
        terminal.type("?")
        helped = lines_of(terminal, "no longer on this host")
        terminal.type("?")
        terminal.wait_for("by memory")
        terminal.type("s")
        by_person = lines_of(terminal, "by person")
        terminal.type("Q")
        assert terminal.wait() == 0

    assert numbers(by_state) == ["6", "3", "5", "0", "2", "1", "4", "7"]
    assert numbers(by_memory) == ["2", "0", "1", "3", "4", "5", "6", "7"]
    assert numbers(by_person) == ["1", "2", "0", "3", "4", "5", "6", "7"]
    assert helped[2:5] == ["q    end", "s    sort by number, state, busy, memory, person", "?    this help, and back"]


def numbers(page):
    return [line[0] for line in page[5:13]]


def test_the_screen_follows_the_gpus_and_asks_for_errors_once(busy_host):
    function = Path(busy_host.path("/sys/module/amdgpu/drivers/pci:amdgpu"), find_states(busy_host)[3].pci_address)

    with on_terminal(HASTY_TOP, environment(busy_host), columns=120) as terminal:
        terminal.wait_for("helps")
        (function / "ras" / "umc_err_count").write_text("ue: 9\n")
        (function / "hwmon" / "hwmon0" / "temp2_input").write_text("99000\n")
        terminal.wait_for("99 C")
        terminal.wait_for("helps")
        # From the end of one page to the end of another.
        page = without_styles(terminal.wait_for("helps"))
        terminal.type("q")
        terminal.wait()

    assert "GPU 3 is suspect: 3 uncorrectable errors since the driver was loaded" in page


def test_a_terminal_that_becomes_narrower_is_drawn_again_at_once(busy_host):
    with on_terminal(TOP, environment(busy_host), columns=200) as terminal:
        terminal.wait_for("helps")
        terminal.resize(60, 20)
        # This is below what is compared. Of the next page, two seconds later, nothing is seen.
        terminal.wait_for("was loaded   ")
        page = terminal.page()
        terminal.type("\x03")
        assert terminal.wait() == 0

    assert page[2:13] == IN_60_COLUMNS.splitlines()[:11]


def test_ctrl_z_gives_the_terminal_and_its_keys_back(busy_host):
    shell = ["sh", "-mc", '"$@"; echo "stopped: $?"; stty -a; fg >/dev/null; echo "ended: $?"', "sh", *TOP]

    with on_terminal(shell, environment(busy_host), columns=80) as terminal:
        terminal.wait_for("helps")
        terminal.type("\x1a")
        stopped = terminal.wait_for("helps")
        terminal.type("q")
        terminal.wait_for("ended: 0\n")

    assert "stopped: 148\n" in stopped
    assert " icanon " in stopped
    assert " echo " in stopped


@pytest.mark.parametrize("locale", ["C", "de_DE.ISO8859-1"])
def test_a_terminal_without_blocks_has_bars_of_ascii_and_no_trend(busy_host, locale):
    plain = ["env", f"LC_ALL={locale}", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0", "PYTHONIOENCODING=ascii", *TOP]

    with on_terminal(plain, environment(busy_host), columns=120) as terminal:
        page = lines_of(terminal, "helps")
        terminal.type("q")
        terminal.wait()

    assert page[5].split()[:6] == ["0", "MI300X", "in", "use", "21", "%"]
    assert "  ##......  " in page[5]
    assert "Trend" not in page[3]


def test_colours_say_what_words_say_and_no_color_leaves_them_out(busy_host):
    coloured = shown_on_terminal(ONCE, environment(busy_host), columns=80, styled=True)[1]
    plain = shown_on_terminal(ONCE, {**environment(busy_host), "NO_COLOR": "1"}, columns=80, styled=True)[1]

    assert "\x1b[1;31msick" in coloured
    assert "\x1b[32mfree" in coloured
    assert not re.search(r"\x1b\[[0-9;]*3\dm", plain)
    assert without_styles(plain) == IN_80_COLUMNS


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e大規模\nfree"


def test_names_of_programs_and_jobs_command_no_terminal(busy_host):
    Path(busy_host.path("/proc/4000/comm")).write_text(HOSTILE)
    reserve(busy_host, find_states(busy_host)[4].key, name="1000/x" + "y" * 100, person=1000, since=time.time())

    printed = subprocess.run(ONCE, env=environment(busy_host), capture_output=True, text=True, check=False).stdout
    drawn = shown_on_terminal(ONCE, environment(busy_host), columns=80, styled=True)[1]

    assert "  carol  ?]0;owned??[2J?大規模?free" in printed
    assert all(character.isprintable() for line in printed.splitlines() for character in line)
    assert "\x1b]" not in drawn
    assert "\x1b[2J" not in drawn
    assert max(map(len, without_styles(drawn).splitlines()[:11])) <= 80


def test_a_host_without_a_driver_gets_no_screen(tmp_path):
    (tmp_path / "sys").mkdir()

    code, shown = shown_on_terminal(TOP, {**os.environ, "AMD_CTK_HOST_ROOT": str(tmp_path)}, columns=200, styled=True)

    assert code != 0
    assert "\x1b[?1049h" not in shown


def test_a_passing_problem_is_shown_until_it_is_gone(busy_host):
    policy = Path(State(busy_host).policy_path)
    sound = policy.read_bytes()

    with on_terminal(HASTY_TOP, environment(busy_host), columns=240) as terminal:
        terminal.wait_for("helps")
        policy.write_text("{")
        terminal.wait_for("cannot be understood")
        policy.write_bytes(sound)
        terminal.wait_for("nightly-sweep")
        terminal.type("q")
        assert terminal.wait() == 0


def test_jobs_that_wait_are_counted(busy_host):
    put_ticket(busy_host, "train-3", "free:8", range(8))
    printed = subprocess.run(ONCE, env=environment(busy_host), capture_output=True, text=True, check=False).stdout

    assert re.search(r"^1 job waits for GPUs, the first for less than 1 min$", printed, re.MULTILINE)


def test_without_the_tracker_it_says_what_it_cannot_know(host_of):
    printed = subprocess.run(ONCE, env=environment(host_of()), capture_output=True, text=True, check=False).stdout

    assert printed.splitlines()[-1] == "GPU Tracker is disabled, so reservations are not known"
