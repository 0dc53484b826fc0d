"""The commands of the guide, word for word."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from amd_gpu_tracker.book.drains import read_drains
from amd_gpu_tracker.cli import run_command_line
from amd_gpu_tracker.leases.processes import Processes
from support.line import put_ticket
from support.ready_interpreter import ReadyInterpreter

PROGRAM = os.path.join(os.path.dirname(sys.executable), "amd-gpu-tracker")
ENVIRONMENT = {"PATH": os.environ["PATH"], "COLUMNS": "120", "TZ": "UTC"}
RULE = "-" * 120
EMPTY_TABLE = f"""\
{RULE}
GPU Id    UUID                     Accessibility       Container Ids
{RULE}
0         0xEA35F57CC80DEB35       Shared              -
1         0x89CAA15875FF5A43       Shared              -
2         0x6E32F10EFC982B4C       Shared              -
3         0x12FE4F7FDAF06B9        Shared              -
"""
FIRST = "36b012bb34c96149a6ef5b28623e6e75cf9f71eb2b824b2c8f44e0449c7a1aa8"
SECOND = "90cb29e11e83aa3ae497c68c90e1f0894b85262188c1ef9c7284457a9bc35ffd"


@pytest.fixture(scope="module")
def ready():
    """Return an interpreter for the many starts of amd-gpu-tracker."""
    with ReadyInterpreter(PROGRAM, ENVIRONMENT) as interpreter:
        yield interpreter


@pytest.fixture
def command(untracked, ready):
    """Return a function that runs amd-gpu-tracker: its exit code, what it printed, what it complained of."""
    environment = {**ENVIRONMENT, "AMD_CTK_HOST_ROOT": untracked.host.root}

    def run(*words, user=None):
        answer = (
            ready.run(words, environment)
            if user is None
            else subprocess.run(
                [PROGRAM, *words], env=environment, user=user, capture_output=True, text=True, check=False
            )
        )
        notice = f"Working on the simulated host {untracked.host.root}, not on this machine\n"
        return answer.returncode, answer.stdout, answer.stderr.replace(notice, "", 1)

    return run


def test_a_command_that_changes_a_simulated_host_says_so(untracked):
    notice = f"Working on the simulated host {untracked.host.root}, not on this machine\n"
    program = [sys.executable, "-m", "amd_gpu_tracker", "--host-root", untracked.host.root]

    def complaints(*words):
        return subprocess.run([*program, *words], capture_output=True, text=True, check=False).stderr

    assert [complaints(word) for word in ("enable", "status", "reset")] == [notice, "", notice]


@pytest.mark.parametrize("words", [["enable"], ["reset"]])
def test_sentences_beyond_the_guide_go_to_standard_error(command, untracked, words):
    if words == ["reset"]:
        command("enable")
    untracked.run_untracked("c1", 0)
    # The machine's own processes are those that count here.
    init = subprocess.Popen(["sleep", "60"])
    state = Path(untracked.host.path("/run/runc/c1/state.json"))
    process = Processes().find(init.pid)
    written = {**json.loads(state.read_text()), "init_process_pid": process.pid, "init_process_start": process.start}
    state.write_text(json.dumps(written))
    state.chmod(0o644)

    answer = command(*words)
    init.kill()
    init.wait()

    assert (answer[0], answer[2]) == (0, "container c1 is running and uses GPUs [0]\n")
    assert "c1" not in answer[1]


@pytest.fixture
def sleeper(untracked):
    """Return a function that makes a container of a living process."""
    started = []

    def start(container_id, request):
        process = subprocess.Popen(["sleep", "60"])
        started.append(process)
        from amd_gpu_tracker.face.tracker import Tracker

        Tracker(untracked.host).reserve(request, name=container_id, pid=process.pid)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_the_guide_from_disabled_to_enabled_and_back(command):
    assert command("status") == (0, "GPU Tracker is disabled\n", "")
    assert command("0", "exclusive") == (11, "GPU Tracker is disabled\n", "")
    assert command("disable") == (0, "GPU Tracker is already disabled\n", "")
    assert command("reset") == (0, "GPU Tracker has been reset\n", "")
    assert command("enable") == (0, "GPU Tracker has been enabled\n", "")
    assert command("enable") == (0, "GPU Tracker is already enabled\n", "")
    assert command("status") == (0, EMPTY_TABLE, "")
    assert command("1-3", "exclusive") == (0, "GPUs [1 2 3] have been made exclusive\n", "")
    assert command("reset") == (
        0,
        (
            "GPU Tracker has been reset\n"
            "Since GPU Tracker was enabled, it is recommended to stop and restart running containers to get the most"
            " accurate GPU Tracker status\n"
        ),
        "",
    )
    assert command("status") == (0, EMPTY_TABLE, "")
    assert command("disable") == (0, "GPU Tracker has been disabled\n", "")
    assert command("status") == (0, "GPU Tracker is disabled\n", "")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["train"], "1 waiting job ends without GPUs: train\n"),
        (
            [f"job-{number}" for number in range(10)],
            ("10 waiting jobs end without GPUs: job-0, job-1, job-2, job-3, job-4, job-5, job-6, job-7 and 2 more\n"),
        ),
    ],
)
def test_disable_names_the_jobs_that_wait(command, untracked, names, said):
    command("enable")
    for name in names:
        put_ticket(untracked.host, name, "auto:2", range(4))

    answers = [command("disable"), command("disable")]

    assert answers == [(0, "GPU Tracker has been disabled\n", said), (0, "GPU Tracker is already disabled\n", "")]


def test_the_guides_table_of_containers(command, sleeper):
    command("enable")
    sleeper(FIRST, "0-2")
    sleeper(SECOND, "1,3")
    command("3", "exclusive")

    assert command("status") == (
        0,
        f"""\
{RULE}
GPU Id    UUID                     Accessibility       Container Ids
{RULE}
0         0xEA35F57CC80DEB35       Shared              {FIRST}
1         0x89CAA15875FF5A43       Shared              {FIRST}
                                                       {SECOND}
