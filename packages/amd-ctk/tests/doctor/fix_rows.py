"""Faults that doctor finds, and how the advice for each of them is followed: by executing it, or by a person."""

from __future__ import annotations

import errno
import os
import runpy
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from amd_ctk.doctor.facts.containers import StaleContainer, UnstartedContainer
from amd_ctk.doctor.facts.gpus import GpuCondition, NodeProblem
from amd_ctk.doctor.facts.modprobe import ModprobeLine
from amd_gpu_sharing.broker.requests.client import send_request
from amd_gpu_sharing.broker.requests.protocol import RESERVE, SOCKET, Request
from amd_gpu_sharing.node_access.nodes import set_users
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.book.state import RULE_FILE
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.driver.other_drivers import ForeignGpu
from amdgpu_discovery.gpu import NO_RENDER_NODE, PciAddress, UnnumberedGpu
from amdgpu_simulator import build_host, load_profile
from support.shared_host import put_ticket

HERE = Path(__file__).parent
OF_HOSTS = runpy.run_path(str(HERE / "test_causes.py"))
OF_CONTAINERS = runpy.run_path(str(HERE / "test_inside_causes.py"))
OF_SPECS = runpy.run_path(str(HERE / "test_cdi_specs.py"))
HOSTS, CONTAINERS = OF_HOSTS["FAULTS"], OF_CONTAINERS["FAULTS"] | {"": OF_CONTAINERS["HEALTHY"]}
HEALTHY, image_has, node_says = (OF_CONTAINERS[name] for name in ("HEALTHY", "image_has", "node_says"))
KFD, RENDER = OF_CONTAINERS["KFD"], OF_CONTAINERS["RENDER"]
podman_user, write_spec, generate = OF_HOSTS["podman_user"], OF_SPECS["write"], OF_SPECS["generate"]
DAEMON_JSON, CONTAINERS_CONF = "/etc/docker/daemon.json", "/etc/containers/containers.conf"
CONTAINERD = "/etc/containerd/config.toml"
ROOTLESS_DAEMON_JSON = "/home/u1/.config/docker/daemon.json"
POLICY = "/var/lib/amd-container-toolkit/gpu-tracker.json"
CONFIG = "/etc/amd-container-toolkit/config.toml"
CRUN_LIMITS = 'low-level-runtime = "crun"\nvram-maximum = 8192\n'
INSTALLED = "Package: amdgpu-dkms\nStatus: install ok installed\n"
GRES = "Name=gpu File=/dev/dri/renderD128\n"
CONFIGURE_SLURM = ("runtime", "configure", "--runtime=slurm")
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
AMDGPU = "0000:03:00.0"

# Why a person has to act.
HARDWARE = "only who stands at the machine can change it"
ELSEWHERE = "it is another machine's matter"
MEANT = "only its author knows what was meant"
RESTART = "only its owner may end a container"
CHOICE = "it is part of a command line that a person writes"
RIGHTS = "who may open a GPU is the administrator's decision"
CAUSE = "the kernel's log says which of several causes it is"


def nothing(machine, *_):
    """Leave a host as it is."""


def rebuild(machine, *_):
    """Have the nodes and attributes that a driver that is well makes."""
    machine.change = lambda facts: facts
    fresh = build_host(machine.programs.parent / "fresh", machine.profile, bare=True)
    subprocess.run(["/bin/cp", "-a", "--remove-destination", f"{fresh.root}/.", machine.host.root], check=True)


class Row(NamedTuple):
    """A fault, and how its fix is followed: executed, or by a person who does this."""

    check: str
    spoil: Callable
    follow: Callable | None = None
    why: str = ""
    # What the check says afterwards; "" for nothing at all.
    becomes: str = "ok"
    profile: str = "one-gpu"


def of_facts(check, before, why="", *, follow=None, becomes="ok", profile="one-gpu"):
    """Return a row about what a simulated host cannot have; whatever is followed brings back its own facts."""

    def spoil(machine):
        machine.change = before

    def undo(machine):
        machine.change = lambda facts: facts

    return Row(check, spoil, (follow or undo) if why else undo, why or "see above", becomes, profile)


def of_container(check, before, after, why=CHOICE, *, becomes="ok", profile="one-gpu", host=lambda _: None):
    """Return a row about a container, and the container that is started as the advice says."""

    def start(inside, machine):
        host(machine)
        machine.inside = inside

    return Row(check, partial(start, before), partial(start, after), why, becomes, profile)


def gpus(**changes):
    return lambda facts: facts.replace(gpus=facts.gpus.replace(**changes))


def kernel(**changes):
    return lambda facts: facts.replace(kernel=facts.kernel.replace(**changes))


