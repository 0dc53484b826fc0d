"""A dry run prints what a command would change and changes no byte; a command that has nothing to change says so."""

from __future__ import annotations

import os
import stat

import pytest

from amd_gpu_tracker import Tracker
from support.enabled_tracker import enable

CONFIG = "/etc/amd-container-toolkit/config.toml"
UP_TO_DATE = f"The config file is up to date: {CONFIG}\n"
CHANGED = "Nothing changed\n"
WOULD_CHANGE = "Nothing would change\n"
NEW_CONFIG = """\
--- /etc/amd-container-toolkit/config.toml
+++ /etc/amd-container-toolkit/config.toml
@@ -0,0 +1,2 @@
+# Settings of the container toolkit for AMD GPUs; 'amd-ctk config show' lists them all.
+{line}
"""
# A command; what its dry run prints at first, "..." for the rest of a long one; what the dry run prints once it is
# done; how the output ends when the command is repeated.
COMMANDS = {
    "gpu-tracker 0-1 exclusive": ("GPUs [0 1] would be made exclusive\n", WOULD_CHANGE, CHANGED),
    "gpu-tracker drain 2 --reason fans": ("GPUs [2] would be drained\n", WOULD_CHANGE, CHANGED),
    "config set unknown-gpus ignore": (NEW_CONFIG.format(line='unknown-gpus = "ignore"'), UP_TO_DATE, UP_TO_DATE),
    "users allow daemon --gpus=2": (NEW_CONFIG.format(line='users = ["daemon=1:gpus=2"]'), UP_TO_DATE, UP_TO_DATE),
    "users require-reservation on": ("Containers would get only reserved GPUs\n", WOULD_CHANGE, CHANGED),
    "config set restart-grace 30": (
        "Restarted containers would keep their GPUs for 30 seconds\n",
        WOULD_CHANGE,
        CHANGED,
    ),
    "config set exclusive-holder pod": ("An exclusive GPU would belong to one pod\n", WOULD_CHANGE, CHANGED),
    "config set ignored-users 1001": ("Users [1001] would be ignored\n", WOULD_CHANGE, CHANGED),
    "cdi generate": (
        "--- /etc/cdi/amd.json\n+++ /etc/cdi/amd.json\n@@ -0,0 +1,...",
        "CDI spec is up to date: /etc/cdi/amd.json\n",
        "Nothing changed: CDI spec is up to date\n",
    ),
    "report enable --readers everyone": (
        "Would record every 30 seconds how busy GPUs are\n",
        WOULD_CHANGE,
        CHANGED,
    ),
}
# A command that undoes, the one that is done before, and as above.
UNDOING = {
    "gpu-tracker 0-1 shared": (
        "gpu-tracker 0-1 exclusive",
        "GPUs [0 1] would be made shared\n",
        WOULD_CHANGE,
        CHANGED,
    ),
    "gpu-tracker undrain all": (
        "gpu-tracker drain 2",
        "GPUs [2] would be given out again\n",
        WOULD_CHANGE,
        "None of these GPUs was drained\n",
    ),
    "config unset ignored-users": (
        "config set ignored-users 1001",
        "No users would be ignored\n",
        WOULD_CHANGE,
        CHANGED,
    ),
    "config unset unknown-gpus": (
        "config set unknown-gpus ignore",
        "--- /etc/amd-container-toolkit/config.toml\n+++ ...",
        UP_TO_DATE,
        UP_TO_DATE,
    ),
    "users deny daemon": (
        "users allow daemon",
        "--- /etc/amd-container-toolkit/config.toml\n+++ ...",
        "there is no rule for daemon (see 'amd-ctk users list')\n",
        "there is no rule for daemon (see 'amd-ctk users list')\n",
    ),
    "users deny --all": (
        "users allow daemon",
        "--- /etc/amd-container-toolkit/config.toml\n+++ ...",
        UP_TO_DATE,
        UP_TO_DATE,
    ),
    "users require-reservation off": (
        "users require-reservation on",
        "Containers would get the GPUs that they ask for\n",
        WOULD_CHANGE,
        CHANGED,
    ),
    "report disable --history": (
        "report enable",
        "Would stop recording reservations\n",
        WOULD_CHANGE,
        CHANGED,
    ),
}


@pytest.fixture
def served(host):
    built = host()
    enable(built)
    return built


def take_tree(served):
    """Return all that can be known of each file of a host, other than when it was read."""
    tree = {}
    for directory, names, files in os.walk(served.root):
        for path in (os.path.join(directory, name) for name in (*names, *files)):
            status = os.lstat(path)
            content = b""
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            tree[path] = (status.st_mode, status.st_uid, status.st_gid, status.st_ino, status.st_mtime_ns, content)
    return tree


def matches(printed, expected):
    return printed.startswith(expected[:-3]) if expected.endswith("...") else printed == expected


