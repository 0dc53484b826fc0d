"""In a user namespace nodes are often the host's, and open to whom the host's mode opens them."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from shutil import rmtree

import pytest

from amd_ctk.engines.engine_answers import EngineInfo
from amd_ctk.explain import engine_view
from amd_ctk.explain.container import Container
from amd_ctk.explain.engine_view import find_runtime
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run
from amd_ctk.explain.text import format_explanation
from amdgpu_discovery.host import Host

AMD = "/usr/bin/amd-container-runtime"
USER, RENDER = 40001, 992
NODES = ("--device=/dev/kfd", "--device=/dev/dri/renderD128")
# Of the user.
FIX = "use crun with --group-add keep-groups"


@pytest.fixture
def closed(host):
    """Return a host whose nodes are closed to all but the group that owns them."""
    made = host()
    for path in ("/dev/kfd", "/dev/dri/renderD128"):
        os.chmod(made.path(path), 0o660)
        if os.geteuid() == 0:
            os.chown(made.path(path), -1, RENDER)
    Path(made.path("/etc/docker")).mkdir(parents=True)
    settings = {"userns-remap": "default", "runtimes": {"amd": {"path": AMD}, "crun": {"path": "/usr/bin/crun"}}}
    Path(made.path("/etc/docker/daemon.json")).write_text(json.dumps(settings))
    return made


@pytest.fixture
def rootless(closed, monkeypatch):
    """Return a function that explains a command of Podman for a user, who is in the nodes' group or not."""
    group = os.stat(closed.path("/dev/kfd")).st_gid

    def explain(*words, is_member=True, is_listed=False):
        monkeypatch.setattr(os, "geteuid", lambda: USER)
        monkeypatch.setattr(os, "getuid", lambda: USER)
        monkeypatch.setattr(os, "getgid", lambda: USER)
        monkeypatch.setattr(os, "getgroups", lambda: [USER, group] if is_member else [USER])
        monkeypatch.setattr(os, "access", lambda *_: is_listed)
        front = [word for word in words if word.startswith("--runtime")]
        behind = [word for word in words if word not in front]
        asked = parse_run(["podman", *front, "run", *NODES, *behind, "rocm"], {"HOME": "/home/u1"})
        return explain_container(asked, closed)

    return explain


def numbers(explanation):
    return [gpu.number for gpu in explanation.usable]


def test_rootless_container_opens_nodes_of_a_group_where_crun_keeps_the_groups(rootless):
    kept, lost = rootless("--group-add=keep-groups"), rootless("--rm")

    assert (numbers(kept), kept.problems) == ([3], ())
    assert (numbers(lost), lost.lacks_gpus) == ([], True)
    assert [problem.partition(": ")[2] for problem in lost.problems] == [FIX]
    assert lost.problems[0].startswith("user 40001 with groups 40001 may not open /dev/kfd, which is 0660 ")


@pytest.mark.parametrize("runtime", ["runc", "/usr/bin/runc"])
def test_runc_keeps_no_groups(rootless, closed, runtime):
    Path(closed.path("/usr/bin")).mkdir(parents=True)
    Path(closed.path("/usr/bin/runc")).touch()

    explanation = rootless(f"--runtime={runtime}", "--group-add=keep-groups")

    assert [problem.partition(": ")[2] for problem in explanation.problems] == [FIX]


@pytest.mark.parametrize(("installed", "found"), [("crun", "crun or runc"), ("runc", "runc")])
def test_without_crun_podman_calls_runc(tmp_path, monkeypatch, installed, found):
    (tmp_path / installed).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engine_view, "_read_runtimes", lambda *_: ([], [], ""))

    view = find_runtime(Container(engine="podman"), Host())

    assert view.problem == f"the container runs under {found}: add --runtime=amd"


def test_user_outside_of_the_group_is_told_to_join_it(rootless, closed):
    explanation = rootless("--group-add=keep-groups", is_member=False)

    group = os.stat(closed.path("/dev/kfd")).st_gid
    assert [problem.partition(": ")[2] for problem in explanation.problems] == [
        f"be in group {group} of this host, and {FIX}"
    ]


