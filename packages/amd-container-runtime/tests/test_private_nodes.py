"""Nodes for containers with a user namespace of their own: who can get at them, and that they are always right."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from amd_container_runtime.private_nodes import make_private_nodes
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.gpu import DeviceNode
from amdgpu_discovery.host import Host

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")

RENDER = DeviceNode(path="/dev/dri/renderD128", major=226, minor=128, mode=0o660, uid=0, gid=110)
KFD = DeviceNode(path="/dev/kfd", major=234, minor=0, mode=0o660, uid=0, gid=110)
REFUSED = " is not a directory of mode 0700 that belongs to root (remove it; the next container with a user namespace"


@pytest.fixture
def host(tmp_path):
    (tmp_path / "dev/dri").mkdir(parents=True)
    return Host(tmp_path)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "dev/amd-container-toolkit"


def seen(path):
    found = path.lstat()
    numbers = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    return stat.filemode(found.st_mode), numbers, found.st_uid, found.st_gid


def test_each_node_has_one_of_its_number_that_all_may_open_and_no_container_owns(host, directory):
    sources = make_private_nodes(host, [RENDER, KFD])

    assert sources == {"/dev/dri/renderD128": f"{directory}/226:128", "/dev/kfd": f"{directory}/234:0"}
    assert seen(directory / "226:128") == ("crw-rw-rw-", "226:128", 4294967294, 0)
    assert seen(directory / "234:0") == ("crw-rw-rw-", "234:0", 4294967294, 0)


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_only_root_may_enter_the_directory_whatever_the_umask(host, directory, umask):
    before = os.umask(umask)
    make_private_nodes(host, [KFD])
    os.umask(before)

    assert stat.filemode(directory.stat().st_mode) == "drwx------"
    assert seen(directory / "234:0")[0] == "crw-rw-rw-"


def test_nodes_are_made_once_in_a_boot(host, directory):
    make_private_nodes(host, [RENDER, KFD])
    first = (directory / "234:0").stat().st_ino

    make_private_nodes(host, [KFD])

    assert (directory / "234:0").stat().st_ino == first
    assert sorted(os.listdir(directory)) == ["226:128", "234:0"]


def test_a_path_with_another_number_gets_another_node(host, directory):
    make_private_nodes(host, [RENDER])
    after_a_repartition = DeviceNode(path="/dev/dri/renderD128", major=226, minor=130, mode=0o660, uid=0, gid=110)

    sources = make_private_nodes(host, [after_a_repartition])

    assert sources == {"/dev/dri/renderD128": f"{directory}/226:130"}
    assert seen(directory / "226:130")[1] == "226:130"
    assert seen(directory / "226:128")[1] == "226:128"


def closed(path):
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(234, 0))


def of_another_number(path):
    os.mknod(path, stat.S_IFCHR, os.makedev(1, 3))
    path.chmod(0o666)
    os.chown(path, 4294967294, 0)


def of_a_container(path):
    os.mknod(path, stat.S_IFCHR, os.makedev(234, 0))
    path.chmod(0o666)
    os.chown(path, 100000, 100000)


def plain(path):
    path.touch()


def link(path):
    path.symlink_to("/dev/null")


@pytest.mark.parametrize("make_other", [closed, of_another_number, of_a_container, plain, link])
def test_a_file_in_place_of_a_private_node_is_replaced(host, directory, make_other):
    directory.mkdir(mode=0o700)
    make_other(directory / "234:0")

    make_private_nodes(host, [KFD])

    assert seen(directory / "234:0") == ("crw-rw-rw-", "234:0", 4294967294, 0)
    assert stat.filemode(os.stat("/dev/null").st_mode) == "crw-rw-rw-"


def test_the_leftover_of_a_killed_process_does_not_stop_the_next_one(host, directory):
    directory.mkdir(mode=0o700)
    (directory / f"234:0.{os.getpid()}.tmp").touch()

    make_private_nodes(host, [KFD])

    assert os.listdir(directory) == ["234:0"]


def of_a_user(directory, _):
    directory.mkdir(mode=0o700)
    os.chown(directory, 1000, 1000)


def open_to_all(directory, _):
    directory.mkdir()
    directory.chmod(0o755)


def elsewhere(directory, tmp_path):
    (tmp_path / "theirs").mkdir(mode=0o700)
    directory.symlink_to(tmp_path / "theirs")


def no_directory(directory, _):
    directory.touch(mode=0o700)


@pytest.mark.parametrize("make_other", [of_a_user, open_to_all, elsewhere, no_directory])
def test_a_directory_that_somebody_else_could_enter_or_change_is_refused(host, directory, tmp_path, make_other):
    make_other(directory, tmp_path)

    with pytest.raises(FileError) as refusal:
        make_private_nodes(host, [KFD])

    assert str(refusal.value).startswith(f"{directory}{REFUSED}")
    assert list(tmp_path.rglob("234:0")) == []


def test_a_directory_in_the_place_of_a_node_is_reported(host, directory):
    (directory / "234:0").mkdir(parents=True)
    directory.chmod(0o700)

    with pytest.raises(FileError) as refusal:
        make_private_nodes(host, [KFD])

    assert str(refusal.value) == f"no device nodes can be made in {directory}: it is a directory"
    assert os.listdir(directory) == ["234:0"]


def test_the_label_of_the_hosts_node_comes_along(host, directory, tmp_path):
    (tmp_path / "dev/kfd").touch()
    label = b"system_u:object_r:hsa_device_t:s0"
    os.setxattr(tmp_path / "dev/kfd", "security.selinux", label)

    make_private_nodes(host, [KFD])

    assert os.getxattr(directory / "234:0", "security.selinux") == label


def make_many(root):
    nodes = [DeviceNode(path=f"/dev/{minor}", major=226, minor=minor, mode=0o660, uid=0, gid=0) for minor in range(128)]
    return make_private_nodes(Host(root), nodes)


def test_containers_that_start_at_once_get_the_same_nodes(host, directory):
    # Other ways to start a process, as Python 3.14 prefers, do not find this module.
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as starts:
        answers = list(starts.map(make_many, [host.root] * 16))

    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]) == 128
    assert {seen(directory / str(f"226:{minor}")) for minor in range(128)} == {
        ("crw-rw-rw-", f"226:{minor}", 4294967294, 0) for minor in range(128)
    }
    assert len(os.listdir(directory)) == 128
