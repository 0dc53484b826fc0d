"""Who keeps leases where: root and users, in system containers and in the namespaces of rootless engines."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from amd_gpu_tracker.book import rootless
from amd_gpu_tracker.book.rootless import find_user_directory, outer_uid
from amd_gpu_tracker.book.state import open_state
from amdgpu_discovery.host import Host

IDENTITY = "         0          0 4294967295\n"
ROOTLESS = "         0       1000          1\n         1     100000      65536\n"
SYSTEM_CONTAINER = "         0     100000      65536\n"
# The kernel's name for every id that is not mapped.
OVERFLOW = 65534
# Of no account on any machine, so that nothing there is this user's.
UNPRIVILEGED = 60123
# Who asks, and where its leases are.
ASK = """
import os
from amd_gpu_tracker.book.state import open_state
from amdgpu_discovery.host import Host
print(open_state(Host("/"), os.environ).run_directory)
"""
# The same as the root of a new user namespace of the user whose number is given. Modules come first: the directories of
# root are closed to that user. The kernel lets only a dumpable process write its own uid map.
ASK_IN_A_NAMESPACE_OF_A_USER = """
import ctypes, os, sys
from amd_gpu_tracker.book.state import open_state
from amdgpu_discovery.host import Host
uid = int(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
CLONE_NEWUSER, PR_SET_DUMPABLE = 0x10000000, 4
libc = ctypes.CDLL(None)
assert libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 and libc.unshare(CLONE_NEWUSER) == 0
with open("/proc/self/uid_map", "w") as uid_map:
    uid_map.write(f"0 {uid} 1")
print(open_state(Host("/"), {"XDG_RUNTIME_DIR": "."}).run_directory)
"""
# Everything of this machine below a root directory that belongs to the root of the namespace, as in LXC.
OWN_ROOT_DIRECTORY = """
mount -t tmpfs none "$0" && for name in /*; do
    test -d "$name" && mkdir "$0$name" && mount --rbind "$name" "$0$name"
done
exec chroot "$0" "$@"
"""


@pytest.fixture
def become(monkeypatch):
    """Return a function that makes this process somebody with a uid map, for whom `/` has an owner."""

    def become_somebody(uid_map, *, uid=0, owner_of_root_directory=0):
        monkeypatch.setattr(rootless, "_read_uid_map", lambda: uid_map)
        monkeypatch.setattr(rootless, "_owner_of_root_directory", lambda: owner_of_root_directory)
        monkeypatch.setattr("posix.geteuid", lambda: uid)

    return become_somebody


@pytest.mark.parametrize(("uid", "outer"), [(0, 1000), (5, 100004), (99999, None)])
def test_a_uid_map_tells_who_one_is_outside(uid, outer):
    assert outer_uid(ROOTLESS, uid) == outer


@pytest.mark.parametrize(
    ("uid_map", "uid", "owner", "user"),
    [
        (IDENTITY, 0, 0, None),
        (IDENTITY, 1000, 0, 1000),
        # A machine whose root directory was given away is still root's.
        (IDENTITY, 0, 1000, None),
        (ROOTLESS, 0, OVERFLOW, 1000),
        (SYSTEM_CONTAINER, 0, 0, None),
        # A user of a system container has the number there, not the one outside.
        (SYSTEM_CONTAINER, 1000, 0, 1000),
    ],
)
def test_the_user_of_a_namespace_is_found_for_the_tracker(become, uid_map, uid, owner, user):
    become(uid_map, uid=uid, owner_of_root_directory=owner)

    assert rootless.find_user() == user


def test_a_rootless_run_keeps_its_leases_with_the_user(become, tmp_path):
    become(ROOTLESS, uid=os.geteuid(), owner_of_root_directory=OVERFLOW)

    assert find_user_directory({"XDG_RUNTIME_DIR": str(tmp_path)}) == f"{tmp_path}/amd-container-toolkit"
    assert open_state(Host("/"), {"XDG_RUNTIME_DIR": str(tmp_path)}).is_rootless


def test_the_directory_that_root_knows_comes_before_the_one_that_the_environment_names(become, tmp_path, monkeypatch):
    known, named = tmp_path / "1000", tmp_path / "named"
    known.mkdir()
    named.mkdir()
    monkeypatch.setattr(rootless, "USER_DIRECTORIES", str(tmp_path))
    become(f"{os.geteuid()} 1000 1", uid=os.geteuid(), owner_of_root_directory=OVERFLOW)

    assert find_user_directory({"XDG_RUNTIME_DIR": str(named)}) == f"{known}/amd-container-toolkit"
    assert find_user_directory({}) == f"{known}/amd-container-toolkit"


def test_a_runtime_directory_of_somebody_else_is_not_used(become, tmp_path):
    become(IDENTITY, uid=os.geteuid() + 1)

    assert find_user_directory({"XDG_RUNTIME_DIR": str(tmp_path)}) == ""


@pytest.mark.parametrize("uid_map", [IDENTITY, SYSTEM_CONTAINER])
@pytest.mark.parametrize("with_directory", [True, False])
def test_root_is_root_whatever_its_environment_says(become, tmp_path, uid_map, with_directory):
    become(uid_map)

    environment = {"XDG_RUNTIME_DIR": str(tmp_path)} if with_directory else {}

    assert find_user_directory(environment) == ""
    assert open_state(Host("/"), environment).run_directory == "/run/amd-container-toolkit"


def test_a_simulated_host_is_served_alike_to_everybody(become, tmp_path):
    become(ROOTLESS, owner_of_root_directory=OVERFLOW)

    state = open_state(Host(tmp_path), {"XDG_RUNTIME_DIR": str(tmp_path)})

    assert state.run_directory == f"{tmp_path}/run/amd-container-toolkit"


def run(*words, cwd=None, **environment):
    environment = {"PATH": os.environ["PATH"], **environment}
    answer = subprocess.run(words, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def user_namespace():
    """Return the words that run a program as the root of a new user namespace."""
    words = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private")
    answer = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if answer.returncode:
        pytest.skip(f"no user namespace can be made here: {answer.stderr.strip()}")
    return words


def test_root_of_a_real_system_container_is_root_with_and_without_a_runtime_directory(user_namespace, tmp_path):
    container = (*user_namespace, "sh", "-c", OWN_ROOT_DIRECTORY, "/mnt", sys.executable, "-c", ASK)

    assert run(*container) == "/run/amd-container-toolkit\n"
    assert run(*container, XDG_RUNTIME_DIR=str(tmp_path)) == "/run/amd-container-toolkit\n"


def test_root_of_a_real_rootless_namespace_is_its_user(user_namespace, tmp_path):
    uid = os.geteuid() or UNPRIVILEGED
    os.chown(tmp_path, uid, -1)

    answer = run(sys.executable, "-c", ASK_IN_A_NAMESPACE_OF_A_USER, str(uid), cwd=tmp_path)

    assert answer in ("./amd-container-toolkit\n", f"/run/user/{uid}/amd-container-toolkit\n")
