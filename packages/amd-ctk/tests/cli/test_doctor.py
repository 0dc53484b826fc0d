"""amd-ctk doctor."""

from __future__ import annotations

import json
import os
from importlib.resources import files

import jsonschema
import pytest

from amd_ctk.pages import find_page

# No engine of this machine is asked.
ALONE = {"PATH": "/nowhere"}
SKIPPED = "--skip=containers,low-level-runtime,user-namespace"


@pytest.mark.needs("root")
def test_a_healthy_host_is_reported_in_a_line_for_each_check(host, amd_ctk):
    host()
    amd_ctk("cdi", "generate")

    answer = amd_ctk("doctor", SKIPPED, **ALONE)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == (
        "driver       ok           amdgpu 6.10.5 is loaded\n"
        "kfd          ok           KFD lists 4 GPUs\n"
        "gpu-state    ok           the driver answers for every GPU\n"
        "nodes        ok           9 nodes with the driver's numbers; /dev/dri/renderD128 is 0660\n"
        "node-access  ok           the nodes are open to group 110\n"
        "cdi          ok           /etc/cdi/amd.json matches this host\n"
        "cdi-names    ok           no CDI spec shadows another\n"
        "settings     ok           the settings are valid\n"
        "tracker      ok           the GPU Tracker's state is valid\n"
        "9 checks: 9 ok, 0 bad, 0 notes, 0 not checked\n"
    )


def test_a_bad_check_has_a_command_and_an_exit_code(host, amd_ctk):
    os.unlink(host().path("/dev/kfd"))

    answer = amd_ctk("doctor", "--only=nodes", "-v", **ALONE)

    assert (answer.returncode, answer.stderr) == (1, "")
    assert answer.stdout == (
        "nodes  bad          /dev/kfd is missing although the driver has this device\n"
        "                    fix: sudo udevadm trigger --action=add --subsystem-match=drm --subsystem-match=kfd\n"
        "                    why: a container's node is made from the host's\n"
        f"                    see: {find_page('reference/messages.md#the-driver-and-its-nodes')}\n"
        "1 check: 0 ok, 1 bad, 0 notes, 0 not checked\n"
    )


def test_checks_that_do_not_apply_to_a_host_are_said_not_to(host, amd_ctk):
    host()

    answer = amd_ctk("doctor", "--only=windows", **ALONE)

    assert (answer.returncode, answer.stdout) == (0, "none of these checks applies to this host\n")


def test_json_is_what_the_shipped_schema_says(host, amd_ctk):
    host("rx7900xtx-raphael")
    schema = json.loads(files("amd_ctk").joinpath("doctor/schema/doctor.json").read_text(encoding="utf-8"))

    answer = amd_ctk("doctor", "--json", **ALONE)

    report = json.loads(answer.stdout)
    jsonschema.validate(report, schema)
    assert {check["id"]: check["state"] for check in report["checks"]}["integrated-gpu"] == "note"


def test_a_host_without_gpus_and_programs_is_no_failure_of_doctor(host, amd_ctk):
    host("no-driver")

    answer = amd_ctk("doctor", SKIPPED, **ALONE)

    assert (answer.returncode, answer.stderr) == (1, "")
    assert answer.stdout.startswith(
        "driver    bad          amdgpu is not loaded\n                       fix: sudo modprobe amdgpu\n"
    )


def test_a_check_that_does_not_exist_is_refused(host, amd_ctk):
    host()

    answer = amd_ctk("doctor", "--skip=nodez", **ALONE)

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "there is no check nodez (did you mean nodes? reference/doctor.md lists all)\n"


def test_an_engine_that_doctor_does_not_know_is_refused(host, amd_ctk):
    host()

    answer = amd_ctk("doctor", "--engine=crun", **ALONE)

    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "there is no engine crun (there are docker, podman, containerd, slurm)\n"


def test_with_an_engine_its_own_checks_are_made(host, amd_ctk):
    path = host().path("/etc/slurm/gres.conf")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("Name=gpu File=/dev/dri/renderD[128-131]\n")

    slurm = amd_ctk("doctor", "--engine=slurm", "--only=slurm,nodes", **ALONE)
    docker = amd_ctk("doctor", "--engine=docker", "--only=slurm,nodes", **ALONE)

    assert (slurm.returncode, slurm.stderr) == (0, "")
    assert [line.split()[0] for line in slurm.stdout.splitlines()] == ["nodes", "slurm", "option:", "2"]
    assert [line.split()[0] for line in docker.stdout.splitlines()] == ["nodes", "1"]


def test_directories_that_are_closed_to_the_user_are_no_failure_of_doctor(host, limited_amd_ctk):
    directories = ("/etc/sudoers.d", "/etc/cdi", "/etc/docker", "/etc/slurm", "/var/lib/dkms/amdgpu", "/run/docker")
    made = host()
    for path in directories:
        os.makedirs(made.path(path), exist_ok=True)
        os.chmod(made.path(path), 0)

    answer = limited_amd_ctk("doctor", "--json", "--engine=slurm")

    for path in directories:
        os.chmod(made.path(path), 0o755)
    states = {check["id"]: check["state"] for check in json.loads(answer.stdout)["checks"]}
    assert (answer.stderr, states["nodes"], states["cdi"]) == ("", "ok", "not checked")


def test_kfd_that_may_not_be_read_is_not_checked(host, limited_amd_ctk):
    nodes = host().path("/sys/class/kfd/kfd/topology/nodes")
    os.chmod(nodes, 0)

    answer = limited_amd_ctk("doctor", "--only=kfd")

    os.chmod(nodes, 0o755)
    assert answer.returncode == 0
    assert answer.stdout == (
        "kfd  not checked  /sys/class/kfd/kfd/topology/nodes cannot be read\n"
        "                  needs: root, outside of containers\n"
        "1 check: 0 ok, 0 bad, 0 notes, 1 not checked\n"
    )