def toolkit(**changes):
    return lambda facts: facts.replace(toolkit=facts.toolkit.replace(**changes))


def write(path, content):
    return lambda machine: machine.write(path, content)


def both(*steps):
    def do(machine):
        for step in steps:
            step(machine)

    return do


def crun_without_systemd(machine):
    """Let crun make containers in cgroups of Docker, on a kernel that limits the memory of GPUs."""
    machine.add_program("crun", "echo crun version 1.28")
    machine.docker |= {"CgroupDriver": "cgroupfs", "Runtimes": {"runc": {}, "amd": {}}}
    give_regions(machine, find_gpus(machine.host))


def give_regions(machine, gpus_with_regions):
    """Let the kernel limit the memory of these GPUs."""
    machine.write("/sys/fs/cgroup/cgroup.controllers", "cpu dmem\n")
    known = [f"drm/{gpu.pci_address}/vram 68702699520\n" for gpu in gpus_with_regions]
    machine.write("/sys/fs/cgroup/dmem.capacity", "".join(known))


def region_is_missing(machine):
    """Have a GPU whose memory the kernel cannot limit, beside others."""
    give_regions(machine, find_gpus(machine.host)[:-1])
    machine.write(CONFIG, 'vram-limit = "required"\nvram-maximum = 8192\n')


def only_holders(machine):
    """Let only those open GPUs who have reserved them."""
    machine.write("/run/systemd/system/.keep", "")
    for words in ("gpu-tracker enable", "users allow daemon", "config set gpu-access reserved"):
        run_amd_ctk(machine, *words.split())


def served_holders(machine):
    """Let only those open GPUs who have reserved them, which they can."""
    only_holders(machine)
    machine.serve()


def docker_says(**changes):
    return lambda machine: machine.docker.update(changes)


def with_user(machine):
    podman_user(machine)


def podman_in_its_place(machine):
    machine.docker |= {"ServerVersion": "5.4.2", "ProductLicense": "Apache-2.0", "DefaultRuntime": "crun"}


def compose_is(version):
    return docker_says(ClientInfo={"Plugins": [{"Name": "buildx"}, {"Name": "compose", "Version": version}]})


def rootless_docker(machine):
    with_user(machine)
    machine.docker["SecurityOptions"] = ["name=rootless"]


def as_user(**changes):
    def change(machine):
        machine.user = machine.user.replace(**changes)

    return change


def amd_runtime(machine):
    return machine.add_program("amd-container-runtime", "exit 0")


USERS = 'users = ["alice=40001"]\n'


def systemd(machine):
    (machine.root / "run/systemd/system").mkdir(parents=True)


def serve(machine):
    machine.serve()


def left_waiter(machine):
    Tracker(machine.host).enable()
    put_ticket(machine.host, "train", "free:1", [0], owner=40001)


def left_reservation(machine):
    Tracker(machine.host).enable()
    machine.write(CONFIG, 'users = ["everyone"]\n')
    machine.serve()
    # As one who became root by sudo, because no process here is a user's.
    asked = Request(verb=RESERVE, name="debug", gpus="0", seconds=3600, behind=40001)
    assert send_request(machine.host.path(SOCKET), asked).numbers == (0,)


def leave_socket(machine):
    machine.leave_socket()


def show_picture(machine, state="connected"):
    """Connect a display to the GPU, or take it away."""
    for name, value in (("status", state), ("enabled", "enabled" if state == "connected" else "disabled")):
        machine.write(f"/sys/class/drm/card{find_gpus(machine.host)[0].card_minor}-DP-1/{name}", f"{value}\n")


def require_reservation(machine):
    Tracker(machine.host).enable()
    Tracker(machine.host).settings.require_reservation(required=True)


def podman_without_cgroups(lines=""):
    def spoil(machine):
        machine.add_program("podman", "exit 1")
        runtimes = f'[engine.runtimes]\namd = ["{amd_runtime(machine)}"]\n'
        machine.write(CONTAINERS_CONF, f'[containers]\ncgroups = "disabled"\n[engine]\n{lines}{runtimes}')

    return spoil


def chmod(mode):
    def change(machine):
        for path in ("dev/kfd", "dev/dri/renderD128"):
            (machine.root / path).chmod(mode)

    return change


def two_of_four(*minors, **image):
    nodes = tuple(RENDER.replace(path=f"/dev/dri/renderD{minor}", minor=minor) for minor in minors)
    return image_has(**{"targets": ("gfx90a",), "shared_memory": 16 << 30, **image}).replace(nodes=(KFD, *nodes))


def in_job(given, *minors):
    return two_of_four(*minors).replace(variables={"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": given})