def test_user_who_joined_the_group_after_login_is_told_to_log_in_again(rootless, closed, monkeypatch):
    group = os.stat(closed.path("/dev/kfd")).st_gid
    entry = pwd.struct_passwd(("u1", "x", USER, USER, "", "/home/u1", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: entry)
    monkeypatch.setattr(os, "getgrouplist", lambda *_: [USER, group])

    explanation = rootless("--group-add=keep-groups", is_member=False)

    assert [problem.partition(": ")[2] for problem in explanation.problems] == [
        f"log out and in again, because you joined group {group} after you logged in, and {FIX}"
    ]


def test_user_whom_a_list_of_the_node_names_opens_it_without_the_group(rootless):
    assert numbers(rootless("--rm", is_member=False, is_listed=True)) == [3]


def test_root_who_calls_the_docker_of_a_user_is_not_that_user(closed, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    address = {"DOCKER_HOST": "unix:///run/user/1000/docker.sock"}
    docker = EngineInfo(version=(28,), is_rootless=True)

    explanation = explain_container(parse_run(["docker", "run", *NODES, "rocm"], address).replace(info=docker), closed)

    assert explanation.problems[0].startswith("user 0 of a rootless container may not open /dev/kfd, which is 0660 ")
    assert numbers(explanation) == []


def test_list_of_the_node_names_the_caller_and_no_other_user_of_the_container(rootless):
    explanation = rootless("--user=1000", is_member=False, is_listed=True)

    assert numbers(explanation) == []
    assert explanation.problems[0].startswith("user 1000 of a rootless container may not open /dev/kfd, which is 0660 ")
    assert numbers(rootless("--user=1000", "--group-add=keep-groups")) == [3]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("--userns=keep-id", [3]),
        (f"--userns=keep-id --user={USER}:0", [3]),
        ("--userns=keep-id:gid=7,uid=1000 --user=1000", [3]),
        ("--userns=keep-id --user=1000", []),
        ("--userns=keep-id --user=0", []),
    ],
)
def test_with_keep_id_the_caller_has_one_number_inside(rootless, words, found):
    assert numbers(rootless(*words.split(), is_member=False, is_listed=True)) == found


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to root")
@pytest.mark.parametrize(("user", "fix"), [("0", "start it with 'amd-ctk run --'"), ("1000", "leave out --user")])
def test_nodes_of_root_are_open_to_who_reserves_their_gpu(rootless, closed, user, fix):
    os.chown(closed.path("/dev/kfd"), 0, 0)

    explanation = rootless(f"--user={user}", "--group-add=keep-groups", is_member=False)

    assert [problem.partition(": ")[2] for problem in explanation.problems] == [fix]


def test_container_of_a_daemon_that_maps_users_opens_no_node_of_a_group(closed):
    explanation = explain_container(parse_run(["docker", "run", *NODES, "rocm"], {}), closed)

    owner = os.stat(closed.path("/dev/kfd"))
    assert list(explanation.problems) == [
        f"in a user namespace nobody may open /dev/kfd, which is 0660 {owner.st_uid}:{owner.st_gid}: use --runtime=amd"
    ]
    assert explanation.lacks_gpus


@pytest.mark.parametrize("options", [("--userns=host",), ("--runtime=crun",)])
def test_nodes_that_are_made_for_the_container_are_open(closed, options):
    explanation = explain_container(parse_run(["docker", "run", *options, *NODES, "rocm"], {}), closed)

    assert (numbers(explanation), explanation.problems) == ([3], ())


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to a group")
@pytest.mark.parametrize(("more", "usable"), [((), []), (("--group-add=992",), [3])])
def test_crun_makes_nodes_that_open_as_they_do_without_a_user_namespace(closed, more, usable):
    asked = ("--uidmap=0:300000:65536", "--user=1000", *more, *NODES)

    assert numbers(explain_container(parse_run(["podman", "run", *asked, "rocm"], {}), closed)) == usable


@pytest.mark.parametrize("engine", [("docker", "run", "--runtime=amd"), ("podman", f"--runtime={AMD}", "run")])
def test_a_node_that_the_engine_passes_stays_as_it_is_under_the_amd_runtime(closed, engine):
    own_ids = ("--uidmap=0:1000:1",) if engine[0] == "podman" else ()
    asked = (*own_ids, "-eAMD_VISIBLE_DEVICES=0", *NODES)
    explanation = explain_container(parse_run([*engine, *asked, "rocm"], {}), closed)

    assert [problem.partition(": ")[2] for problem in explanation.problems] == ["leave out --device /dev/kfd"]


