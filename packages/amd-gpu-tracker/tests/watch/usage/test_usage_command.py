"""`usage` and `metrics` on hosts whose GPUs are in use."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from support.terminal import on_terminal, shown_on_terminal

GIB = 1 << 30
WEB = "36b012bb34c96149a6ef5b28623e6e75cf9f71eb2b824b2c8f44e0449c7a1aa8"
IDLE = "c0ffee" + "0" * 58
WEB_SERVER = SimulatedProcess(
    pid=3121,
    cgroup=f"/system.slice/docker-{WEB}.scope",
    uses=(SimulatedUse(gpu=2, vram_bytes=40 * GIB, client_id=7),),
)
AS_USERS = [sys.executable, "-c", "from amd_gpu_tracker.cli import main; main()"]
# Simulated counters stand still: how long the command waits for the next reading changes nothing. A page is still
# drawn long before the next.
WITHOUT_PAUSES = """
from amd_gpu_tracker.cli import main
from amd_gpu_tracker.watch.usage import screen
screen.READING_SECONDS, screen.USAGE_SECONDS = 0.01, 0.5
main()
"""
PROGRAM = [sys.executable, "-c", WITHOUT_PAUSES]
UNTRACKED = f"""\
{"-" * 86}
GPU  Model  VRAM used         Busy  Who                      Memory  Processes
{"-" * 86}
0    MI210  41.2 of 64.0 GiB  93 %  36b012bb34c9 (docker)  40.9 GiB  python 3121, 3177
                                    (no container)          0.3 GiB  Xorg 811
1    MI210  0.0 of 64.0 GiB    0 %  -
2    MI210  0.0 of 64.0 GiB    0 %  -
3    MI210  0.0 of 64.0 GiB      -  -
"""
LIMITED = f"""\
{"-" * 104}
GPU  Model  VRAM used         Busy  Who                      Memory             Limit  Processes
{"-" * 104}
0    MI210  41.2 of 64.0 GiB  93 %  36b012bb34c9 (docker)  40.9 GiB  42.0 of 48.0 GiB  python 3121, 3177
                                    (no container)          0.3 GiB                    Xorg 811
1    MI210  0.0 of 64.0 GiB    0 %  -
2    MI210  0.0 of 64.0 GiB    0 %  -
3    MI210  0.0 of 64.0 GiB      -  -
"""
OF_AN_IDLE_CONTAINER = f"""\
{"-" * 103}
GPU  Model  VRAM used        Who           Memory           Limit  Processes
{"-" * 103}
0    MI210  0.0 of 64.0 GiB  -
1    MI210  0.0 of 64.0 GiB  c0ffee000000          0.0 of 8.0 GiB  reserved less than 1 min, not in use
2    MI210  0.0 of 64.0 GiB  -
3    MI210  0.0 of 64.0 GiB  -
"""
IN_80_COLUMNS = f"""\
{"-" * 79}
GPU  VRAM used         Busy  Who                      Memory  Processes
{"-" * 79}
0    41.2 of 64.0 GiB  93 %  36b012bb34c9 (docker)  40.9 GiB  python 3121, 3177
                             (no container)          0.3 GiB  Xorg 811
