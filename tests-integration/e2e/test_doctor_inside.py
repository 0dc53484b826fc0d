"""`amd-ctk doctor --container` opens nodes with the user, the groups and the device cgroup of real containers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.bare_runtime import BareRuntime
from support.installed import engine_program, our_program, require_root

pytestmark = [pytest.mark.e2e, pytest.mark.runc]

KFD, RENDER = "/dev/kfd", "/dev/dri/renderD128"
NOTHING_ALLOWED = [{"allow": False, "access": "rwm"}]
RENDER_ALLOWED = [{"allow": True, "type": "c", "major": 226, "minor": 128, "access": "rwm"}]


@pytest.fixture
def open_to_users(tmp_path, rootfs):
    """Let other users come to the directories of this test, which pytest keeps to its own."""
    top = Path(tempfile.gettempdir())
    for directory in (tmp_path, rootfs.parent, *tmp_path.parents):
        if top in directory.parents:
            directory.chmod(0o711)


@pytest.fixture
def runtime(tmp_path, rootfs, amd_host):
    require_root()
    runtime = BareRuntime(our_program("amd-container-runtime"), tmp_path, rootfs, amd_host.path, engine_program("runc"))
    yield runtime
    runtime("delete", "--force", "c1")


@pytest.fixture
def start(runtime):
    """Return a function that starts a container and returns its first process."""

    def start(gpus, **options):
        bundle = runtime.bundle("c1", gpus, ("sleep", "600"), **options)
        made = runtime("run", "--detach", "--bundle", bundle, "c1")
        assert made.returncode == 0, made.stderr
        return json.loads(runtime("state", "c1").stdout)["pid"]

    return start


@pytest.fixture
def examine(amd_host):
    """Return a function that asks doctor about a container: {check: (state, words)} of what begins with inside-."""

    def examine(pid, *, root=amd_host.path, user=()):
        ended = subprocess.run(
            [*user, our_program("amd-ctk"), "doctor", f"--container={pid}", "--json"],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "AMD_CTK_HOST_ROOT": root},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in ended.stderr
        checks = json.loads(ended.stdout)["checks"]
        return {check["id"]: (check["state"], check["words"]) for check in checks if check["id"].startswith("inside-")}

    return examine


def device(path, major, minor, mode=0o666):
    return {"path": path, "type": "c", "major": major, "minor": minor, "fileMode": mode, "uid": 0, "gid": 110}


def bad_of(findings):
    return {name: words for name, (state, words) in findings.items() if state == "bad"}


@pytest.mark.parametrize("user", [0, 1000])
def test_a_container_that_got_its_gpus_has_nothing_bad(start, examine, user):
    findings = examine(start("0-2", user=user))

    assert bad_of(findings) == {}
    assert findings["inside-nodes"][1].endswith("has /dev/kfd and 3 render nodes")


def test_a_container_without_a_request_was_given_none(start, examine):
    pid = start("none")

    words = f"container {pid} was given no GPU: it has no /dev/kfd and no render node"
    assert bad_of(examine(pid)) == {"inside-nodes": words}


def test_a_closed_node_is_refused_to_the_containers_user(start, examine):
    devices = [device(KFD, 511, 0, mode=0o660), device(RENDER, 226, 128, mode=0o660)]
    pid = start("none", user=1000, devices=devices, resources={"devices": []})

    words = f"user 1000 with groups 1000 may not open {KFD}, which is 0660 0:110"
    assert bad_of(examine(pid)) == {"inside-access": words}


def test_the_device_cgroup_refuses_a_number_that_it_does_not_know(start, examine):
    devices = [device(KFD, 511, 0), device(RENDER, 226, 128)]
    rules = [*NOTHING_ALLOWED, *RENDER_ALLOWED]
    pid = start("none", devices=devices, resources={"devices": rules})

    findings = examine(pid)

    assert bad_of(findings) == {"inside-cgroup": f"the device cgroup of container {pid} refuses {KFD} (511:0)"}


def test_a_number_without_a_driver_is_said_to_be_dead(start, examine):
    devices = [device(RENDER, 226, 128)]
    pid = start("none", devices=devices, resources={"devices": [*NOTHING_ALLOWED, *RENDER_ALLOWED]})

    # Of this machine, which has no amdgpu.
    assert bad_of(examine(pid, root="/")) == {
        "inside-nodes": f"{RENDER} is 226:128 in container {pid}, but no driver answers there"
    }


def test_another_device_in_place_of_kfd_is_not_opened(start, examine):
    pid = start("none", devices=[device(KFD, 1, 3)], resources={"devices": []})

    assert bad_of(examine(pid)) == {"inside-nodes": f"{KFD} is 1:3 in container {pid}, but the host has no such GPU"}


@pytest.mark.usefixtures("open_to_users")
def test_a_container_with_a_user_namespace_opens_its_gpus(start, examine):
    ids = [{"containerID": 0, "hostID": 300000, "size": 65536}]
    namespaces = [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount", "user")]
    pid = start("0", namespaces=namespaces, uidMappings=ids, gidMappings=ids)

    findings = examine(pid)

    assert bad_of(findings) == {}
    assert findings["inside-access"] == ("ok", f"user 300000 of container {pid} may open {KFD}")


@pytest.mark.usefixtures("open_to_users")
def test_a_user_is_told_that_it_takes_root(start, examine):
    pid = start("0")

    # What a user may run: this checkout may lie where others get nowhere.
    limited = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups")
    if subprocess.run([*limited, our_program("amd-ctk"), "version"], capture_output=True, check=False).returncode:
        pytest.skip("other users cannot reach the installed program")

    assert examine(pid, user=limited) == {"inside-nodes": ("not checked", f"container {pid} from inside")}


def test_a_container_that_does_not_answer_inside_is_not_waited_for(start):
    pid = start("0")
    question = (
        "import time; from amd_ctk.doctor.inside.child import ask_inside;"
        " from amd_ctk.doctor.inside.process import read_process;"
        " from amd_gpu_tracker.leases.processes import Processes;"
        f" ask_inside(read_process(Processes().find({pid})), lambda _: time.sleep(600), time.monotonic() + 1)"
    )

    ended = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, timeout=60, check=False)

    assert ended.stderr.endswith("NoAnswer: nothing inside answers in time\n")


def test_nothing_is_imported_from_inside(start):
    pid = start("0")
    question = (
        "import time; from amd_ctk.doctor.inside.child import ask_inside;"
        " from amd_ctk.doctor.inside.process import read_process;"
        " from amd_gpu_tracker.leases.processes import Processes;"
        f" ask_inside(read_process(Processes().find({pid})), lambda _: __import__('wave'), time.monotonic() + 60)"
    )

    ended = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, timeout=60, check=False)

    assert ended.stderr.endswith("NoAnswer: ModuleNotFoundError: No module named 'wave'\n")


ESCAPE = """
import os, sys, time
from amd_ctk.doctor.inside.child import ask_inside
from amd_ctk.doctor.inside.process import read_process
from amd_ctk.doctor.inside.child import held
from amd_gpu_tracker.leases.processes import Processes

def look(own_files):
    os.symlink(f"/proc/self/fd/{own_files}/../../..{sys.argv[2]}", "/tmp/link")
    found = {"by path": os.stat("/tmp/link").st_size}
    try:
        with held("/tmp/link") as handle:
            found["held"] = os.fstat(handle).st_size
    except FileNotFoundError:
        found["held"] = None
    return found

print(ask_inside(read_process(Processes().find(int(sys.argv[1]))), look, time.monotonic() + 60))
"""


@pytest.mark.usefixtures("open_to_users")
def test_a_link_by_a_descriptor_does_not_lead_out_of_a_container_that_sees_the_hosts_processes(start, tmp_path):
    pid = start("0", namespaces=[{"type": name} for name in ("network", "ipc", "uts", "mount")])
    secret = tmp_path / "secret"
    secret.write_text("of the host")

    words = [sys.executable, "-c", ESCAPE, str(pid), str(secret)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.stdout, ended.stderr) == ("{'by path': 11, 'held': None}\n", "")