@pytest.mark.parametrize(
    ("before", "environment"),
    [
        ((), {"DOCKER_HOST": "unix:///run/user/40001/docker.sock"}),
        (("-H", "unix:///tmp/own/docker.sock"), {"XDG_RUNTIME_DIR": "/tmp/own"}),
    ],
)
def test_docker_of_a_user_has_settings_of_its_own_and_keeps_no_groups(closed, monkeypatch, before, environment):
    monkeypatch.setattr(os, "geteuid", lambda: USER)
    monkeypatch.setattr(os, "getuid", lambda: USER)
    monkeypatch.setattr(os, "getgid", lambda: USER)
    monkeypatch.setattr(os, "access", lambda *_: False)
    settings = Path(closed.path("/home/u1/.config/docker/daemon.json"))
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"runtimes": {"mine": {"path": AMD}}}))

    def explain(*words):
        asked = parse_run(["docker", *before, "run", *words, "rocm"], {"HOME": "/home/u1", **environment})
        return explain_container(asked, closed)

    given, asked, amd = explain(*NODES), explain("--runtime=mine", "-eAMD_VISIBLE_DEVICES=0"), explain("--runtime=amd")

    assert [problem.partition(": ")[2] for problem in given.problems] == ['use a udev rule that sets MODE="0666"']
    assert ([gpu.number for gpu in asked.plan.granted.gpus], asked.lacks_gpus) == ([0], True)
    command = "amd-ctk runtime configure --config-path=/home/u1/.config/docker/daemon.json"
    assert [str(refusal) for refusal in amd.plan.refusals] == [
        f"docker has no runtime amd (run '{command}' and 'systemctl --user restart docker')"
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes nodes")
def test_a_privileged_container_shows_the_nodes_that_programs_look_for(host):
    made = host()
    os.makedirs(made.path("/dev/amd-container-toolkit"))
    for minor in (3, 130):
        os.mknod(made.path(f"/dev/amd-container-toolkit/226:{minor}"), 0o20666, os.makedev(226, minor))
    words = ["podman", "run", "--privileged", "--device=/dev/dri/renderD130", "rocm"]

    shown = format_explanation(explain_container(parse_run(words, {}), made))

    assert [line.split()[1:3] for line in shown.splitlines() if line.startswith("0 ")] == [
        ["/dev/dri/renderD130", "card3"]
    ]


@pytest.mark.parametrize(
    ("devices", "counted", "wrong"),
    [
        (["renderD129:/dev/dri/renderD128"], [], ("renderD128", 129)),
        (["renderD129:/dev/dri/renderD128", "renderD128:/dev/dri/renderD129"], [], ("renderD128", 129)),
        (["renderD129:/dev/dri/gpu0"], [], ("gpu0", 129)),
        (["renderD129", "renderD129:/dev/dri/renderD128"], [0], None),
        (["renderD128", "renderD129"], [0, 1], None),
        (["renderD128", "card1:/dev/dri/card7"], [1], None),
    ],
)
def test_rocm_opens_a_render_node_by_its_number(host, devices, counted, wrong):
    words = [word for device in devices for word in ("--device", f"/dev/dri/{device}")]
    asked = parse_run(["docker", "run", "--device", "/dev/kfd", *words, "rocm"], {})

    explained = explain_container(asked, host("rx7900xtx-raphael"))

    said = [problem for problem in explained.problems if "ROCm opens the node" in problem]
    assert sorted(numbers(explained)) == counted
    if wrong is None:
        assert said == []
        return
    words = f"/dev/dri/{wrong[0]} is 226:{wrong[1]}: ROCm opens the node of this GPU as /dev/dri/renderD{wrong[1]}"
    assert said == [f"{words}; leave its name as it is"]


def test_of_two_nodes_with_one_path_runc_makes_the_first(host):
    words = ["docker", "run", "--privileged", "--device", "/dev/dri/renderD129:/dev/dri/renderD128", "rocm"]

    explained = explain_container(parse_run(words, {}), host("rx7900xtx-raphael"))

    assert (sorted(numbers(explained)), explained.problems) == ([0, 1], ())


def test_nodes_of_gpus_that_kfd_does_not_list_are_of_no_use(host):
    made = host("one-gpu")
    rmtree(made.path("/sys/devices/virtual/kfd/kfd/topology/nodes/1"))

    explained = explain_container(parse_run(["docker", "run", *NODES, "rocm"], {}), made)

    words = "the kernel's compute driver (KFD) lists no GPU of these nodes: 'amd-ctk doctor' says more"
    assert (explained.problems, explained.lacks_gpus) == ((words,), True)


def test_a_group_of_the_image_opens_nothing_for_a_rootless_container(rootless):
    words = "--group-add render is a name in the image, which is not read here: it opens no node of the host"

    assert words in rootless("--group-add=render").notes


def test_a_node_that_the_host_lacks_cannot_be_given_too(host):
    made = host()
    os.unlink(made.path("/dev/kfd"))

    explanation = explain_container(parse_run(["docker", "run", *NODES, "rocm"], {}), made)

    assert explanation.problems == ("this host has no /dev/kfd: 'amd-ctk doctor' says more",)