1    0.0 of 64.0 GiB    0 %  -
2    0.0 of 64.0 GiB    0 %  -
3    0.0 of 64.0 GiB      -  -
GPU Tracker is disabled, so reservations are not known
"""


def environment(host):
    return {**os.environ, "AMD_CTK_HOST_ROOT": host.root, "TZ": "UTC"}


def show(host, *words, program=PROGRAM):
    answer = subprocess.run([*program, *words], env=environment(host), capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout, answer.stderr


@pytest.mark.parametrize("program", [AS_USERS, PROGRAM], ids=["as users start it", "without pauses"])
def test_usage_is_known_without_the_tracker(used_host, program):
    printed, complained = show(used_host(), "usage", program=program)

    assert printed == UNTRACKED
    assert complained == "GPU Tracker is disabled, so reservations are not known\n"


def test_a_gpu_that_an_untracked_container_uses_does_not_look_free(used_host):
    host = used_host()
    Tracker(host).enable()

    printed, complained = show(host, "usage")

    assert "36b012bb34c9 (docker)  40.9 GiB  python 3121, 3177 (not tracked)\n" in printed
    assert complained == ""


def test_a_reservation_that_uses_nothing_is_shown_as_such(used_host):
    host = used_host()
    tracker = Tracker(host)
    tracker.enable()
    tracker.reserve("2", name="nightly-job")

    lines = show(host, "usage")[0].splitlines()

    assert lines[6].split() == [
        "2",
        "MI210",
        "0.0",
        "of",
        "64.0",
        "GiB",
        "0",
        "%",
        "nightly-job",
        *lines[6].split()[9:],
    ]
    assert lines[6].endswith("reserved less than 1 min, not in use")


def test_a_job_that_has_reserved_its_gpu_is_shown_with_its_memory_and_its_peak(used_host):
    use = SimulatedUse(gpu=2, vram_bytes=40 * GIB, client_id=7)
    job = SimulatedProcess(pid=os.getpid(), cgroup="/system.slice/slurmstepd.scope/job_7/step_0", uses=(use,))
    host = used_host(job)
    tracker = Tracker(host)
    tracker.enable()
    tracker.reserve("0", name="train")

    lines = show(host, "usage", "--peak")[0].splitlines()

    assert lines[3].endswith(f"  train  40.0 GiB  40.0 GiB  python {os.getpid()}")
    assert len(lines) == 7


def test_peaks_are_remembered_for_root_alone(used_host):
    host = used_host()
    peaks = Path(host.path("/run/amd-container-toolkit/peaks.json"))

    show(host, "usage")
    for pid in (3121, 3177):
        Path(host.path(f"/sys/class/kfd/kfd/proc/{pid}/vram_12261")).write_text("1024\n")
    for directory in Path(host.path("/proc")).glob("3*/fd"):
        for link in directory.iterdir():
            link.unlink()
    used = Path(host.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:03:00.0/mem_info_vram_used"))
    used.write_text(f"{GIB // 3}\n")
    printed = show(host, "usage", "--peak")[0]

    assert "36b012bb34c9 (docker)    1 MiB  40.9 GiB  python 3121, 3177" in printed
    assert stat.S_IMODE(peaks.stat().st_mode) == 0o600


def test_a_container_that_has_ended_is_told_by_its_peak(used_host):
    host = used_host()

    show(host, "usage")
    for pid in (3121, 3177):
        for path in sorted(Path(host.path(f"/sys/devices/virtual/kfd/kfd/proc/{pid}")).rglob("*_*")):
            if path.is_file():
                path.write_text("0\n")
        for link in Path(host.path(f"/proc/{pid}/fd")).iterdir():
            link.unlink()
    printed = show(host, "usage", "--peak")[0]

    assert printed.endswith("\n36b012bb34c9 (docker) used at most 40.9 GiB of GPU 0, last seen less than 1 min ago\n")


SERVICE = "/user.slice/user-1000.slice/user@1000.service"


def on_gpu_0(gib, pid, cgroup, **fields):
    use = SimulatedUse(gpu=2, vram_bytes=gib * GIB, client_id=pid, in_kfd=False)
    return SimulatedProcess(pid=pid, cgroup=cgroup, uses=(use,), **fields)


@pytest.mark.needs("root")
def test_a_name_after_containers_and_jobs_of_others_is_shown_as_that_users(used_host):
    host = used_host(
        WEB_SERVER,
        on_gpu_0(9, 4000, f"{SERVICE}/docker-{WEB}.scope", name="forger"),
        on_gpu_0(8, 4001, f"{SERVICE}/slurmstepd.scope/job_7/step_0", name="miner", uid=1000),
    )

    printed = show(host, "usage", "--peak")[0]
    metrics = show(host, "metrics")[0]

    assert "36b012bb34c9 (docker)               40.0 GiB  40.0 GiB  python 3121\n" in printed
    assert "36b012bb34c9 (docker of user 1000)   9.0 GiB   9.0 GiB  forger 4000\n" in printed
    assert "(no container) user 1000             8.0 GiB            miner 4001\n" in printed
    labels = f'gpu_id="0",gpu_partition_id="0",container_id="{WEB}",container="",engine="docker"'
    assert f'amd_gpu_container_vram_bytes{{{labels},user=""}} {40 * GIB}\n' in metrics
    assert f'amd_gpu_container_vram_bytes{{{labels},user="1000"}} {9 * GIB}\n' in metrics


def test_processes_in_no_container_are_distinguished_by_their_users(used_host):
    host = used_host(
        on_gpu_0(3, 70, "/user.slice/user-1000.slice/session-2.scope", uid=1000),
        on_gpu_0(2, 71, "/", uid=1000),
        on_gpu_0(1, 72, "/system.slice/job.service", uid=1001),
        on_gpu_0(4, 73, f"{SERVICE}/app.slice", uid=100007),
        on_gpu_0(1, 74, "/init.scope"),
    )
    Path(host.path("/etc/passwd")).write_text("root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n:x\n")

    shown = show(host, "usage")[0].splitlines()
    users = json.loads(show(host, "usage", "--json")[0])["gpus"][0]["users"]

    assert [line[36:] for line in shown[3:6]] == [
        "(no container) alice      9.0 GiB  python 73, 70, 71",
        "(no container)            1.0 GiB  python 74",
        "(no container) user 1001  1.0 GiB  python 72",
    ]
    assert [(user["user"], user["user_name"]) for user in users] == [(1000, "alice"), (None, None), (1001, None)]
    assert [process["uid"] for process in users[0]["processes"]] == [100007, 1000, 1000]


@pytest.mark.needs("root")
def test_names_of_cgroups_cannot_hide_the_usage_from_root(used_host):
    forgers = [on_gpu_0(1, 5000 + number, f"{SERVICE}/docker-{number:064x}.scope") for number in range(40)]
    host = used_host(WEB_SERVER, *forgers)

    show(host, "usage", "--json")
    usage = json.loads(show(host, "usage", "--json")[0])

    assert len(usage["peaks"]) == 33
    assert [peak["vram_bytes"] for peak in usage["peaks"] if peak["container_id"] == WEB] == [40 * GIB]
    users = usage["gpus"][0]["users"]
    assert len(users) == 34
    assert [user["vram_bytes"] for user in users if user["others"]] == [8 * GIB]


@pytest.mark.parametrize("content", [b"{", b'{"peaks":[{"pid":1}]}', b'{"peaks":7}', b'{"peaks":[7]}', b"\xff" * 100])
def test_peaks_that_cannot_be_understood_are_forgotten(used_host, content):
    host = used_host()
    Tracker(host).enable()
    Path(host.path("/run/amd-container-toolkit/peaks.json")).write_bytes(content)

    assert "40.9 GiB  40.9 GiB" in show(host, "usage", "--peak")[0]


def test_processes_of_which_not_all_was_looked_at_are_named_up_to_a_number(used_host):
    processes = [SimulatedProcess(pid=100 + number) for number in range(12)]
    host = used_host(*processes)
    for process in processes:
        directory = Path(host.path(f"/proc/{process.pid}"))
        (directory / "fd").mkdir(exist_ok=True)
        (directory / "fdinfo").mkdir(exist_ok=True)
        (directory / "fd/3").symlink_to("/dev/dri/renderD128")
        (directory / "fdinfo/3").write_bytes(b"lock:\n" * 50000)

    lines = show(host, "usage")[1].splitlines()

    assert lines[0] == "process 100 has more open files or locks than are read, so its use may be incomplete"
    assert lines[9:] == [
        "3 more processes have more open files or locks than are read, so their use may be incomplete",
        "GPU Tracker is disabled, so reservations are not known",
    ]


def test_names_of_processes_are_no_commands_for_a_terminal(used_host):
    host = used_host(
        SimulatedProcess(pid=9, name="a\x1b[2J\nb\u202e", uses=(SimulatedUse(gpu=2, vram_bytes=GIB, client_id=3),))
    )

    assert "(no container)  1.0 GiB  a?[2J?b? 9\n" in show(host, "usage")[0]
    process = json.loads(show(host, "usage", "--json")[0])["gpus"][0]["users"][0]["processes"][0]
    assert process["name"] == "a\x1b[2J\nb\u202e"


def test_names_that_the_locale_cannot_write_are_escaped(used_host):
    use = SimulatedUse(gpu=2, vram_bytes=GIB, client_id=3)
    host = used_host(SimulatedProcess(pid=9, name="訓練", cgroup="/lxc.payload.訓練", uses=(use,)))
    latin = {**environment(host), "PYTHONIOENCODING": "iso-8859-1"}

    def printed(*words):
        return subprocess.run([*PROGRAM, *words], env=latin, stdout=subprocess.PIPE, check=True).stdout

    assert rb"\u8a13\u7df4 (lxc)" in printed("usage")
    assert 'container_id="訓練"'.encode() in printed("metrics")


def test_names_of_two_cells_a_character_are_shortened_before_pids(used_host):
    use = SimulatedUse(gpu=2, vram_bytes=GIB, client_id=3)
    host = used_host(SimulatedProcess(pid=4321, name="訓練", cgroup=f"/lxc.payload.{'訓練' * 12}", uses=(use,)))

    lines = shown_on_terminal([*PROGRAM, "usage"], environment(host), columns=80)[1].splitlines()

    assert lines[3] == "0    MI210  1.0 of 64.0 GiB  93 %  訓練訓練訓練…練訓練 (lxc)  1.0 GiB  訓練 4321"


def test_a_graphics_card_is_called_as_in_the_list_of_gpus(used_host):
    use = SimulatedUse(gpu=0, vram_bytes=GIB, client_id=3)
    host = used_host(SimulatedProcess(pid=9, uses=(use,)), profile="rx7900xtx-raphael")
    Path(host.path("/sys/bus/pci/devices/0000:03:00.0/product_name")).write_text("AMD Radeon RX 7900 XTX\n")

    assert "0    Radeon RX 7900 XTX  1.0 of 24.0 GiB" in show(host, "usage")[0]
    gpu = json.loads(show(host, "usage", "--json")[0])["gpus"][0]
    assert (gpu["model"], gpu["product_name"]) == ("GFX1100", "AMD Radeon RX 7900 XTX")


def test_an_apu_has_two_memories(used_host):
    use = SimulatedUse(gpu=0, vram_bytes=GIB // 4, gtt_bytes=3 * GIB, client_id=3, in_kfd=False)
    host = used_host(SimulatedProcess(pid=70, name="llama-server", uses=(use,)), profile="strix-halo")

    printed = show(host, "usage")[0].splitlines()

    assert printed[1].split() == ["GPU", "Model", "VRAM", "used", "GTT", "used", "Who", "Memory", "Processes"]
    assert printed[3].endswith("  0.2 of 0.5 GiB  3.0 of 62.0 GiB shared  (no container)  3.2 GiB  llama-server 70")


def test_the_peak_of_an_apu_has_both_memories(used_host):
    def using(pid, vram, gtt, name):
        use = SimulatedUse(gpu=0, vram_bytes=vram, gtt_bytes=gtt, client_id=pid, in_kfd=False)
        return SimulatedProcess(pid=pid, cgroup=f"/lxc.payload.{name}", uses=(use,))

    host = used_host(using(70, GIB // 2, 0, "a"), using(71, GIB // 4, 40 * GIB, "b"), profile="strix-halo")

    printed = show(host, "usage", "--peak")[0].splitlines()
    metrics = show(host, "metrics")[0]

    assert [line.split()[-6:-2] for line in printed[3:5]] == [
        ["40.2", "GiB", "40.2", "GiB"],
        ["0.5", "GiB", "0.5", "GiB"],
    ]
    peaks = [line.rpartition(" ")[2] for line in metrics.splitlines() if line.startswith("amd_gpu_container_peak_gtt")]
    assert peaks == [str(40 * GIB), "0"]


def test_partitions_have_users_of_their_own(used_host):
    host = used_host(
        *(
            SimulatedProcess(
                pid=70 + rank, uses=(SimulatedUse(gpu=0, partition=rank, vram_bytes=GIB, compute_units=19),)
            )
            for rank in (0, 3)
        ),
        profile="mi300x-8-cpx",
    )

    gpus = json.loads(show(host, "usage", "--json")[0])["gpus"]

    assert [gpu["number"] for gpu in gpus if gpu["users"]] == [0, 3]
    assert (gpus[3]["vram_used"], gpus[3]["busy_percent"], gpus[3]["partition_rank"]) == (GIB, 50, 3)


def test_json_has_everything(used_host):
    document = json.loads(show(used_host(), "usage", "--json")[0])
    user = document["gpus"][0]["users"][0]
    del user["last_used"], document["peaks"][0]["seen"]

    assert document["peaks"] == [
        {
            "container_id": WEB,
            "gpu": "0000:03:00.0/0",
            "name": None,
            "engine": "docker",
            "vram_bytes": 43916040602,
            "gtt_bytes": 0,
            "user": None,
        }
    ]
    assert user == {
        "container_id": WEB,
        "name": None,
        "engine": "docker",
        "is_tracked": False,
        "since": None,
        "peak_bytes": 43916040602,
        "peak_gtt_bytes": 0,
        "vram_bytes": 43916040602,
        "gtt_bytes": 0,
        "user": None,
        "user_name": None,
        "others": 0,
        "limit_bytes": None,
        "charged_bytes": None,
        "processes": [
            {
                "pid": 3121,
                "name": "python",
                "vram_bytes": 40 * GIB,
                "gtt_bytes": 0,
                "compute_units": 52,
                "sdma_us": 700,
                "busy_percent": 50,
                "uid": None,
                "is_partition_told": True,
                "limit_bytes": None,
                "charged_bytes": None,
            },
            {
                "pid": 3177,
                "name": "python",
                "vram_bytes": 966367642,
                "gtt_bytes": 0,
                "compute_units": 0,
                "sdma_us": 0,
                "busy_percent": 0,
                "uid": None,
                "is_partition_told": True,
                "limit_bytes": None,
                "charged_bytes": None,
            },
        ],
    }


def test_a_container_whose_memory_is_limited_shows_how_much_of_its_limit_is_in_use(limited_host):
    printed = show(limited_host, "usage")[0]
    document = json.loads(show(limited_host, "usage", "--json")[0])
    metrics = show(limited_host, "metrics")[0]

    assert printed == LIMITED
    web, xorg = document["gpus"][0]["users"]
    assert [(each["limit_bytes"], each["charged_bytes"]) for each in (*web["processes"], *xorg["processes"])] == [
        (48 * GIB, 42 * GIB),
        (48 * GIB, 42 * GIB),
        (None, None),
    ]
    labels = f'{{gpu_id="0",gpu_partition_id="0",container_id="{WEB}",container="",engine="docker",user=""}}'
    starts = ("amd_gpu_container_limit", "amd_gpu_container_charged")
    of_limits = [line for line in metrics.splitlines() if line.startswith(starts)]
    assert of_limits == [
        f"amd_gpu_container_limit_vram_bytes{labels} {48 * GIB}",
        f"amd_gpu_container_charged_vram_bytes{labels} {42 * GIB}",
    ]


def test_a_container_that_uses_no_gpu_yet_shows_its_limit(idle_host):
    printed = show(idle_host, "usage")[0]
    (idle,) = json.loads(show(idle_host, "usage", "--json")[0])["gpus"][1]["users"]
    metrics = show(idle_host, "metrics")[0]

    assert printed == OF_AN_IDLE_CONTAINER
    assert (idle["limit_bytes"], idle["charged_bytes"], idle["processes"]) == (8 * GIB, 0, [])
    labels = f'{{gpu_id="1",gpu_partition_id="0",container_id="{IDLE}",container="",engine="",user=""}}'
    assert f"amd_gpu_container_limit_vram_bytes{labels} {8 * GIB}\n" in metrics
    assert f"amd_gpu_container_charged_vram_bytes{labels} 0\n" in metrics


def test_prometheus_reads_the_metrics(used_host):
    printed = show(used_host(), "metrics")[0]
    gpu = '{gpu_id="0",gpu_partition_id="0",model="MI210",uuid="0xEA35F57CC80DEB35",pci_address="0000:03:00.0"}'
    web = f'{{gpu_id="0",gpu_partition_id="0",container_id="{WEB}",container="",engine="docker",user=""}}'

    assert f"# TYPE gpu_used_vram gauge\ngpu_used_vram{gpu} 42222\n" in printed
    assert f"gpu_gfx_activity{gpu} 93\n" in printed
    assert f"amd_gpu_container_vram_bytes{web} 43916040602\n" in printed
    assert f"amd_gpu_container_processes{web} 2\n" in printed
    assert "gpu_nodes_total 4\n" in printed


def test_a_terminal_of_80_columns_is_fitted(used_host):
    host = used_host()

    code, shown = shown_on_terminal([*PROGRAM, "usage"], environment(host), columns=80)

    assert code == 0
    assert shown == IN_80_COLUMNS


def test_names_that_do_not_fit_go_on_in_the_next_line(used_host):
    host = used_host()
    tracker = Tracker(host)
    tracker.enable()
    tracker.reserve("1", name="nightly-job")

    lines = shown_on_terminal([*PROGRAM, "usage"], environment(host), columns=80)[1].splitlines()

    assert lines[3:8] == [
        "0    41.2 of 64.0 GiB  93 %  36b012bb34c9 (docker)  40.9 GiB  python 3121, 3177",
        "                                                              (not tracked)",
        "                             (no container)          0.3 GiB  Xorg 811",
        "1    0.0 of 64.0 GiB    0 %  nightly-job                      reserved less than",
        "                                                              1 min, not in use",
    ]


def test_a_screen_counts_the_lines_that_go_on(used_host):
    host = used_host()
    Tracker(host).enable()

    with on_terminal([*PROGRAM, "usage", "--watch"], environment(host), columns=80, rows=8) as terminal:
        shown = terminal.wait_for("more lines")
        terminal.type("\x03")
        terminal.wait()

    # Of six lines there is room for two and this one.
    assert "... 4 more lines" in shown


def test_the_screen_follows_the_usage_until_it_is_interrupted(used_host):
    host = used_host()
    use = Path(host.path("/proc/3121/comm"))

    with on_terminal([*PROGRAM, "usage", "--watch"], environment(host), columns=100) as terminal:
        terminal.wait_for("python 3121")
        use.write_text("trainer\n")
        terminal.wait_for("trainer 3121")
        terminal.type("\x03")
        code = terminal.wait()

    assert code == 0


def test_a_narrow_screen_shows_numbers_whole(used_host):
    host = used_host()
    Tracker(host).enable()

    with on_terminal([*PROGRAM, "usage", "--peak", "--watch"], environment(host), columns=50, rows=12) as terminal:
        terminal.wait_for("93 %")
        page = terminal.page()
        terminal.type("\x03")
        terminal.wait()

    assert page[2:6] == [
        "-" * 50,
        "GPU  VRAM used         Busy  Who",
        "-" * 50,
        "0    41.2 of 64.0 GiB  93 %  36b012bb34c9 (docker)",
    ]


def test_unread_processes_are_named_below_the_screen_and_beside_the_metrics(used_host):
    host = used_host(SimulatedProcess(pid=100))
    directory = Path(host.path("/proc/100"))
    (directory / "fd").mkdir(exist_ok=True)
    (directory / "fdinfo").mkdir(exist_ok=True)
    (directory / "fd/3").symlink_to("/dev/dri/renderD128")
    (directory / "fdinfo/3").write_bytes(b"lock:\n" * 50000)
    sentence = "process 100 has more open files or locks than are read, so its use may be incomplete"

    printed, complained = show(host, "metrics")
    with on_terminal([*PROGRAM, "usage", "--watch"], environment(host), columns=100) as terminal:
        terminal.wait_for("reservations are not known")
        page = terminal.page()
        terminal.type("\x03")
        terminal.wait()

    assert complained == f"{sentence}\n"
    assert "\namd_gpu_processes_incomplete 1\n" in printed
    assert page[9:11] == [sentence, "GPU Tracker is disabled, so reservations are not known"]


def test_status_alone_loads_nothing_of_it(used_host):
    host = used_host()
    Tracker(host).enable()
    program = (
        "import sys; sys.argv[1:] = ['status']\n"
        "from amd_gpu_tracker.cli import run_command_line\n"
        "others = ('amdgpu_discovery.usage', 'amdgpu_discovery.usage.people')\n"
        "try: run_command_line()\n"
        # The file of the command has its options only, and beside the code is who asks.
        "finally: print([name for name in sys.modules if '.usage' in name and '.cli.' not in name"
        " and name not in others], file=sys.stderr)"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment(host), capture_output=True, text=True, check=False
    )

    assert answer.stderr == "[]\n"