def dry_run(amd_ctk, served, command):
    before = take_tree(served)
    answer = amd_ctk(*command.split(), "--dry-run")
    assert take_tree(served) == before
    assert answer.returncode == 0
    return answer.stdout + answer.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dry_run_prints_the_change_and_changes_no_byte(served, amd_ctk, command):
    first, then, _ = COMMANDS[command]

    assert matches(dry_run(amd_ctk, served, command), first)
    assert amd_ctk(*command.split()).returncode == 0
    assert matches(dry_run(amd_ctk, served, command), then)


@pytest.mark.parametrize("command", UNDOING)
def test_a_dry_run_of_undoing_prints_the_change_and_changes_no_byte(served, amd_ctk, command):
    before, first, then, _ = UNDOING[command]
    amd_ctk(*before.split())

    assert matches(dry_run(amd_ctk, served, command), first)
    assert amd_ctk(*command.split()).returncode == 0
    assert matches(dry_run(amd_ctk, served, command), then)


@pytest.mark.parametrize("command", [*COMMANDS, *UNDOING])
def test_a_repeated_command_says_that_nothing_changed_and_succeeds(served, amd_ctk, command):
    repeated = (COMMANDS | UNDOING)[command][-1]
    if command in UNDOING:
        amd_ctk(*UNDOING[command][0].split())

    first = amd_ctk(*command.split())
    again = amd_ctk(*command.split())

    assert repeated not in first.stdout + first.stderr
    assert again.returncode == 0
    assert (again.stdout + again.stderr).endswith(repeated)


def test_only_gpus_that_would_change_are_named(served, amd_ctk):
    amd_ctk("gpu-tracker", "0", "exclusive")
    Tracker(served).reserve("2", name="first")
    Tracker(served).reserve("2", name="second")

    answer = amd_ctk("gpu-tracker", "all,9", "exclusive", "--dry-run")

    assert answer.returncode == 11
    assert answer.stdout == (
        "GPUs [1 3] would be made exclusive\n"
        "GPUs [2] would not be made exclusive because more than one container is currently using it\n"
        "Ignoring [9] GPUs as they are invalid\n"
    )


def test_a_drain_for_another_reason_is_a_change(served, amd_ctk):
    amd_ctk("gpu-tracker", "drain", "2", "--reason", "fans")

    assert dry_run(amd_ctk, served, "gpu-tracker drain 1-2 --reason cable") == "GPUs [1 2] would be drained\n"
    assert dry_run(amd_ctk, served, "gpu-tracker drain 1-2 --reason fans") == "GPUs [1] would be drained\n"


def test_a_dry_run_refuses_what_the_command_would_refuse(served, amd_ctk):
    answers = [
        amd_ctk("config", "set", "gpu-access", "reserved", "--dry-run"),
        amd_ctk("cdi", "generate", "--output=/sys", "--dry-run"),
        amd_ctk("gpu-tracker", "drain", "9", "--dry-run"),
        amd_ctk("users", "deny", "no-such-user", "--dry-run"),
    ]

    assert all(answer.returncode for answer in answers)
    assert not any(answer.stdout for answer in answers)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give nodes away")
def test_a_dry_run_names_the_nodes_that_would_be_closed_and_opened(served, amd_ctk):
    os.makedirs(f"{served.root}/run/systemd/system")
    amd_ctk("users", "allow", "daemon")

    nodes = (
        "/dev/kfd, /dev/dri/card1, /dev/dri/card2, /dev/dri/card3, /dev/dri/card4, "
        "/dev/dri/renderD128, /dev/dri/renderD129, /dev/dri/renderD130, /dev/dri/renderD131"
    )
    closing = dry_run(amd_ctk, served, "config set gpu-access reserved")
    amd_ctk("config", "set", "gpu-access", "reserved")
    again = dry_run(amd_ctk, served, "config set gpu-access reserved")
    os.chmod(f"{served.root}/dev/kfd", 0o666)
    reopened = dry_run(amd_ctk, served, "config set gpu-access reserved")
    opening = dry_run(amd_ctk, served, "config unset gpu-access")
    denying = dry_run(amd_ctk, served, "users deny --all")

    assert closing.splitlines()[-1] == f"{nodes} would be closed to users who have not reserved them"
    assert again == UP_TO_DATE
    assert reopened == f"{UP_TO_DATE}{nodes} would be closed to users who have not reserved them\n"
    assert opening.splitlines()[-1] == f"{nodes} would be open to their groups again"
    assert denying.splitlines()[-1] == f"{nodes} would be open to their groups again"


def test_a_dry_run_shows_what_changes_in_a_spec(served, amd_ctk):
    amd_ctk("cdi", "generate")

    shown = dry_run(amd_ctk, served, "cdi generate --gpus=0-1")

    removed, added = ("".join(line for line in shown.splitlines() if line.startswith(sign)) for sign in "-+")
    assert '"name": "2"' in removed
    assert '"name": "2"' not in added