def card_and_integrated(*minors, **changes):
    nodes = tuple(RENDER.replace(path=f"/dev/dri/renderD{minor}", minor=minor) for minor in minors)
    return image_has(targets=changes.pop("targets", ())).replace(nodes=(KFD, *nodes), **changes)


def with_override(value, **image):
    return image_has(**image).replace(variables={OVERRIDE: value})


def tell_health(said):
    """Return what makes the driver of the first GPU say this."""
    return lambda machine: build_host(
        machine.host.root, load_profile(machine.profile).with_gpu(0, health=said), bare=True
    )


def run_amd_ctk(machine, *words):
    # This distribution is tested without the one that brings the runtime, too.
    path = f"{os.path.dirname(amd_runtime(machine))}:/usr/bin"
    environment = {"PATH": path, "HOME": str(machine.root), "AMD_CTK_HOST_ROOT": str(machine.root)}
    machine.ready.run(words, environment).check_returncode()


def lose_gpu(machine):
    """Take GPU 1 from the bus while GPUs are tracked, as KFD and DRM do."""
    run_amd_ctk(machine, "gpu-tracker", "enable")
    (lost,) = (gpu for gpu in find_gpus(machine.host) if gpu.number == 1)
    for path in (
        f"/sys/class/kfd/kfd/topology/nodes/{lost.kfd_node}",
        f"/sys/class/drm/renderD{lost.render_minor}",
        f"/sys/module/amdgpu/drivers/pci:amdgpu/{lost.pci_address}",
        f"/sys/bus/pci/devices/{lost.pci_address}",
    ):
        machine.remove(path)
    machine.write("/sys/class/kfd/kfd/topology/generation_id", "77\n")


