"""amd-ctk slurm, and runtime configure for Slurm."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amdgpu_simulator import build_host, hide_gpus

GRES = """\
# In slurm.conf, beside the node's other settings:
#GresTypes=gpu
#NodeName=n1 Gres=gpu:mi210:4
NodeName=n1 Name=gpu Type=mi210 File=/dev/dri/renderD130 Flags=amd_gpu_env
NodeName=n1 Name=gpu Type=mi210 File=/dev/dri/renderD131 Flags=amd_gpu_env
NodeName=n1 Name=gpu Type=mi210 File=/dev/dri/renderD129 Flags=amd_gpu_env
NodeName=n1 Name=gpu Type=mi210 File=/dev/dri/renderD128 Flags=amd_gpu_env
"""
PROGRAM = "/usr/bin/amd-container-runtime"
OCI = """\
# AMD GPUs in containers; 'amd-ctk runtime configure --runtime=slurm --remove' removes this.
RunTimeQuery="cd /run/user/%U/ && for c in %n.%u.%j.%s.*; do \
setpriv --reuid=%U --regid=65534 --clear-groups /usr/bin/amd-container-runtime --root=/run/user/%U/ state $c \
| grep -q 'status.*stopped' || break; done; \
setpriv --reuid=%U --regid=65534 --clear-groups /usr/bin/amd-container-runtime --root=/run/user/%U/ state $c"
RunTimeKill="cd /run/user/%U/ && for c in %n.%u.%j.%s.*; do \
setpriv --reuid=%U --regid=65534 --clear-groups /usr/bin/amd-container-runtime --root=/run/user/%U/ \
kill -a $c KILL; done"
RunTimeDelete="cd /run/user/%U/ && for c in %n.%u.%j.%s.*; do \
setpriv --reuid=%U --regid=65534 --clear-groups /usr/bin/amd-container-runtime --root=/run/user/%U/ \
delete --force $c; done"
RunTimeRun="exec /usr/bin/amd-container-runtime --root=/run/user/%U/ run %n.%u.%j.%s.%t -b %b"
"""
OCI_OF_OLD = """\
# AMD GPUs in containers; 'amd-ctk runtime configure --runtime=slurm --remove' removes this.
RunTimeQuery="/usr/bin/amd-container-runtime state %n.%u.%j.%s.%t"
RunTimeKill="/usr/bin/amd-container-runtime kill -a %n.%u.%j.%s.%t KILL"
RunTimeDelete="/usr/bin/amd-container-runtime delete --force %n.%u.%j.%s.%t"
RunTimeRun="exec /usr/bin/amd-container-runtime run %n.%u.%j.%s.%t -b %b"
"""
HEAD = f"{'-' * 56}\nGPU Id    Slurm Id  Type        DRM Device\n{'-' * 56}\n"


@pytest.fixture
def conf(host, tmp_path):
    """Return a function that writes a file of Slurm's configuration on four MI210."""
    host()

    def write(name, text):
        path = tmp_path / "host/etc/slurm" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def write_tree(root, files):
    for path, text in files.items():
        target = Path(f"{root}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


class TestGres:
    def test_gpus_stand_in_the_order_of_their_numbers(self, host, amd_ctk):
        host()

        answer = amd_ctk("slurm", "gres", "--node", "n1")

        assert (answer.stdout, answer.stderr, answer.returncode) == (GRES, "", 0)

    def test_the_node_is_called_as_slurmd_would_call_it(self, host, amd_ctk):
        host()

        assert f"NodeName={os.uname().nodename.partition('.')[0]} Name=gpu" in amd_ctk("slurm", "gres").stdout

    def test_the_type_may_be_another_one(self, host, amd_ctk):
        host()

        lines = amd_ctk("slurm", "gres", "--node=n1", "--type=big").stdout.splitlines()

        assert lines[2:4] == [
            "#NodeName=n1 Gres=gpu:big:4",
            "NodeName=n1 Name=gpu Type=big File=/dev/dri/renderD130 Flags=amd_gpu_env",
        ]

    @pytest.mark.parametrize(("socket_of_node_0", "cores"), [(0, ("0-3", "4-7")), (1, ("4-7", "0-3"))])
    def test_cores_are_counted_as_slurm_counts_them(self, host, amd_ctk, socket_of_node_0, cores):
        """Two sockets of four cores; the second thread of each core has a number behind those of all cores."""
        built = host()
        cpus = {
            f"/sys/devices/system/cpu/cpu{cpu}/topology/{name}": f"{text}\n"
            for cpu in range(16)
            for name, text in (
                ("thread_siblings_list", f"{cpu % 8},{cpu % 8 + 8}"),
                ("physical_package_id", cpu % 8 // 4 ^ socket_of_node_0),
            )
        }
        write_tree(built.root, cpus)
        write_tree(built.root, {"/sys/devices/system/node/node0/cpulist": "0-3,8-11\n"})
        write_tree(built.root, {"/sys/devices/system/node/node1/cpulist": "4-7,12-15\n"})

        lines = amd_ctk("slurm", "gres", "--node=n1").stdout.splitlines()[3:]

        near = [line["numa_node"] for line in json.loads(amd_ctk("gpu", "list", "--json").stdout)["gpus"]]
        assert [line.split()[4] for line in lines] == [f"Cores={cores[node]}" for node in near]

    def test_links_are_those_of_one_hop(self, tmp_path, amd_ctk):
        build_host(tmp_path / "host", "mi300x-8")

        line = amd_ctk("slurm", "gres", "--node=n1").stdout.splitlines()[5]

        assert line == (
            "NodeName=n1 Name=gpu Type=mi300x File=/dev/dri/renderD144 Links=1,1,-1,1,1,1,1,1 Flags=amd_gpu_env"
        )

    def test_a_part_of_the_gpus_is_not_the_nodes(self, host, limited_amd_ctk):
        hide_gpus(host(), (0, 1))

        answer = limited_amd_ctk("slurm", "gres")

        assert answer.stderr.startswith("2 of 4 GPUs are hidden from this process by its device cgroup")
        assert (answer.stdout, answer.returncode) == ("", 1)

    @pytest.mark.parametrize("word", ["--node=a b", "--type=x\nName=gpu", "--type=a,b"])
    def test_a_word_that_would_be_more_than_a_word_is_refused(self, host, amd_ctk, word):
        host()

        assert "Slurm does not accept the name " in amd_ctk("slurm", "gres", word).stderr


class TestStatus:
    def test_all_is_well(self, conf, amd_ctk):
        conf("gres.conf", GRES)
        conf("cgroup.conf", "ConstrainDevices=yes\n")
        conf("oci.conf", OCI)

        answer = amd_ctk("slurm", "status", "--node=n1")

        assert answer.stdout == (
            f"{HEAD}"
            "0         0         mi210       /dev/dri/renderD130\n"
            "1         1         mi210       /dev/dri/renderD131\n"
            "2         2         mi210       /dev/dri/renderD129\n"
            "3         3         mi210       /dev/dri/renderD128\n"
            "ConstrainDevices: yes\n"
            f"Runtime of containers: {PROGRAM}\n"
        )
        assert answer.stderr == ""

    @pytest.mark.parametrize(
        "line", ["ConstrainDevices = yes", 'constraindevices="TRUE"', "ConstrainDevices=1", "ConstrainDevices=Up"]
    )
    def test_a_switch_is_on_in_each_form_that_slurmd_accepts(self, conf, amd_ctk, line):
        conf("gres.conf", GRES)
        conf("cgroup.conf", f"{line}\n")

        assert "ConstrainDevices: yes\n" in amd_ctk("slurm", "status", "--node=n1").stdout

    def test_nothing_is_configured(self, conf, amd_ctk):
        answer = amd_ctk("slurm", "status", "--node=n1")

        assert "0         -         mi210       /dev/dri/renderD130\n" in answer.stdout
        assert answer.stderr == (
            "gres.conf does not exist, so Slurm gives jobs no GPU ('amd-ctk slurm gres' prints one)\n"
            "ConstrainDevices=yes is not in cgroup.conf, so jobs can open the GPUs of others\n"
            "oci.conf names no runtime, so Slurm starts no containers"
            " ('sudo amd-ctk runtime configure --runtime=slurm' changes that)\n"
        )

    def test_status_reports_another_order_and_devices_that_are_no_gpus(self, conf, amd_ctk):
        conf("gres.conf", "Name=gpu File=/dev/dri/renderD[128-130]\nName=gpu File=/dev/dri/renderD200\n")
        conf("cgroup.conf", "ConstrainDevices=yes\n")
        conf("oci.conf", 'RunTimeRun="crun run %n -b %b"\n')

        answer = amd_ctk("slurm", "status", "--node=n1")

        assert [line.split()[1] for line in answer.stdout.splitlines()[3:7]] == ["2", "-", "1", "0"]
        assert answer.stderr == (
            "GPU 1 (/dev/dri/renderD131) is not in gres.conf, so Slurm gives it to no job\n"
            "gres.conf names /dev/dri/renderD200, which is not a GPU of this host\n"
            "Slurm counts the GPUs in another order than the host, see the column Slurm Id\n"
            "oci.conf calls crun, so containers of Slurm get no GPU"
            " ('sudo amd-ctk runtime configure --runtime=slurm' changes that)\n"
        )

    def test_an_order_that_nobody_knows(self, conf, amd_ctk):
        conf("gres.conf", "AutoDetect=rsmi\n")

        answer = amd_ctk("slurm", "status", "--node=n1", "--json")

        assert json.loads(answer.stdout)["problems"][0] == (
            "gres.conf has AutoDetect, so Slurm numbers GPUs in its own order"
            " (write gres.conf as 'amd-ctk slurm gres' prints it)"
        )


class TestOciConf:
    def configure(self, amd_ctk, *words, **variables):
        return amd_ctk("runtime", "configure", "--runtime=slurm", *words, **variables)

    @pytest.fixture
    def add(self, amd_ctk):
        return lambda *words, **variables: self.configure(amd_ctk, f"--runtime-path={PROGRAM}", *words, **variables)

    def test_an_oci_conf_that_does_not_exist_is_written_and_removed(self, conf, add, amd_ctk, tmp_path):
        assert add("--dry-run").stdout == OCI
        assert add().stdout == "Updated the config file: /etc/slurm/oci.conf\nPlease restart slurmd daemon\n"
        assert (tmp_path / "host/etc/slurm/oci.conf").read_text() == OCI

        self.configure(amd_ctk, "--remove")

        assert not (tmp_path / "host/etc/slurm/oci.conf").exists()

    def test_an_old_slurm_is_told_nothing_that_it_does_not_know(self, conf, add, tmp_path):
        slurmd = tmp_path / "bin/slurmd"
        slurmd.parent.mkdir()
        slurmd.write_text("#!/bin/sh\necho slurm-wlm 22.05.8\n")
        slurmd.chmod(0o755)

        answer = add("--dry-run", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")

        assert answer.stdout == OCI_OF_OLD

    def test_other_lines_stay_as_they_are(self, conf, add, amd_ctk):
        text = '# theirs\nCreateEnvFile=disabled\nRunTimeEnvExclude="^SLURM_CONF"\n'
        path = conf("oci.conf", text)

        add()

        lines = path.read_text().splitlines(keepends=True)
        assert lines == [*text.splitlines(keepends=True), *OCI.splitlines(keepends=True)[1:]]
        assert self.configure(amd_ctk, "--remove").returncode == 0
        assert path.read_text() == text

    def test_undo_brings_back_the_former_program(self, conf, add, amd_ctk):
        path = conf("oci.conf", OCI.replace(PROGRAM, "/opt/amd-container-runtime"))

        assert add("--diff").stdout.count("\n+RunTime") == 4
        assert path.read_text() == OCI
        assert self.configure(amd_ctk, "--undo").returncode == 0
        assert path.read_text() == OCI.replace(PROGRAM, "/opt/amd-container-runtime")

    def test_lines_of_an_earlier_version_are_written_again(self, conf, add, amd_ctk):
        text = OCI.replace('RunTimeRun="exec ', 'RunTimeRun="')
        path = conf("oci.conf", text)

        assert add("--diff").stdout.count("\n+RunTime") == 1
        assert path.read_text() == OCI
        assert add().stdout.endswith("The config file is up to date: /etc/slurm/oci.conf\n")
        assert self.configure(amd_ctk, "--undo").returncode == 0
        assert path.read_text() == text

    def test_another_runtime_is_not_replaced(self, conf, add):
        path = conf("oci.conf", 'RunTimeRun="crun run %n -b %b"\n')

        answer = add()

        assert answer.stderr == (
            'the runtime "amd" exists already and runs crun (Slurm has one runtime; delete the lines RunTime* first)\n'
        )
        assert path.read_text() == 'RunTimeRun="crun run %n -b %b"\n'

    def test_there_is_no_default_runtime(self, conf, add):
        assert "Slurm has one runtime, which every container of a job has" in add("--set-as-default").stderr