2         0x6E32F10EFC982B4C       Shared              {FIRST}
3         0x12FE4F7FDAF06B9        Exclusive           {SECOND}
""",
        "",
    )
    assert command("1", "exclusive") == (
        11,
        "GPUs [1] have not been made exclusive because more than one container is currently using it\n",
        "",
    )


def test_a_gpu_is_named_by_what_amd_smi_prints(command):
    command("enable")

    assert command("89ff740f-0000-1000-80ca-a15875ff5a43", "exclusive") == (
        0,
        "GPUs [1] have been made exclusive\n",
        "",
    )
    assert command("0,08ff75a3-0000-1000-80da-82c12ef81b5d,GPU-XX,", "exclusive") == (
        11,
        (
            "GPUs [0] have been made exclusive\n"
            "Ignoring [08ff75a3-0000-1000-80da-82c12ef81b5d GPU-XX] GPUs as they are invalid\n"
        ),
        "",
    )


def test_several_answers_at_once(command, sleeper):
    command("enable")
    sleeper("a", "1")
    sleeper("b", "1")

    assert command("7,9-8,abc,0-1", "exclusive") == (
        11,
        (
            "GPUs [0] have been made exclusive\n"
            "GPUs [1] have not been made exclusive because more than one container is currently using it\n"
            "Ignoring [9-8] GPUs Ranges as they are invalid\n"
            "Ignoring [7 abc] GPUs as they are invalid\n"
        ),
        "",
    )
    assert command("all", "shared") == (0, "GPUs [0 1 2 3] have been made shared\n", "")


@pytest.mark.parametrize("operation", ["Exclusive", "EXCLUSIVE"])
def test_capitals_in_an_accessibility_do_not_count(command, operation):
    command("enable")

    assert command("1", operation) == (0, "GPUs [1] have been made exclusive\n", "")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("9", "Ignoring [9] GPUs as they are invalid\n"),
        ("", "Ignoring [] GPUs as they are invalid\n"),
        ("none", "Ignoring [none] GPUs as they are invalid\n"),
        ("3-1", "Ignoring [3-1] GPUs Ranges as they are invalid\n"),
    ],
)
@pytest.mark.parametrize("operation", ["exclusive", "shared"])
def test_a_request_for_no_gpu_is_told_and_ends_with_a_code_of_its_own(command, request_, words, operation):
    command("enable")

    assert command(request_, operation) == (11, words, "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["0"], "Error: Missing arguments. Usage: gpu-tracker <gpu_ids> <operation>\n"),
        (["frobnicate"], "Error: Missing arguments. Usage: gpu-tracker <gpu_ids> <operation>\n"),
        (["staus"], "there is no command staus (did you mean status?)\n"),
        (["drian"], "there is no command drian (did you mean drain?)\n"),
        (["0", "1", "shared"], "Error: Too many arguments. Usage: gpu-tracker <gpu_ids> <operation>\n"),
        (["0", "private"], "Error: Invalid operation. Must be 'exclusive' or 'shared'\n"),
    ],
)
def test_a_broken_command_line_is_reported(command, words, complaint):
    command("enable")

    assert command(*words) == (1, "", complaint)


def test_changed_gpus_in_the_guides_words(command, untracked):
    command("enable")
    drivers = untracked.host.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:03:00.0/unique_id")
    with open(drivers, "w") as file:
        file.write("0123456789abcdef\n")

    assert command("status") == (1, "", "GPUs info is invalid. Please reset GPU Tracker.\n")


def test_help_is_the_guides(command):
    code, shown, _ = command("-h")

    assert code == 0
    assert shown == command()[1] == command("help")[1] == command("h")[1]
    for line in (
        "amd-gpu-tracker [gpu-ids] [accessibility]",
        "gpu-ids        Comma-separated list of GPU IDs (comma separated list, range operator, all)",
        "accessibility  Must be either 'exclusive' or 'shared'",
        "amd-gpu-tracker 0,1,2 exclusive",
        "amd-gpu-tracker 0,1-2 shared",
        "amd-gpu-tracker all shared",
        "amd-gpu-tracker [command] [options]",
        "disable  Disable the GPU Tracker",
        "enable   Enable the GPU Tracker",
        "reset    Reset the GPU Tracker",
        "status   Show Status of GPUs",
    ):
        assert line in shown
    for hidden in ("init", "release", " set "):
        assert hidden not in shown
    assert command("help", "reset") == command("reset", "-h")


def test_there_is_no_service_for_people_where_nobody_reads_who_may(command, tmp_path):
    code, _, complaint = command("serve", "--listen", f"{tmp_path}/socket")

    assert code == 2
    assert "No such option: --listen" in complaint
    assert not (tmp_path / "socket").exists()


def test_the_grace_of_a_restart_is_set_and_outlives_a_reset(command):
    fifteen = (0, "Restarted containers keep their GPUs for 15 seconds\n", "")
    none = (0, "Restarted containers keep no GPUs\n", "")

    assert command("grace") == fifteen
    assert command("grace", "0")[0] == 11
    command("enable")
    assert command("grace", "0") == none
    command("reset")
    assert command("grace") == none
    command("disable")
    assert command("grace") == none
    assert command("grace", "3601")[0] == 2


def test_pods_share_exclusive_gpus_where_that_is_set_and_it_outlives_a_reset(command):
    to_container = (0, "An exclusive GPU belongs to one container\n", "")
    to_pod = (0, "An exclusive GPU belongs to one pod\n", "")

    assert command("holder") == to_container
    assert command("holder", "pod")[0] == 11
    command("enable")
    assert command("holder", "pod") == to_pod
    command("reset")
    command("disable")
    assert command("holder") == to_pod
    command("enable")
    assert command("holder", "container") == to_container
    assert command("holder", "namespace")[0] == 2


def test_a_user_is_ignored_and_no_longer(command):
    assert command("ignore") == (0, "No user is ignored\n", "")
    assert command("ignore", "1000") == (0, "User 1000 is now ignored\n", "")
    assert command("ignore", "1000") == (0, "User 1000 is already ignored\n", "")
    assert command("ignore", "0") == (0, "User 0 is now ignored\n", "")
    assert command("ignore") == (0, "Users [0 1000] are ignored\n", "")
    assert command("ignore", "1000", "--undo") == (0, "User 1000 is no longer ignored\n", "")
    assert command("ignore", "1000", "--undo") == (0, "User 1000 is not ignored\n", "")
    assert command("ignore", "--undo") == (
        1,
        "",
        "Error: Missing arguments. Usage: gpu-tracker ignore <uid> --undo\n",
    )


@pytest.mark.parametrize("words", ["--help", "--version", "status", "status --json", "enable"])
def test_output_to_a_full_disk_is_a_failure_without_a_trace(untracked, words):
    environment = {**ENVIRONMENT, "AMD_CTK_HOST_ROOT": untracked.host.root}
    with open("/dev/full", "w", encoding="utf-8") as full:
        answer = subprocess.run(
            [PROGRAM, *words.split()], env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    said = "the output cannot be written: the disk is full"
    assert (answer.returncode, answer.stderr.splitlines()[-1], "Traceback" in answer.stderr) == (1, said, False)


def test_sentences_beside_an_answer_may_be_lost(untracked):
    environment = {**ENVIRONMENT, "AMD_CTK_HOST_ROOT": untracked.host.root}
    with open("/dev/full", "w", encoding="utf-8") as full:
        answer = subprocess.run(
            [PROGRAM, "enable"], env=environment, stdout=subprocess.PIPE, stderr=full, text=True, check=False
        )

    assert (answer.returncode, answer.stdout) == (0, "GPU Tracker has been enabled\n")
    assert untracked.tracker.is_enabled()


@pytest.mark.parametrize("uid", ["-1", "4294967295", "alice", "9" * 5000])
def test_a_word_that_is_no_number_of_a_user_is_not_ignored(command, uid):
    code, shown, complaint = command("ignore", "--", uid)

    assert (code, shown) == (2, "")
    # Versions of Typer write the name in small letters, or as it is in the help, where brackets make it optional.
    assert "error: invalid value for 'uid': " in complaint.lower().replace("[uid]", "uid")


def test_json_says_everything(command, sleeper):
    command("enable")
    before = time.time()
    sleeper("c1", "0")

    document = json.loads(command("status", "--json")[1])

    since = document["gpus"][0]["containers"][0].pop("since")
    assert before <= since <= time.time()
    assert document["enabled"] is True
    assert document["problems"] == []
    assert document["gpus"][0] == {
        "number": 0,
        "uuid": "0xEA35F57CC80DEB35",
        "pci_address": "0000:03:00.0",
        "key": "0000:03:00.0/0",
        "accessibility": "shared",
        "containers": [
            {
                "container_id": "c1",
                "root": "",
                "bundle": "",
                "ways": ["api"],
                "kinds": [],
                "vram_mb": 0,
                "user": None,
                "person": None,
                "job": "c1",
                "until": None,
                "idle_since": None,
                "preemptible_at": None,
                "name": None,
            }
        ],
        "has_unreadable": False,
        "tracked_number": None,
        "drained": None,
        "sick": "",
        "dirty": "",
    }
    assert document["lost"] == []


def test_the_wide_table_says_since_when_and_how(command, sleeper):
    command("enable")
    sleeper(FIRST, "0")

    lines = command("status", "--wide")[1].splitlines()

    assert lines[0] == lines[2] == "-" * 183
    assert lines[1].split() == ["GPU", "Id", "UUID", "Accessibility", "Container", "Ids", "Name", "Since", "By"]
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert lines[3].split()[:6] == ["0", "0xEA35F57CC80DEB35", "Shared", FIRST, "-", today]
    assert lines[3].endswith(" api")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("--watch", "--no-trunc"),
    ],
)
def test_options_of_which_one_would_be_unused_are_refused(command, first, second):
    assert command("status", second, first) == (
        2,
        "",
        f"{first} and {second} exclude each other (leave out one of them)\n",
    )


def test_watching_shows_each_change(untracked, command):
    watching = subprocess.Popen(
        [sys.executable, "-c", "from amd_gpu_tracker.cli import main; main()", "status", "--watch"],
        env={**os.environ, "AMD_CTK_HOST_ROOT": untracked.host.root},
        stdout=subprocess.PIPE,
        text=True,
        # A shell's background ignores it, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one thread
    )
    try:
        assert watching.stdout.readline() == "GPU Tracker is disabled\n"
        command("enable")
        assert "".join(watching.stdout.readline() for _ in range(7)) == EMPTY_TABLE
    finally:
        watching.send_signal(2)
        assert watching.wait(60) == 0
        watching.stdout.close()


def test_a_gpu_of_a_rootless_container_is_not_made_exclusive(command, sleeper, untracked):
    command("enable")
    sleeper("a", "1-2")
    leases = untracked.host.path("/run/user/1000/amd-container-toolkit/leases")
    shutil.move(untracked.state.leases_directory, leases)

    assert command("0,1", "exclusive") == (
        11,
        (
            "GPUs [0] have been made exclusive\n"
            "GPUs [1] have not been made exclusive because a rootless container is using it\n"
        ),
        "",
    )


def test_a_terminal_is_not_told_what_to_do_by_names_of_containers(command, sleeper):
    command("enable")
    command("0", "exclusive")
    sleeper("clear\x1b[2J", "0")
    with pytest.raises(Exception, match="exclusive and already in use"):
        sleeper("title\x1b]0;x\x07", "0")

    assert command("status")[1].splitlines()[3].endswith(" clear?[2J")
    refusal = command("refused")[1].splitlines()
    assert refusal[0].endswith(" container title?]0;x? by api")
    assert refusal[2] == "    GPU 0 is in use by job clear?[2J"


def test_refusals_are_shown_with_their_words(command, sleeper, untracked):
    command("enable")
    command("0", "exclusive")
    sleeper("first", "0")
    assert command("refused") == (0, "No container has been refused since the last boot\n", "")
    with pytest.raises(Exception, match="exclusive and already in use"):
        sleeper("second", "0,1")

    shown = command("refused")[1].splitlines()

    assert shown[0].endswith(" container second by api")
    assert shown[1:] == [
        "    GPUs [0] are exclusive and already in use",
        "    GPU 0 is in use by job first",
    ]
    assert [entry["container_id"] for entry in json.loads(command("refused", "--json")[1])] == ["second"]


def test_problems_go_to_stderr_beside_the_table(command, untracked):
    command("enable")
    path = untracked.state.lease_path(("", "c1"))
    with open(path, "w") as file:
        file.write("{")

    code, shown, complaint = command("status")

    assert (code, shown) == (0, EMPTY_TABLE.replace("  -\n", "  ?\n"))
    assert complaint.startswith(f"the lease {path} cannot be understood: ")


def test_a_container_that_reaches_every_gpu_is_named_beside_the_table(command, untracked):
    command("enable")
    untracked.state.write_lease(living_lease("c1\x1b", is_privileged=True))
    untracked.state.write_lease(living_lease("c2", is_privileged=False))

    assert command("status") == (
        0,
        EMPTY_TABLE,
        "container c1? is privileged: it can reach all GPUs, exclusive ones too\n",
    )
    document = json.loads(command("status", "--json")[1])
    assert [use["container_id"] for use in document["privileged"]] == ["c1\x1b"]


def living_lease(container_id, **fields):
    """Return the lease of a container that this process keeps alive, without GPUs."""
    from amd_gpu_tracker.book.lease import Lease

    processes = Processes()
    return Lease(
        container_id=container_id,
        creator=processes.myself(),
        gpus=(),
        ways=(),
        since=1.0,
        boot_offset=0.0,
        boot_id=processes.boot_id,
        namespace=processes.namespace,
        **fields,
    )


def test_release_names_the_gpus_of_containers_that_have_ended(command, sleeper):
    command("enable")
    process = sleeper("c1", "0,2")

    assert command("release", "c1") == (9, "", "container c1 is still running (stop it first)\n")
    process.kill()
    process.wait()
    assert command("release", "c1") == (0, "", "Released GPUs [0 2] used by container c1\n")
    assert command("release", "c1") == (0, "", "Released GPUs [] used by container c1\n")


def test_init_is_silent_and_wipes_nothing(command):
    assert command("init") == (0, "", "")
    command("enable")
    command("0", "exclusive")

    assert command("init") == (0, "", "")
    assert "Exclusive" in command("status")[1]


def test_an_installation_on_top_of_broken_state_names_it(command, untracked):
    path = untracked.host.path("/var/log/gpu-tracker.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write('{"enabled":tr')

    sentence = (
        f"the state of AMD's toolkit 1.x in {path} cannot be converted, so GPUs are refused: Expecting value:"
        " line 1 column 12 (char 11) (make them available again with 'sudo amd-ctk gpu-tracker reset')\n"
    )
    assert command("init") == (5, "", sentence)
    assert command("status") == (1, "", "GPUs info is invalid. Please reset GPU Tracker.\n")
    assert command("init") == (0, "", "")


def test_the_cdi_spec_must_be_brought_in_step(command, untracked):
    os.makedirs(untracked.host.path("/etc/cdi"))
    with open(untracked.host.path("/etc/cdi/amd.json"), "w") as file:
        file.write("{}")

    assert command("enable") == (
        0,
        "GPU Tracker has been enabled\n",
        "Run 'sudo amd-ctk cdi refresh' to update the CDI spec\n",
    )
    assert command("enable")[2] == ""


def test_a_host_that_is_no_directory_is_reported(command):
    code, shown, complaint = command("--host-root", "/nowhere", "status")

    assert (code, shown) == (1, "")
    assert complaint.startswith("AMD_CTK_HOST_ROOT=/nowhere is not a directory")


def others_may_run(program):
    try:
        return subprocess.run([program, "-c", "import amd_gpu_tracker"], user=65534, check=False).returncode == 0
    except PermissionError:
        return False


@pytest.fixture
def seen_by_others(untracked):
    """Let other users look at the simulated host."""
    if not others_may_run(sys.executable):
        pytest.skip("this python lies where only root may look")
    for directory in (*untracked.directory.parents, untracked.directory, untracked.host.root):
        if str(directory).startswith(f"{tempfile.gettempdir()}/"):
            os.chmod(directory, 0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.usefixtures("seen_by_others")
def test_a_change_of_nothing_needs_no_root(command):
    assert command("disable", user=65534) == (0, "GPU Tracker is already disabled\n", "")
    command("enable")
    assert command("enable", user=65534) == (0, "GPU Tracker is already enabled\n", "")
    assert command("undrain", "all", user=65534) == (0, "None of these GPUs was drained\n", "")
    assert command("ignore", "1000", "--undo", user=65534) == (0, "User 1000 is not ignored\n", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.usefixtures("seen_by_others")
@pytest.mark.parametrize("words", [["disable"], ["reset"], ["0", "exclusive"], ["drain", "0"], ["ignore", "1000"]])
def test_a_user_without_root_reads_what_a_change_needs(command, words):
    command("enable")

    answer = command(*words, user=65534)

    assert answer == (3, "", "changing the GPU Tracker needs root (run the command with sudo)\n")
    assert command("status", user=65534) == (0, EMPTY_TABLE, "")


def test_a_drain_ends_when_its_words_say(command, untracked):
    command("enable")

    drained = "GPUs [0] are drained until 2999-01-01 08:00:00\n"
    assert command("drain", "0", "--until", "2999-01-01 08:00")[:2] == (0, drained)
    assert "GPU 0 is drained: until 2999-01-01 08:00:00\n" in command("status")[2]
    command("drain", "1", "--for", "8")
    command("drain", "2", "--for=30m")
    command("drain", "3")

    before, ends = time.time(), [drain.until for drain in read_drains(untracked.host)]
    assert time.strftime("%Y-%m-%d %H:%M", time.gmtime(ends[0])) == "2999-01-01 08:00"
    assert [round((end - before) / 600) for end in ends[1:3]] == [48, 3]
    assert ends[3] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--until", "soon"),
            "'soon' is not a time (write Mon, Mon 08:00, 18:00, 2026-12-01 or '2026-12-01 08:00')\n",
        ),
        (("--for", "soon"), "'soon' is not a time to wait (write 30s, 10m or 2h)\n"),
        (("--for", "0"), "Error: --for must be longer than 0\n"),
        (("--for", "999999999d"), "999999999d is longer than 36500 days (write 30m, 4h or 2d)\n"),
        (("--until", "Mon", "--for", "8"), "Error: --until and --for both set the end. Give one of them\n"),
    ],
)
def test_a_drain_whose_end_means_nothing_drains_nothing(command, untracked, words, said):
    command("enable")

    code, printed, complaint = command("drain", "0", *words)

    assert (code != 0, printed, complaint, read_drains(untracked.host)) == (True, "", said, ())


@pytest.mark.parametrize("words", [["drain"], ["drain", "--dry-run"], ["undrain"], ["undrain", "--dry-run"]])
@pytest.mark.parametrize("request_", ["none", ""])
def test_a_drain_of_no_gpu_is_refused(command, words, request_):
    command("enable")

    assert command(*words, request_) == (4, "", "the request names no GPU (name GPUs, as in 0-2, or all)\n")


def test_a_wait_for_a_drained_gpu_continues_while_another_is_lost(machine, monkeypatch):
    machine.tracker.reserve("2", name="job", pid=os.getpid())
    looks = []

    def time_goes_on(_: float) -> None:
        """Lose the GPU before, so that the drained one has another number; two looks later the job ends."""
        looks.append([gpu.number for gpu in machine.tracker.status().gpus if gpu.containers])
        if len(looks) == 1:
            machine.lose(1)
        if len(looks) == 3:
            machine.tracker.release("job")

    monkeypatch.setenv("AMD_CTK_HOST_ROOT", machine.host.root)
    monkeypatch.setattr(sys, "argv", ["amd-gpu-tracker", "drain", "2", "--wait"])
    monkeypatch.setattr("amd_gpu_tracker.cli.drain.time.sleep", time_goes_on)
    monkeypatch.setattr("amd_gpu_tracker.face.tracker.Processes", lambda: machine.processes)

    with pytest.raises(SystemExit) as ended:
        run_command_line()

    assert (ended.value.code, looks) == (0, [[2], [1], [1]])