slurm_of_four = write("/etc/slurm/gres.conf", OF_CONTAINERS["GRES"])
LEFT_OVER = NodeProblem(
    is_partition=False,
    path="/dev/dri/renderD128",
    is_missing=False,
    is_left_over=True,
    message="/dev/dri/renderD128 is device 1:3, but the driver's is 226:128",
)
LOST = UnnumberedGpu(
    pci_address=PciAddress(domain=0, bus=0x43, device=0, function=0),
    device_id=0,
    render_minor=None,
    card_minor=None,
    reason="",
)
OF_VFIO = ForeignGpu(pci_address="0000:03:00.0", driver="vfio-pci")
OF_K3S = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
BLACKLISTED = ModprobeLine(text="blacklist amdgpu", path="/etc/modprobe.d/local.conf")
RUNTIME_TABLE = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes.amd.options'
ROWS = [
    # cdi
    Row("cdi", write("/etc/cdi/amd.json", "x")),
    Row("cdi", write("/run/cdi/my gpu.yaml", "kind: amd.com/gpu\n")),
    Row("cdi", nothing),
    Row("cdi", HOSTS["cdi"]),
    Row("cdi", both(generate, partial(write_spec, path="/etc/cdi/amd.json", minor=77))),
    Row("cdi", both(generate, partial(write_spec, path="/run/cdi/amd.json", minor=77))),
    Row("cdi", partial(write_spec, path="/etc/cdi/gpus.json", minor=77)),
    Row(
        "cdi",
        both(generate, write("/etc/cdi/nvidia.yaml", "[")),
        lambda machine: machine.remove("/etc/cdi/nvidia.yaml"),
        why="another vendor's file is none of this toolkit's",
    ),
    Row("cdi-names", HOSTS["cdi-names"]),
    Row(
        "cdi-names",
        both(generate, partial(write_spec, path="/run/cdi/amd.json")),
        lambda machine: machine.remove("/run/cdi/amd.json"),
        why="either file may be the one that is meant",
    ),
    Row(
        "docker-cdi",
        both(partial(write_spec, path="/etc/cdi/amd.json", version="1.1.0"), docker_says(ServerVersion="28.5.2")),
    ),
    Row(
        "podman-cdi",
        both(
            partial(write_spec, path="/etc/cdi/amd.json", version="0.8.0"),
            lambda machine: machine.add_program("podman", "echo podman version 4.3.1"),
        ),
        becomes="",
    ),
    Row("docker-cdi", both(generate, lambda machine: machine.docker.update(CDISpecDirs=["/opt/cdi"]))),
    Row(
        "podman-cdi",
        both(
            generate,
            write(CONTAINERS_CONF, '[engine]\ncdi_spec_dirs = ["/opt/my cdi"]\n'),
            lambda machine: machine.add_program("podman", "echo podman version 5.8.6"),
        ),
        becomes="",
    ),
    # docker
    Row(
        "docker-file",
        write(DAEMON_JSON, '{"runtimes": {"amd": {"path": "runc"}}}'),
        write(DAEMON_JSON, "{}"),
        why="another runtime may be there for a reason",
        becomes="",
    ),
    Row(
        "podman-file",
        both(with_user, write(CONTAINERS_CONF, '[containers]\ndevices = ["/dev/dri/renderD140:/dev/dri/x"]\n')),
        write(CONTAINERS_CONF, ""),
        why=MEANT,
        becomes="note",
    ),
    Row("docker", HOSTS["docker"]),
    Row("docker", nothing),
    Row("docker", rootless_docker),
    Row("docker", podman_in_its_place, nothing, why=CHOICE, becomes="note"),
    Row(
        "docker-file",
        write(DAEMON_JSON, '{"userns-remap": "alice:alice"}'),
        both(*(write(path, "alice:100000:65536\n") for path in ("/etc/subuid", "/etc/subgid"))),
        why="a range must be one that nobody else has",
        becomes="",
    ),
    Row("docker-file", OF_HOSTS["runtime_that_is_gone"]),
    Row("docker-file", OF_HOSTS["runtime_that_is_closed"]),
    Row(
        "docker-file",
        OF_HOSTS["runtime_that_nothing_defines"],
        write(DAEMON_JSON, '{"default-runtime": "runc"}'),
        why=MEANT,
        becomes="",
    ),
    Row(
        "docker-file",
        OF_HOSTS["file_that_dockerd_refuses"],
        lambda machine: machine.add_program("dockerd", "exit 0"),
        why=MEANT,
        becomes="",
    ),
    Row("docker-file", HOSTS["docker-file"], write(DAEMON_JSON, "{}"), why=MEANT, becomes=""),
    Row("docker-cdi", docker_says(ServerVersion="26.1.5")),
    Row("docker-cdi", docker_says(ServerVersion="20.10.24"), nothing, why=CHOICE, becomes="note"),
    Row("docker-compose", compose_is("2.26.1-4"), nothing, why=CHOICE, becomes="note"),
    Row("docker-compose", compose_is("v2.29.7"), compose_is("v2.30.0"), why=CHOICE, becomes=""),
    Row("docker-context", HOSTS["docker-context"], becomes=""),
    Row(
        "docker-context",
        lambda _: os.environ.update(DOCKER_HOST="tcp://10.0.0.1:2375"),
        lambda _: os.environ.pop("DOCKER_HOST"),
        why=ELSEWHERE,
        becomes="",
    ),
    Row(
        "docker-options",
        HOSTS["docker-options"],
        write("/usr/lib/systemd/system/docker.service", "[Service]\nExecStart=/usr/bin/dockerd\n"),
        why=MEANT,
        becomes="",
    ),
    Row("docker-gpus", docker_says(ServerVersion="26.1.5"), nothing, why=CHOICE, becomes="note"),
    Row("docker-gpus", nothing, nothing, why=CHOICE, becomes="note"),
    Row("docker-gpus", docker_says(ServerVersion="29.3.0")),
    Row("docker-cdi", write(DAEMON_JSON, '{"features": {"cdi": false}}')),
    of_container(
        "docker-gpus", OF_CONTAINERS["ASKING"], OF_CONTAINERS["ASKING"].replace(nodes=(KFD, RENDER)), becomes="note"
    ),
    Row("rootless", HOSTS["rootless"], chmod(0o666), why=RIGHTS),
    Row("rootless", docker_says(SecurityOptions=["name=userns"]), nothing, why=CHOICE, becomes="note"),
    Row("containerd", HOSTS["containerd"], write(CONTAINERD, "version = 2\n"), why=MEANT, becomes=""),
    Row(
        "containerd",
        write(
            CONTAINERD,
            'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.amd.options]\n'
            'BinaryName = "/nowhere/amd-container-runtime"\n',
        ),
    ),
    Row(
        "containerd",
        both(write("/etc/systemd/system/k3s.service", "[Service]\nExecStart=k3s\n"), write(OF_K3S, "version = 2\n")),
        write(OF_K3S, f'version = 2\n[{RUNTIME_TABLE}]\nBinaryName = "amd-container-runtime"\n'),
        why="k3s writes the file from a template that a person keeps",
    ),
    # gpus
    of_facts("kfd", gpus(has_kfd=False, gpus=(), unnumbered=(LOST,)), "a kernel is chosen at boot"),
    of_facts("kfd", gpus(gpus=(), unnumbered=(LOST.replace(reason=NO_RENDER_NODE),)), CAUSE),
    of_facts("kfd", gpus(left_over=("0000:64:00.0",)), RESTART),
    of_facts("kfd", gpus(gpus=(), left_over=("0000:64:00.0",)), RESTART),
    of_facts("driver", gpus(foreign=(OF_VFIO,)), RIGHTS),
    of_facts("driver", gpus(gpus=(), foreign=(OF_VFIO,)), RIGHTS),
    of_facts("driver", kernel(is_driver_loaded=False, refusing_option="nomodeset"), "a kernel is started at boot"),
    of_facts("driver", kernel(is_driver_loaded=False, refusing_line=BLACKLISTED), "a kernel is started at boot"),
    of_facts("driver", kernel(unknown_gpus=("0000:03:00.0",)), "a kernel is started at boot"),
    of_facts("kfd", gpus(hidden=2), "the process is where somebody has started it"),
    of_facts("kfd", gpus(problem="the KFD topology changed 10 times while it was read"), CAUSE),
    of_facts("kfd", gpus(unnumbered=(LOST.replace(device_id=0x7551),)), CAUSE),
    of_facts("kfd", gpus(gpus=(), unnumbered=(LOST,)), CAUSE),
    Row(
        "gpu-state",
        HOSTS["gpu-state"],
        both(
            lambda machine: machine.remove(f"/sys/module/amdgpu/drivers/pci:amdgpu/{AMDGPU}/mem_info_vram_total"),
            rebuild,
        ),
        why=CAUSE,
    ),
    Row("gpu-health", tell_health({"gpu_busy_percent": "[EIO]"}), tell_health({}), why=CAUSE, becomes=""),
    Row("gpu-health", tell_health({"ras/umc_err_count": "ue: 3\nce: 0"}), becomes=""),
    of_facts(
        "gpu-leaked",
        lambda facts: facts.replace(conditions=(GpuCondition(number=2, state="in use", reason="", has_leaked=True),)),
        becomes="",
    ),
    of_facts(
        "gpu-dirty",
        lambda facts: facts.replace(conditions=(GpuCondition(number=2, state="dirty", reason="x"),)),
        becomes="",
    ),
    Row("gpu-lost", lose_gpu, becomes="", profile="mi210-4"),
    Row("gpu-drained", lambda machine: run_amd_ctk(machine, "gpu-tracker", "drain", "0"), becomes=""),
    Row("nodes", HOSTS["nodes"]),
    Row("nodes", OF_HOSTS["directory_in_place_of_a_node"]),
    Row("nodes", lambda machine: setattr(machine, "change", gpus(node_problems=(LEFT_OVER,)))),
    Row("partitions", HOSTS["nodes"], profile="mi308x-8-cpx"),
    Row("node-access", HOSTS["node-access"]),
    Row("node-access", lambda machine: os.chmod(machine.root / "dev/dri", 0o700)),
    Row(
        "node-access",
        lambda machine: setattr(
            machine,
            "change",
            lambda facts: gpus(nodes=(*facts.gpus.nodes[:-1], facts.gpus.nodes[-1].replace(gid=44)))(facts),
        ),
    ),
    Row("gpu-access", HOSTS["gpu-access"], becomes=""),
    Row("memory-limit", HOSTS["memory-limit"], becomes=""),
    Row("memory-limit", region_is_missing, becomes="note", profile="mi210-4"),
    Row("memory-limit", both(crun_without_systemd, write(CONFIG, CRUN_LIMITS))),
    Row("memory-limit", both(crun_without_systemd, write(CONFIG, f'{CRUN_LIMITS}vram-limit = "required"\n'))),
    *[
        Row("gpu-access", both(served_holders, spoil))
        for spoil in (
            lambda machine: machine.remove(RULE_FILE),
            lambda machine: (machine.root / "dev/kfd").chmod(0o666),
            write(CONFIG, f'{USERS}gpu-access = "reserved"\ndevice-mode = "host"\n'),
        )
    ],
    Row("gpu-access", both(only_holders, lambda machine: set_users(machine.host.path("/dev/kfd"), [1001]))),
    Row("gpu-access", both(only_holders, leave_socket)),
    Row("gpu-access", both(served_holders, show_picture), partial(show_picture, state="disconnected"), why=HARDWARE),
    Row(
        "gpu-access",
        both(served_holders, write(CONFIG, 'gpu-access = "reserved"\n')),
        lambda machine: run_amd_ctk(machine, "users", "allow", "daemon"),
        why=RIGHTS,
    ),
    Row(
        "gpu-access",
        both(served_holders, lambda machine: machine.remove("/run/systemd/system")),
        systemd,
        why="what runs first on the machine is its administrator's decision",
    ),
    Row(
        "apu-memory",
        OF_HOSTS["small_apu"],
        lambda machine: build_host(machine.host.root, "strix-halo"),
        why=HARDWARE,
        becomes="note",
    ),
    of_facts(
        "apu-memory",
        lambda facts: facts,
        HARDWARE,
        becomes="",
        profile="strix-halo",
        follow=lambda machine: setattr(machine, "change", gpus(carve_outs={0: 64 << 30})),
    ),
    Row(
        "integrated-gpu",
        nothing,
        nothing,
        why=CHOICE,
        becomes="note",
        profile="rx7900xtx-raphael",
    ),
    # kernel
    Row(
        "windows",
        HOSTS["windows"],
        lambda machine: machine.write_proc("sys/kernel/osrelease", "6.12.12-amd64\n"),
        why=ELSEWHERE,
        becomes="",
    ),
    Row("driver", HOSTS["driver"]),
    Row("dkms", HOSTS["dkms"]),
    Row("secure-boot", HOSTS["secure-boot"], rebuild, why="the key is enrolled at the console"),
    Row("packages", HOSTS["packages"]),
    Row(
        "packages",
        both(
            write("/var/lib/dpkg/status", INSTALLED),
            write("/etc/os-release", "VERSION_CODENAME=trixie\n"),
            write("/etc/apt/sources.list.d/amd.list", "deb https://repo.radeon.com/x noble main\n"),
        ),
        write("/etc/apt/sources.list.d/amd.list", "deb https://repo.radeon.com/x trixie main\n"),
        why="AMD may have no packages for it",
    ),
    Row(
        "packages",
        both(
            write("/var/lib/dpkg/status", INSTALLED),
            write("/usr/lib/amd-container-toolkit/parts/amd-ctk/BUILD", "# 2.0.0-2\n"),
            write("/usr/lib/amd-container-toolkit/parts/amd-gpu-tracker/BUILD", "# 2.0.0-1\n"),
        ),
        write("/usr/lib/amd-container-toolkit/parts/amd-gpu-tracker/BUILD", "# 2.0.0-2\n"),
        why="the administrator knows where the packages come from",
    ),
    Row("selinux", HOSTS["selinux"]),
    Row("selinux", both(HOSTS["selinux"], docker_says(SecurityOptions=[]))),
    Row("user-namespace", HOSTS["user-namespace"], rebuild, why=ELSEWHERE),
    of_facts(
        "user-namespace",
        lambda facts: facts.replace(
            kernel=facts.kernel.replace(is_user_namespace=True),
            gpus=facts.gpus.replace(nodes=tuple(node.replace(gid=65534) for node in facts.gpus.nodes)),
        ),
        ELSEWHERE,
        follow=lambda machine: setattr(
            machine, "change", lambda facts: facts.replace(kernel=facts.kernel.replace(is_user_namespace=True))
        ),
    ),
    # podman
    Row(
        "podman-file",
        HOSTS["podman-file"],
        lambda machine: machine.remove("/home/u1/.config/containers/containers.conf"),
        why=MEANT,
        becomes="note",
    ),
    Row(
        "podman-file",
        both(with_user, write(CONTAINERS_CONF, '[engine.runtimes]\namd = ["/nowhere/amd-container-runtime"]\n')),
    ),
    Row("podman-file", both(with_user, write(CONTAINERS_CONF, '[engine]\nruntime = "amd"\n'))),
    Row("podman-file", with_user),
    Row(
        "podman-file",
        podman_without_cgroups(),
        podman_without_cgroups('runtime_supports_nocgroup = ["crun", "krun", "amd"]\n'),
        why="the list of this host's runtimes is the administrator's",
    ),
    Row("podman-nodes", HOSTS["podman-nodes"], as_user(groups=(1000, 110)), why=RIGHTS, becomes="note"),
    Row(
        "podman-nodes",
        both(with_user, write(CONTAINERS_CONF, '[engine]\nruntime = "runc"\n')),
        write(CONTAINERS_CONF, '[engine]\nruntime = "crun"\n'),
        why=CHOICE,
        becomes="note",
    ),
    Row(
        "podman-nodes",
        both(with_user, as_user(session_groups=(1000,))),
        as_user(session_groups=(1000, 110)),
        why="only the user may log in",
        becomes="note",
    ),
    Row("podman-nodes", with_user, chmod(0o666), why=CHOICE),
    Row(
        "podman-user",
        HOSTS["podman-user"],
        write("/etc/subuid", "u1:100000:65536\n"),
        why="a range must be one that nobody else has",
    ),
    Row(
        "podman-user",
        both(with_user, lambda machine: machine.remove("/run/user/1000")),
        write("/run/user/1000/bus", ""),
        why="it is the user's own session",
    ),
    # slurm
    of_facts(
        "slurm",
        lambda facts: facts.replace(slurm=facts.slurm.replace(is_configured=True, problem="gres.conf cannot be read")),
        MEANT,
        becomes="",
    ),
    Row("slurm", HOSTS["slurm"], both(write("/etc/slurm/gres.conf", GRES)), why=MEANT, becomes="note"),
    Row(
        "slurm",
        both(write("/etc/slurm/gres.conf", GRES), write("/etc/slurm/oci.conf", 'RunTimeRun="runc run %n -b %b"\n')),
        both(write("/etc/slurm/oci.conf", ""), lambda machine: run_amd_ctk(machine, *CONFIGURE_SLURM)),
        why="another runtime may be there for a reason",
        becomes="note",
    ),
    Row(
        "slurm",
        both(write("/etc/slurm/gres.conf", GRES), lambda machine: run_amd_ctk(machine, *CONFIGURE_SLURM)),
        write("/etc/slurm/cgroup.conf", "ConstrainDevices=yes\n"),
        why=RIGHTS,
    ),
    Row(
        "slurm",
        both(
            both(write("/etc/slurm/gres.conf", GRES), write("/etc/slurm/cgroup.conf", "ConstrainDevices=yes\n")),
            write("/etc/slurm/oci.conf", 'RunTimeRun="/usr/bin/amd-container-runtime run %n.%u.%j.%s.%t -b %b"\n'),
        ),
    ),
    Row("slurm-jobs", HOSTS["slurm-jobs"]),
    Row("slurm-jobs", partial(HOSTS["slurm-jobs"], squeue="echo '7 COMPLETING'")),
    # toolkit
    of_facts(
        "containers",
        lambda facts: facts.replace(
            stale_containers=(StaleContainer(container_id="c" * 64, path="/dev/kfd", inside="234:0", outside="235:0"),)
        ),
        RESTART,
    ),
    of_facts(
        "unstarted-containers",
        lambda facts: facts.replace(
            unstarted_containers=(
                UnstartedContainer(
                    container_id="c" * 64, root="/run/docker/runtime-amd/moby", path="/dev/dri/renderD128"
                ),
            )
        ),
        "the container is an engine's",
        becomes="",
    ),
    Row("low-level-runtime", HOSTS["low-level-runtime"]),
    of_facts(
        "low-level-runtime",
        toolkit(has_low_level=False, runtime_program="/usr/bin/x"),
        "each distribution has a command of its own for it",
    ),
    Row("settings", HOSTS["settings"], write(CONFIG, 'unknown-gpus = "error"\n'), why=MEANT, becomes="note"),
    Row("settings", write(CONFIG, 'device-mode = "host"\n')),
    of_facts("settings", toolkit(group_problems=("group:a: GPU 9 does not exist",)), MEANT),
    of_facts(
        "sudo",
        toolkit(secure_path=("/usr/bin",), program_directory="/usr/local/bin"),
        "sudoers is the administrator's",
        follow=lambda machine: setattr(
            machine, "change", toolkit(secure_path=("/usr/local/bin",), program_directory="/usr/local/bin")
        ),
    ),
    Row("sharing", both(write(CONFIG, USERS), systemd)),
    Row("sharing", write(CONFIG, USERS), serve, why="without systemd, somebody has to keep the service running"),
    Row("sharing", both(write(CONFIG, USERS), systemd, leave_socket)),
    Row("sharing", both(write(CONFIG, 'idle = "60m"\n'), systemd), becomes=""),
    of_facts(
        "sharing",
        toolkit(has_users=True, is_served=True, may_look_at_users=False),
        "who starts a container decides what it may do",
        follow=lambda machine: setattr(machine, "change", toolkit(has_users=True, is_served=True)),
    ),
    of_facts(
        "sharing",
        toolkit(has_users=True, missing_sharing="sudo apt install amd-gpu-sharing"),
        "a package is installed with the system's own program",
        follow=lambda machine: setattr(machine, "change", toolkit(has_users=True, is_served=True)),
    ),
    Row("sharing", require_reservation, both(write(CONFIG, USERS), serve), why=RIGHTS),
    Row("departed-users", write(CONFIG, USERS), becomes=""),
    Row("departed-users", write(CONFIG, 'users = ["everyone", "@labs=40044", "mallory=40001:gpus=0"]\n'), becomes=""),
    Row("departed-users", left_waiter, becomes=""),
    Row("departed-users", left_reservation, becomes=""),
    Row("tracker", HOSTS["tracker"]),
    Row(
        "tracker",
        write(POLICY, '{"version":2,"enabled":false,"gpus":[]}'),
        lambda machine: machine.remove(POLICY),
        why="it stands for the later toolkit, which reads its own file",
    ),
    Row("tracker", write("/var/log/gpu-tracker.json", "")),
    Row("tracker", write("/var/log/gpu-tracker.json", runpy.run_path(str(HERE / "test_former_tracker.py"))["WHOLE"])),
    Row(
        "tracker-files",
        HOSTS["tracker-files"],
        lambda machine: machine.remove("/run/amd-container-toolkit"),
        why="only the administrator knows which files may go",
        becomes="",
    ),
    # A container from inside.
    of_container("inside-access", CONTAINERS["inside-access"], HEALTHY),
    of_container("inside-access", node_says(errno.EACCES), HEALTHY, why=RIGHTS),
    of_container("inside-cgroup", CONTAINERS["inside-cgroup"], HEALTHY),
    of_container("inside-filters", CONTAINERS["inside-filters"], HEALTHY, becomes=""),
    of_container(
        "inside-filters",
        HEALTHY.replace(variables={**HEALTHY.variables, "HIP_VISIBLE_DEVICES": ""}),
        HEALTHY,
        becomes="",
    ),
    of_container("inside-gpu", CONTAINERS["inside-gpu"], HEALTHY, why=CAUSE, becomes=""),
    of_container(
        "inside-integrated",
        card_and_integrated(128, targets=("gfx1100",)),
        card_and_integrated(129),
        becomes="",
        profile="rx7900xtx-raphael",
    ),
    of_container(
        "inside-integrated",
        card_and_integrated(128, 129),
        card_and_integrated(129),
        becomes="",
        profile="rx7900xtx-raphael",
    ),
    of_container(
        "inside-integrated",
        card_and_integrated(128, 129, variables={"HIP_VISIBLE_DEVICES": "1,0"}),
        card_and_integrated(129),
        becomes="",
        profile="rx7900xtx-raphael",
    ),
    of_container("inside-kfd", CONTAINERS["inside-kfd"], HEALTHY, becomes=""),
    of_container("inside-nodes", node_says(errno.ENXIO, KFD), HEALTHY, why=RESTART),
    of_container("inside-nodes", CONTAINERS["inside-nodes"], HEALTHY),
    of_container("inside-nodes", HEALTHY.replace(nodes=(KFD, RENDER.replace(path="/dev/dri/renderD130"))), HEALTHY),
    of_container(
        "inside-slurm",
        in_job("1,2", 128, 129),
        in_job("0,1", 128, 129),
        profile="mi210-4",
        host=slurm_of_four,
        why=RESTART,
    ),
    of_container(
        "inside-slurm", in_job("0", 128, 129), in_job("0", 128), profile="mi210-4", host=slurm_of_four, why=RIGHTS
    ),
    of_container(
        "inside-slurm", in_job("", 128, 129), in_job("0", 128), profile="mi210-4", host=slurm_of_four, why=RIGHTS
    ),
    of_container(
        "inside-slurm", in_job("9", 128, 129), in_job("0", 128), profile="mi210-4", host=slurm_of_four, why=MEANT
    ),
    of_container("inside-smi", two_of_four(128), two_of_four(128), profile="mi210-4", becomes="note"),
    of_container("inside-cache", CONTAINERS["inside-cache"], HEALTHY),
    of_container("inside-cache", HEALTHY.replace(mount_points=("/",)), HEALTHY),
    of_container("inside-lsmod", CONTAINERS["inside-lsmod"], HEALTHY, why="the image has an author", becomes=""),
    of_container(
        "inside-memlock", CONTAINERS["inside-memlock"], image_has(has_infiniband=True).replace(process=HEALTHY.process)
    ),
    of_container(
        "inside-numa",
        HEALTHY.replace(numa_nodes=2),
        HEALTHY.replace(numa_nodes=2, process=HEALTHY.process.replace(capabilities=1 << 23)),
        becomes="",
    ),
    of_container("inside-override", with_override("gfx1200"), HEALTHY, becomes=""),
    of_container("inside-override", with_override("10.3.0"), HEALTHY, becomes=""),
    of_container("inside-override", with_override("10.3.0", targets=()), HEALTHY, becomes=""),
    of_container(
        "inside-rocm",
        image_has(rocm_version="5.7.1"),
        HEALTHY,
        why="the image has an author",
        host=write("/sys/module/amdgpu/version", "6.12.12\n"),
    ),
    of_container(
        "inside-shm",
        two_of_four(128, 129, shared_memory=64 << 20, has_rccl=True),
        two_of_four(128, 129),
        profile="mi210-4",
    ),
    of_container(
        "inside-shm",
        two_of_four(128, 129, shared_memory=None, has_rccl=True),
        two_of_four(128, 129),
        profile="mi210-4",
    ),
    of_container("inside-shm", two_of_four(128, 129, shared_memory=64 << 20), two_of_four(128, 129), profile="mi210-4"),
    of_container("inside-targets", image_has(targets=()), HEALTHY, why="the image has an author"),
    of_container("inside-targets", CONTAINERS["inside-targets"], HEALTHY, why="the image has an author"),
]
