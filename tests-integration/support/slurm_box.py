"""A box that is a node of a Slurm cluster, with the toolkit installed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from support.box import USER, Box, add_user, nodes_of, remove_cgroups
from support.busybox import build_rootfs
from support.debs import install_toolkit

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from amdgpu_discovery.host import Host

# slurmd uses getaddrinfo, which does not accept a loopback address as the machine's own.
ADDRESS = "10.99.9.{}"
# More processors than the machine has, because otherwise no two jobs run at once.
SLURM_CONF = """\
ClusterName=test
SlurmctldHost=n1(10.99.9.1)
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/run/slurm-test/ctld
SlurmdSpoolDir=/run/slurm-test/d
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/{tracking}
# How long those have who handle TERM, in seconds; 30 unless it is said.
KillWait=4
TaskPlugin={task_plugin}
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# 22.05 cannot run without cgroups, and only finds those of version 1.
CGROUPS = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n"
NEEDS_CGROUPS = ("22.05",)
WITHOUT_CGROUPS = "CgroupPlugin=disabled\n"
DEVICE_CGROUPS = f"{CGROUPS}ConstrainDevices=yes\n"
BUNDLE = "/box/bundle"
BUNDLE_OF_USER = "/box/bundle-of-user"
# $1: the command of the job; the rest: options of sbatch. Prints the output of the job.
IN_BATCH = """
step=$1 directory=$(mktemp -d)
shift
sbatch --wait --quiet --chdir=/ --output="$directory/out" --error="$directory/err" "$@" --wrap="$step"
code=$?
cat "$directory/out"
cat "$directory/err" >&2
exit $code
"""
MUNGE = "mkdir -p /run/munge && chown munge: /run/munge && setpriv --reuid munge --regid munge --clear-groups munged"


class SlurmBox(Box):
    """Use it as a context manager, like any box; node 1 is also the controller."""

    def __init__(self, root: Path, directory: Path, host: Host, spec: bytes, debs: Path, *, number: int = 1) -> None:
        super().__init__(str(root), directory, nodes_of(spec), hardware=host.root)
        self._debs = debs
        self.number = number
        self.address = ADDRESS.format(number)
        # amd-ctk's output for this node.
        self.gres = ""

    def prepare(self) -> None:
        """Install the toolkit, and make a bundle for each user."""
        self("hostname", f"n{self.number}")
        self("ip", "address", "add", f"{self.address}/32", "dev", "lo")
        add_user(self)
        install_toolkit(self, self._debs)
        self("amd-ctk", "runtime", "configure", "--runtime=slurm")
        self._make_bundle(BUNDLE, "runc spec")
        self._make_bundle(BUNDLE_OF_USER, "runc spec --rootless", {"containerID": 0, "hostID": 1100, "size": 1})
        self("chown", "-R", f"{USER}:", BUNDLE_OF_USER)

    def __exit__(self, *words: object) -> None:
        super().__exit__(*words)
        remove_cgroups(f"slurm_n{self.number}")

    def version(self) -> str:
        """Return the version of Slurm, such as 24.11."""
        return ".".join(self("slurmd", "-V").stdout.split()[1].split(".")[:2])

    @property
    def reports_steps(self) -> bool:
        """Return whether Slurm tells containers the GPUs of their step; 22.05 does so only for batch jobs."""
        return self.version() not in NEEDS_CGROUPS

    def configure(self, *gres_confs: str, device_cgroups: bool = False, tracking: str = "linuxproc") -> None:
        """Write Slurm's configuration for nodes with these parts of gres.conf, in order.

        `tracking` is Slurm's method to find the processes of a job.
        """
        nodes = [node_line(text, number) for number, text in enumerate(gres_confs, 1)]
        task_plugin = "task/cgroup" if device_cgroups else "task/none"
        cgroups = CGROUPS if tracking == "cgroup" or self.version() in NEEDS_CGROUPS else WITHOUT_CGROUPS
        conf = SLURM_CONF.format(task_plugin=task_plugin, tracking=tracking, nodes="".join(nodes))
        self.write("/etc/slurm/slurm.conf", conf.encode())
        self.write("/etc/slurm/gres.conf", "".join(gres_confs).encode())
        self.write("/etc/slurm/cgroup.conf", (DEVICE_CGROUPS if device_cgroups else cgroups).encode())

    def start_slurm(self) -> None:
        """Start the daemons of this node."""
        self("mkdir", "-p", "/run/slurm-test/ctld", "/run/slurm-test/d")
        self("sh", "-c", MUNGE)
        if self.number == 1:
            self.start("slurmctld", "-D", "-i")
        self.start("slurmd", "-D")

    def srun(self, *words: str, gpus: int | None = 1, ask: str | None = None, user: str = "") -> CompletedProcess[str]:
        """Run a command in a container of a job; `ask` is its AMD_VISIBLE_DEVICES."""
        asking = [] if ask is None else ["env", f"AMD_VISIBLE_DEVICES={ask}"]
        reserving = [] if gpus is None else [f"--gres=gpu:{gpus}"]
        container = f"--container={BUNDLE_OF_USER if user else BUNDLE}"
        if self.reports_steps:
            return self(*asking, "srun", "--quiet", *reserving, container, *words, user=user, check=False)
        step = shlex.join([*asking, "srun", "--quiet", container, *words])
        return self("sh", "-c", IN_BATCH, "sh", step, *reserving, user=user, check=False)

    def _make_bundle(self, path: str, make_spec: str, mapping: dict[str, int] | None = None) -> None:
        """Make a bundle, with a `mapping` for a user; Slurm adds command and environment."""
        directory = self.share / path.removeprefix("/box/")
        # Slurm mounts its own files there, and a user cannot make a missing directory.
        (build_rootfs(directory / "rootfs") / "var/run/slurm").mkdir(parents=True)
        self("sh", "-c", f"cd {path} && {make_spec}")
        spec = json.loads((directory / "config.json").read_text())
        spec["process"]["terminal"] = False
        spec["linux"] |= {"uidMappings": [mapping], "gidMappings": [mapping]} if mapping else {}
        (directory / "config.json").write_text(json.dumps(spec))


def node_line(gres_conf: str, number: int) -> str:
    """Return the line of slurm.conf for a node, completing the comment in its part of gres.conf."""
    [begun] = (line.removeprefix("#") for line in gres_conf.splitlines() if line.startswith("#NodeName="))
    return f"{begun} NodeAddr={ADDRESS.format(number)} CPUs=16\n"


def gpus_in(printed: str) -> list[str]:
    """Return the render nodes that a container may open, from the output of `list-gpus` in it."""
    # srun --label puts the number of the task in front.
    lines = [line.split()[-5:] for line in printed.splitlines() if "renderD" in line]
    return sorted(path.rpartition("/")[2] for path, *_, access in lines if access == "opens")
