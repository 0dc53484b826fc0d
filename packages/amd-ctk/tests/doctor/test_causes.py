"""Each fault is called bad by its check, and by no other."""

from __future__ import annotations

import json
import os
import random
import shutil
from itertools import combinations

import pytest

from amd_ctk.cdi.generate_options import GenerateOptions
from amd_ctk.cdi.specs import FoundGpus, write_spec
from amd_ctk.doctor.check import BAD
from amd_ctk.doctor.facts.users import User
from amd_ctk.doctor.run import DoctorError, check_names, run_checks
from amd_device_spec.cdi.spec import CdiOptions
from amd_device_spec.settings_file import set_setting
from amd_gpu_sharing.node_access.nodes import RULE
from amd_gpu_tracker.book.state import RULE_FILE
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.value import Value
from amdgpu_simulator import build_host, load_profile, profile_names

NODE = "/dev/dri/renderD128"
RANGES = "--add-subuids 100000-165535 --add-subgids 100000-165535"
OTHER_KERNEL = "6.12.1-amd64"


def without_driver(machine):
    machine.remove("/sys/module/amdgpu")
    machine.remove("/sys/class/kfd")


def windows(machine):
    without_driver(machine)
    machine.write_proc("sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n")


def dkms_of_another_kernel(machine):
    without_driver(machine)
    machine.write(f"/var/lib/dkms/amdgpu/6.12.12/{OTHER_KERNEL}/x86_64/log", "")


def secure_boot(machine):
    without_driver(machine)
    machine.write("/var/lib/dkms/amdgpu/6.12.12/6.12.12-amd64/x86_64/log", "")
    machine.write("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\6\0\0\0\1")


@pytest.mark.parametrize(
    ("file", "certificate"),
    [("/var/lib/dkms/mok.pub", "/var/lib/dkms/mok.pub"), ("/var/lib/shim-signed/mok/MOK.der",) * 2],
)
def test_the_certificate_to_enroll_is_that_with_which_dkms_signs_here(machine, file, certificate):
    made = machine("one-gpu")
    secure_boot(made)
    made.write(file, "")

    (result,) = made.examine(only=["secure-boot"])

    assert result.finding.fix == f"sudo mokutil --import {certificate}, reboot, and enroll the key"


def without_kfd_nodes(machine):
    profile = load_profile("one-gpu").with_every_gpu(partitions=0)
    build_host(machine.host.root, profile, bare=True)


def broken_gpu(machine):
    path = "/sys/module/amdgpu/drivers/pci:amdgpu/0000:03:00.0/mem_info_vram_total"
    machine.remove(path)
    (machine.root / path.lstrip("/")).mkdir()


def missing_node(machine):
    machine.remove(NODE)


def closed_nodes(machine):
    (machine.root / "dev/kfd").chmod(0o600)


def rule_without_setting(machine):
    # As a config.toml leaves it that was replaced by hand.
    machine.write(RULE_FILE, RULE)


def required_memory_limit(machine):
    set_setting(machine.host, "vram-limit", "required")


def user_namespace(machine):
    machine.write_proc("self/uid_map", "0 100000 65536\n")
    machine.remove("/dev/kfd")


def stale_cdi(machine):
    machine.write("/etc/cdi/amd.json", json.dumps(spec_of(machine, minor=77)))


def two_cdi_specs(machine):
    for name in ("amd.json", "other.json"):
        machine.write(f"/etc/cdi/{name}", json.dumps(spec_of(machine)))


def docker_not_restarted(machine):
    machine.write("/etc/docker/daemon.json", json.dumps({"runtimes": {"amd": {"path": "amd-container-runtime"}}}))


def broken_daemon_json(machine):
    machine.write("/etc/docker/daemon.json", '{"runtimes": ')


def runtime_that_is_gone(machine):
    machine.docker["Runtimes"]["amd"] = {}
    path = "/nowhere/amd-container-runtime"
    machine.write("/etc/docker/daemon.json", json.dumps({"runtimes": {"amd": {"path": path}}}))


def runtime_that_is_closed(machine):
    machine.docker["Runtimes"]["amd"] = {}
    path = machine.add_program("amd-container-runtime", "exit 0")
    os.chmod(path, 0o644)
    machine.write("/etc/docker/daemon.json", json.dumps({"runtimes": {"amd": {"path": path}}}))


def runtime_that_nothing_defines(machine):
    machine.write("/etc/docker/daemon.json", json.dumps({"default-runtime": "amd"}))


def file_that_dockerd_refuses(machine):
    machine.add_program("dockerd", "echo unable to configure the Docker daemon with file: unknown key: x >&2; exit 1")
    machine.write("/etc/docker/daemon.json", json.dumps({"x": 1}))


def directory_in_place_of_a_node(machine):
    machine.remove(NODE)
    (machine.root / NODE.lstrip("/")).mkdir()


def docker_desktop(machine):
    machine.docker["OperatingSystem"] = "Docker Desktop"


def option_twice(machine):
    machine.write("/etc/docker/daemon.json", json.dumps({"default-runtime": "runc"}))
    unit = "[Service]\nExecStart=/usr/bin/dockerd --default-runtime=runc\n"
    machine.write("/usr/lib/systemd/system/docker.service", unit)


def rootless(machine):
    machine.docker.setdefault("SecurityOptions", []).append("name=rootless")


def selinux(machine):
    machine.docker.setdefault("SecurityOptions", []).append("name=selinux")
    machine.write("/sys/fs/selinux/enforce", "1")
    machine.write("/sys/fs/selinux/booleans/container_use_devices", "0 0")


def broken_settings(machine):
    machine.write("/etc/amd-container-toolkit/config.toml", 'unknown-gpus = "maybe"\n')


def full_run(machine):
    # It takes no file, as a file system that is full.
    shutil.rmtree(machine.root / "run/amd-container-toolkit", ignore_errors=True)
    (machine.root / "run/amd-container-toolkit").symlink_to("/proc")


def without_service(machine):
    machine.write("/etc/amd-container-toolkit/config.toml", 'users = ["everyone"]\n')


def broken_tracker(machine):
    machine.write("/var/lib/amd-container-toolkit/gpu-tracker.json", "not JSON")


def without_low_level_runtime(machine):
    path = machine.add_program("amd-container-runtime", "exit 0")
    machine.write("/etc/amd-container-toolkit/config.toml", f'low-level-runtime = "{os.path.dirname(path)}/nothing"\n')


def broken_package(machine):
    status = "Package: amdgpu-dkms\nStatus: install ok half-configured\nVersion: 1\n\nPackage: bash\n"
    machine.write("/var/lib/dpkg/status", status)


def another_gpu_in_gres_conf(machine):
    machine.write("/etc/slurm/gres.conf", "Name=gpu File=/dev/dri/renderD199\n")


def broken_containerd(machine):
    machine.write("/etc/containerd/config.toml", "version = \n")


def podman_user(machine, *, groups=(110,)):
    """Have a user of rootless Podman, for whom all is well."""
    if machine.user:
        machine.user = machine.user.replace(groups=groups)
        return
    machine.add_program("podman", "exit 1")
    machine.add_program("crun", "exit 0")
    machine.user = User(name="u1", uid=1000, groups=groups, home="/home/u1", runtime_directory="/run/user/1000")
    for path in ("/etc/subuid", "/etc/subgid"):
        machine.write(path, "u1:100000:65536\n")
    for path in ("/run/user/1000/bus", "/home/u1/.local/share/containers/storage/db.sql"):
        machine.write(path, "")


def groups_of(machine):
    return machine.user.groups if machine.user else (110,)


def broken_containers_conf(machine):
    podman_user(machine, groups=groups_of(machine))
    machine.write("/home/u1/.config/containers/containers.conf", "[engine\n")


def user_without_ids(machine):
    podman_user(machine, groups=groups_of(machine))
    machine.write("/etc/subuid", "other:100000:65536\n")


def user_without_group(machine):
    podman_user(machine, groups=(1000,))


def user_of_an_older_session(machine):
    machine.user = machine.user.replace(session_groups=(1000,))


def spec_of(machine, *, minor=None):
    """The CDI spec of a host, with another minor number of its first node where one is given."""
    wanted = GenerateOptions(output="/tmp/amd.json", language="json", options=CdiOptions())
    spec, _ = write_spec(FoundGpus(machine.host), wanted)
    if minor is not None:
        spec["devices"][0]["containerEdits"]["deviceNodes"][0]["minor"] = minor
    return spec


def left_by_its_job(machine, squeue="echo '8 RUNNING'"):
    machine.write("/etc/slurm/slurm.conf", "")
    machine.add_program("squeue", squeue)
    machine.write_proc("4711/status", "Name:\tsleep\nNSpid:\t4711\t1\n")
    machine.write_proc("4711/environ", "PATH=/bin\0SLURM_JOB_ID=7\0")


FAULTS = {
    "driver": without_driver,
    "windows": windows,
    "dkms": dkms_of_another_kernel,
    "secure-boot": secure_boot,
    "kfd": without_kfd_nodes,
    "gpu-state": broken_gpu,
    "nodes": missing_node,
    "node-access": closed_nodes,
    "gpu-access": rule_without_setting,
    "memory-limit": required_memory_limit,
    "user-namespace": user_namespace,
    "cdi": stale_cdi,
    "cdi-names": two_cdi_specs,
    "docker": docker_not_restarted,
    "docker-file": broken_daemon_json,
    "docker-context": docker_desktop,
    "docker-options": option_twice,
    "rootless": rootless,
    "selinux": selinux,
    "settings": broken_settings,
    "sharing": without_service,
    "tracker": broken_tracker,
    "tracker-files": full_run,
    "low-level-runtime": without_low_level_runtime,
    "packages": broken_package,
    "slurm": another_gpu_in_gres_conf,
    "slurm-jobs": left_by_its_job,
    "containerd": broken_containerd,
    "podman-file": broken_containers_conf,
    "podman-user": user_without_ids,
    "podman-nodes": user_without_group,
}
# What makes the host another one has to come first, and two of these are one fault.
REBUILDING = ("kfd", "driver", "dkms", "secure-boot", "windows")
# One hides what the other is about.
EXCLUSIVE = [
    *combinations(REBUILDING, 2),
    *((name, other) for name in REBUILDING for other in ("nodes", "node-access", "user-namespace", "gpu-state")),
    *((name, other) for name in REBUILDING for other in ("cdi", "cdi-names", "rootless", "tracker")),
    *((name, other) for name in REBUILDING for other in ("slurm", "podman-nodes")),
    *((name, "podman-nodes") for name in ("node-access",)),
    *(("nodes", other) for other in ("user-namespace", "cdi", "cdi-names")),
    *(("node-access", other) for other in ("user-namespace",)),
    *(("user-namespace", other) for other in ("cdi", "cdi-names")),
    ("cdi", "cdi-names"),
    *combinations(("docker", "docker-file", "docker-options"), 2),
    ("docker", "docker-context"),
    # Rootless Docker does not read the file of root.
    *((name, "rootless") for name in ("docker", "docker-file", "docker-options")),
    ("settings", "low-level-runtime"),
    ("settings", "sharing"),
    ("settings", "cdi"),
    ("settings", "cdi-names"),
    ("tracker", "cdi"),
    ("tracker", "cdi-names"),
]
PAIRS = [pair for pair in combinations(FAULTS, 2) if not {pair, pair[::-1]} & set(EXCLUSIVE)]


@pytest.mark.parametrize("profile", [name for name in profile_names() if name != "no-driver"])
def test_a_healthy_host_has_nothing_bad(machine, profile):
    well = machine(profile)

    assert well.bad() == []


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.needs("root")
def test_only_its_check_calls_a_fault_bad(machine, name):
    spoilt = machine()
    FAULTS[name](spoilt)

    assert spoilt.bad() == [name]


def small_apu(machine):
    """Have an APU of which KFD offers what the firmware has set aside, as before Linux 6.10."""
    profile = load_profile("strix-halo")
    (gpu,) = profile.gpus
    model = gpu.model.replace(kfd_bytes=gpu.model.vram_bytes)
    build_host(machine.host.root, profile.replace(gpus=(gpu.replace(model=model),)), bare=True)


def test_only_its_check_calls_an_apu_without_memory_bad(machine):
    spoilt = machine()
    small_apu(spoilt)

    (result,) = spoilt.examine(only=["apu-memory"])

    assert spoilt.bad() == ["apu-memory"]
    assert result.finding.words == "GPU 0 may use only the 512 MiB set aside for it"


def test_partitions_without_nodes_are_distinguished(machine):
    spoilt = machine("mi308x-8-cpx")
    spoilt.remove(NODE)

    assert spoilt.bad() == ["partitions"]


def test_two_partitions_of_a_gpu_are_partitions(machine):
    halved = machine()
    profile = load_profile("mi300x-8").with_every_gpu(partitions=2)
    build_host(halved.host.root, profile, bare=True)

    (result,) = halved.examine(only=["partitions"])

    assert (result.finding.state, result.finding.words) == ("ok", "all 16 partitions have their nodes")


def test_the_job_that_keeps_another_partition_mode_is_named(machine):
    in_use = machine("mi300x-8")
    tracker = Tracker(in_use.host)
    tracker.enable()
    tracker.reserve("0-1", name="nightly-job")
    tracker.reserve("1", name="other-job")

    (result,) = in_use.examine(only=["partition-mode"])

    assert in_use.bad() == []
    assert (result.finding.state, result.finding.words) == (
        "note",
        "GPUs [0 1] are in use by nightly-job, other-job: their partition mode cannot be changed now",
    )


def test_gpus_that_cannot_be_partitioned_are_not_spoken_of(machine):
    in_use = machine("mi210-4")
    tracker = Tracker(in_use.host)
    tracker.enable()
    tracker.reserve("0", name="nightly-job")

    assert [result.finding for result in in_use.examine(only=["partition-mode"])] == []


@pytest.fixture(scope="module")
def facts_by_fault(facts_of):
    """Return the facts of a host with each fault, and of one that is well as ""."""
    return {"": facts_of(), **{name: facts_of(spoil) for name, spoil in FAULTS.items()}}


def merge(well, first, second):
    """Return a value with what two of them have that the healthy one has not; the second counts where both have."""
    if second in (well, first):
        return first
    if first == well or not isinstance(second, type(first)):
        return second
    if isinstance(second, Value):
        ours = vars(first).items()
        return second.replace(
            **{name: merge(getattr(well, name, None), field, getattr(second, name)) for name, field in ours}
        )
    return (*first, *second) if isinstance(well, tuple) else second


def bad_of(facts):
    return {result.check for result in run_checks(facts) if result.finding.state == BAD}


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
@pytest.mark.needs("root")
def test_two_faults_are_both_found(facts_by_fault, pair):
    first, second = sorted(pair, key=lambda name: name not in REBUILDING)

    facts = merge(facts_by_fault[""], facts_by_fault[first], facts_by_fault[second])

    assert set(pair) <= bad_of(facts)


@pytest.mark.parametrize("pair", random.Random(20261123).sample(PAIRS, 12), ids="+".join)
def test_two_faults_of_one_host_are_read_as_they_are_put_together(facts_of, facts_by_fault, pair):
    first, second = sorted(pair, key=lambda name: name not in REBUILDING)

    together = merge(facts_by_fault[""], facts_by_fault[first], facts_by_fault[second])

    assert bad_of(facts_of(FAULTS[first], FAULTS[second])) == bad_of(together)


@pytest.mark.parametrize(
    ("profile", "check", "words", "fix"),
    [
        (
            "rx7900xtx-raphael",
            "integrated-gpu",
            "GPU 1 is integrated, and part of 'all'",
            "ask for the cards: AMD_VISIBLE_DEVICES=0",
        ),
        ("strix-halo", "apu-memory", "GPU 0 has 512 MiB set aside", ""),
    ],
)
def test_a_state_that_is_no_fault_is_a_note(machine, profile, check, words, fix):
    (result,) = machine(profile).examine(only=[check])

    assert (result.finding.state, words in result.finding.words) == ("note", True)
    assert result.finding.fix.startswith(fix)


def limited_machine(machine, controllers="cpu dmem", *, regions=4):
    """Return four MI210 and the limits of these controllers, and regions for the first of the GPUs."""
    limited = machine("mi210-4")
    set_setting(limited.host, "vram-maximum", 8192)
    limited.write("/sys/fs/cgroup/cgroup.controllers", f"{controllers}\n")
    known = [f"drm/{gpu.pci_address}/vram 68702699520\n" for gpu in find_gpus(limited.host)[:regions]]
    limited.write("/sys/fs/cgroup/dmem.capacity", "".join(known))
    return limited


def find_limit(limited):
    """Return what is said about limits on memory."""
    (result,) = limited.examine(only=["memory-limit"])
    return result.finding.state, result.finding.words, result.finding.fix


@pytest.mark.parametrize(
    ("controllers", "release", "state", "words"),
    [
        ("cpu memory", "6.12.1", "note", "limits on GPU memory are not enforced: the kernel has no dmem cgroup"),
        ("cpu dmem", "6.13.9", "ok", "the kernel enforces limits on GPU memory"),
        ("cpu dmem", "6.14.0-37-generic", "note", "kernel 6.14.0-37-generic enforces limits, but without a fix of May"),
        ("cpu dmem", "7.0.3", "note", "kernel 7.0.3 enforces limits, but without a fix of May 2026 programs can hang"),
        ("cpu dmem", "7.3.4+deb14-amd64", "ok", "the kernel enforces limits on GPU memory"),
    ],
)
def test_limits_on_memory_are_enforced_by_the_kernel_or_noted(machine, controllers, release, state, words):
    limited = limited_machine(machine, controllers)
    limited.write_proc("sys/kernel/osrelease", f"{release}\n")

    (result,) = limited.examine(only=["memory-limit"])

    assert result.finding.state == state
    assert result.finding.words.startswith(words)


def test_gpus_without_a_region_are_named(machine):
    limited = limited_machine(machine, regions=3)
    of_gpu = "the kernel has no memory region of GPU 3"
    refused = "containers are refused, because no limit on GPU memory can be enforced"

    assert find_limit(limited) == ("note", f"limits on GPU memory are not enforced for every container: {of_gpu}", "")

    set_setting(limited.host, "vram-limit", "required")
    assert find_limit(limited) == (
        "bad",
        f"some containers are refused, because they would have no limit on GPU memory: {of_gpu}",
        "sudo amd-ctk config set vram-limit asked",
    )

    limited.write("/sys/fs/cgroup/dmem.capacity", "")
    assert find_limit(limited) == (
        "bad",
        f"{refused}: the kernel has no memory region of GPUs 0-3",
        "sudo amd-ctk config set vram-limit asked",
    )


def test_crun_sets_limits_where_systemd_makes_the_cgroup(machine):
    limited = limited_machine(machine)
    set_setting(limited.host, "low-level-runtime", limited.add_program("crun", "echo crun version 1.28"))

    assert find_limit(limited) == (
        "ok",
        "the kernel enforces limits on GPU memory, and crun sets them where systemd makes the container's cgroup",
        "",
    )


OLD_CRUN = "crun 1.14.1 does not set all limits of a container in systemd's scope; install crun 1.21 or later"


def test_an_old_crun_sets_no_limit(machine):
    limited = limited_machine(machine)
    set_setting(limited.host, "low-level-runtime", limited.add_program("crun", "echo crun version 1.14.1"))

    assert find_limit(limited) == (
        "note",
        f"limits on GPU memory are not enforced: {OLD_CRUN}",
        "",
    )


PODMANS = '[engine]\ncgroup_manager = "{}"\n[engine.runtimes]\namd = ["/usr/bin/amd-container-runtime"]\n'
CONTAINERDS = """version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.amd.options]
BinaryName = "/usr/bin/amd-container-runtime"
SystemdCgroup = {}
"""


def docker_with(limited, driver):
    limited.docker |= {"CgroupDriver": driver, "Runtimes": {"runc": {}, "amd": {}}}


def podman_with(limited, manager):
    limited.add_program("podman", "echo podman version 5.8.6")
    limited.write("/etc/containers/containers.conf", PODMANS.format(manager))


def containerd_with(limited, driver):
    limited.write("/etc/containerd/config.toml", CONTAINERDS.format(str(driver == "systemd").lower()))


@pytest.mark.parametrize(
    ("engine", "use"), [("Docker", docker_with), ("Podman", podman_with), ("containerd", containerd_with)]
)
def test_an_engine_that_makes_cgroups_without_systemd_gets_no_limit_from_crun(machine, engine, use):
    limited = limited_machine(machine)
    set_setting(limited.host, "low-level-runtime", limited.add_program("crun", "echo crun version 1.28"))
    because = f"crun sets limits on GPU memory only where systemd makes the cgroup, and {engine} does not use it"
    step = "sudo amd-ctk config set low-level-runtime runc"

    use(limited, "systemd")
    assert find_limit(limited)[0] == "ok"

    use(limited, "cgroupfs")
    assert find_limit(limited) == ("note", f"limits are not enforced for every container: {because}", step)

    set_setting(limited.host, "vram-limit", "required")
    assert find_limit(limited) == ("bad", f"containers are refused: {because}", step)

    set_setting(limited.host, "low-level-runtime", "runc")
    assert find_limit(limited)[0] == "ok"


def test_limits_depend_on_the_cgroups_of_roots_podman_alone(machine):
    limited = limited_machine(machine)
    set_setting(limited.host, "low-level-runtime", limited.add_program("crun", "echo crun version 1.28"))
    limited.user = User(name="u1", uid=1000, groups=(), home="/home/u1", runtime_directory="/run/user/1000")
    limited.write("/home/u1/.local/share/containers/storage/libpod/bolt_state.db", "")
    limited.write("/home/u1/.config/containers/containers.conf", '[engine]\ncgroup_manager = "cgroupfs"\n')

    podman_with(limited, "systemd")
    assert find_limit(limited)[0] == "ok"

    limited.write("/home/u1/.config/containers/containers.conf", '[engine]\ncgroup_manager = "systemd"\n')
    podman_with(limited, "cgroupfs")
    assert find_limit(limited)[0] == "note"


def test_each_amd_runtime_of_containerd_counts(machine):
    limited = limited_machine(machine)
    set_setting(limited.host, "low-level-runtime", limited.add_program("crun", "echo crun version 1.28"))
    other = CONTAINERDS.format("false").replace("runtimes.amd.options", "runtimes.other.options")
    limited.write("/etc/containerd/config.toml", CONTAINERDS.format("true") + other.removeprefix("version = 2\n"))

    assert find_limit(limited)[0] == "note"


def test_where_no_container_needs_a_limit_memory_is_not_checked(machine):
    assert machine("mi210-4").examine(only=["memory-limit"]) == []


def test_a_group_that_this_host_cannot_have_is_noted(machine):
    grouped = machine("mi210-4")
    set_setting(grouped.host, "gpu-groups", ["notebooks=0", "training=99"])

    (result,) = grouped.examine(only=["settings"])

    assert (result.finding.state, result.finding.words) == (
        "note",
        "gpu-groups: group:training: GPU 99 does not exist, this host has GPUs 0-3",
    )
    assert result.finding.fix == "amd-ctk config show gpu-groups, then correct it"


def test_a_daemon_with_the_runtime_is_well(machine):
    well = machine()
    program = well.add_program("amd-container-runtime", "exit 0")
    well.write("/etc/docker/daemon.json", json.dumps({"runtimes": {"amd": {"path": program}}}))
    well.docker["Runtimes"]["amd"] = {}

    states = well.states()

    assert (states["docker"], states["docker-file"]) == ("ok", "ok")


def test_a_runtime_that_daemon_json_names_and_is_gone_is_bad(machine):
    spoilt = machine()
    runtime_that_is_gone(spoilt)

    assert spoilt.bad() == ["docker-file"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (runtime_that_nothing_defines, "daemon.json has the default runtime amd, but no entry defines it"),
        (
            file_that_dockerd_refuses,
            "dockerd refuses /etc/docker/daemon.json: unable to configure the Docker daemon with file: unknown key: x",
        ),
    ],
)
def test_a_file_with_which_dockerd_does_not_start_is_bad(machine, spoil, words):
    spoilt = machine()
    spoil(spoilt)

    (result,) = spoilt.examine(only=["docker-file"])

    assert (spoilt.bad(), result.finding.words) == (["docker-file"], words)


def test_a_runtime_that_is_not_executable_is_bad(machine):
    spoilt = machine()
    runtime_that_is_closed(spoilt)

    assert spoilt.bad() == ["docker-file"]


def test_a_default_runtime_of_the_command_line_is_defined(machine):
    well = machine()
    runtime_that_nothing_defines(well)
    unit = "[Service]\nExecStart=/usr/bin/dockerd --add-runtime amd=/usr/bin/amd-container-runtime\n"
    well.write("/usr/lib/systemd/system/docker.service", unit)

    assert well.bad() == []


def test_docker_before_23_cannot_judge_its_file(machine):
    well = machine()
    well.add_program("dockerd", "echo unknown flag: --validate >&2; exit 125")
    well.write("/etc/docker/daemon.json", "{}")

    assert well.bad() == []


def test_a_directory_is_no_node(machine):
    spoilt = machine()
    directory_in_place_of_a_node(spoilt)

    (result,) = spoilt.examine(only=["nodes"])

    assert spoilt.bad() == ["nodes"]
    assert result.finding.words == (
        f"{NODE} is a directory, which 'docker run -v {NODE}:{NODE}' makes where the node is missing"
    )


def test_a_closed_directory_of_nodes_is_bad(machine):
    spoilt = machine()
    os.chmod(spoilt.root / "dev/dri", 0o700)

    (result,) = spoilt.examine(only=["node-access"])

    assert (result.finding.state, result.finding.words) == ("bad", "/dev/dri is closed to all users but root")


def test_windows_is_not_suspected_where_the_driver_works(machine):
    well = machine()
    well.write("/dev/dxg", "")

    assert well.examine(only=["windows"]) == []


@pytest.mark.parametrize(
    ("version", "states"),
    [
        ("20.10.24", ["note", "note"]),
        ("26.1.5", ["note", "note"]),
        ("28.5.2", ["ok", "note"]),
        ("29.4.0", ["ok", "note"]),
    ],
)
def test_the_version_of_an_engine_decides_about_its_abilities(machine, version, states):
    well = machine()
    well.docker["ServerVersion"] = version

    assert [result.finding.state for result in well.examine(only=["docker-cdi", "docker-gpus"])] == states


def test_every_check_has_a_fault_or_is_never_bad():
    never_bad = {
        "integrated-gpu",
        "docker-cdi",
        "docker-compose",
        "partition-mode",
        "gpu-drained",
        "gpu-leaked",
        "sharing",
        "departed-users",
        "unstarted-containers",
    }
    tried_elsewhere = {
        "gpu-health",
        "gpu-dirty",
        "gpu-lost",
        "podman-cdi",
        "partitions",
        "containers",
        "apu-memory",
        "docker-gpus",
        "sudo",
    }
    of_a_container = {name for name in check_names() if name.startswith("inside-")}

    assert set(check_names()) - of_a_container == set(FAULTS) | never_bad | tried_elsewhere


def test_a_check_that_does_not_exist_is_named():
    with pytest.raises(DoctorError, match="there is no check nodez") as refused:
        run_checks(None, only=["nodez"])
    assert refused.value.hint == "did you mean nodes? reference/doctor.md lists all"


@pytest.mark.needs("root")
def test_a_user_of_rootless_podman_for_whom_all_is_well_has_nothing_bad(machine):
    well = machine()
    podman_user(well)

    assert well.bad() == []
    states = well.states()
    assert [states[f"podman-{name}"] for name in ("file", "user", "nodes")] == ["note", "ok", "note"]


@pytest.mark.parametrize(("engine", "checks"), [("", []), ("podman", ["podman-user"])])
def test_a_user_without_containers_of_podman_counts_where_podman_is_meant(machine, engine, checks):
    made = machine()
    podman_user(made)
    made.remove("/home/u1/.local/share/containers")

    assert [result.check for result in made.examine(only=["podman-user"], engine=engine)] == checks


@pytest.mark.parametrize(
    ("spoil", "check", "words", "fix"),
    [
        (
            lambda made: made.remove("/run/user/1000"),
            "podman-user",
            "user u1 has no /run/user/1000",
            "log in as u1, not with su, or: sudo loginctl enable-linger u1",
        ),
        (
            user_without_ids,
            "podman-user",
            "user u1 has no range of ids in /etc/subuid",
            f"sudo usermod {RANGES} u1, with a free range, then podman system migrate",
        ),
        (
            user_without_group,
            "podman-nodes",
            "user u1 is not in group 110, which /dev/dri/renderD128 belongs to",
            "sudo gpasswd --add u1 $(stat -c %G /dev/dri/renderD128), and log in again",
        ),
        (
            user_of_an_older_session,
            "podman-nodes",
            "user u1 is in group 110, but logged in before that",
            "log out and in again, so that programs may open the nodes",
        ),
        (
            lambda made: made.write("/etc/containers/containers.conf", '[engine]\nruntime = "runc"\n'),
            "podman-nodes",
            "Podman uses runc, which does not keep the groups that may open /dev/dri/renderD128",
            "install crun, and add --runtime=crun --group-add=keep-groups",
        ),
        (
            lambda made: made.write(
                "/home/u1/.config/containers/containers.conf.d/amd.conf",
                '[engine.runtimes]\namd = ["/nowhere/amd-container-runtime"]\n',
            ),
            "podman-file",
            "containers.conf names /nowhere/amd-container-runtime, which does not exist",
            "sudo amd-ctk runtime configure --runtime=podman",
        ),
        (
            lambda made: made.write("/etc/containers/containers.conf", '[engine]\nruntime = "amd"\n'),
            "podman-file",
            "containers.conf has the default runtime amd, but no entry defines it",
            "sudo amd-ctk runtime configure --runtime=podman",
        ),
    ],
)
@pytest.mark.needs("root")
def test_a_lack_of_rootless_podman_is_named(machine, spoil, check, words, fix):
    made = machine()
    podman_user(made)
    spoil(made)

    (finding,) = [result.finding for result in made.examine() if result.finding.state == "bad"]
    (result,) = made.examine(only=[check])

    assert (result.finding, finding.words, finding.fix) == (finding, words, fix)


@pytest.mark.parametrize(
    ("spoil", "state", "words"),
    [
        (lambda made: made.write("/etc/slurm/gres.conf", f"Name=gpu File={NODE}\n"), "note", "ConstrainDevices=yes"),
        (lambda made: made.write("/etc/slurm/oci.conf", 'RunTimeRun="runc run %n -b %b"\n'), "bad", "Slurm calls runc"),
        (
            lambda made: made.write("/etc/slurm/oci.conf", 'RunTimeRun="amd-container-runtime run %n -b %b"\n'),
            "note",
            "differently from this version",
        ),
        (lambda made: made.write("/etc/slurm/gres.conf", "AutoDetect=rsmi\n"), "bad", "gres.conf has AutoDetect"),
    ],
)
def test_lines_of_slurms_files_are_judged(machine, spoil, state, words):
    made = machine()
    made.write("/etc/slurm/gres.conf", f"Name=gpu File={NODE}\n")
    spoil(made)

    (result,) = made.examine(only=["slurm"])

    assert (result.finding.state, words in result.finding.words) == (state, True)


@pytest.mark.parametrize(
    ("squeue", "state", "words"),
    [
        ("echo '7 RUNNING'", "ok", "no container outlives its job"),
        ("echo '70 RUNNING'", "bad", "a container of job 7 (process 4711) is still running, but its job is over"),
        ("echo '7 CANCELLED'", "bad", "a container of job 7 (process 4711) is still running, but its job is over"),
        (
            "echo '7 COMPLETING'",
            "note",
            "a container of job 7 (process 4711) has not ended yet, and Slurm waits for it",
        ),
        ("exit 1", "not checked", "which jobs are over: squeue gives no answer"),
    ],
)
def test_a_container_of_a_job_is_compared_with_what_slurm_says(machine, squeue, state, words):
    made = machine()
    left_by_its_job(made, squeue)

    (result,) = made.examine(only=["slurm-jobs"])

    assert (result.finding.state, result.finding.words) == (state, words)


@pytest.mark.parametrize(
    ("status", "environ"),
    [
        ("NSpid:\t4711\n", "SLURM_JOB_ID=7\0"),
        ("NSpid:\t4711\t2\n", "SLURM_JOB_ID=7\0"),
        ("NSpid:\t4711\t1\n", "PATH=/bin\0"),
        ("NSpid:\t4711\t1\n", "SLURM_JOB_ID=all\0"),
        ("NSpid:\t4711\t1\n", f"SLURM_JOB_ID={'7' * 99}\0"),
    ],
)
def test_a_process_that_is_not_the_first_of_its_job_is_passed_over(machine, status, environ):
    made = machine()
    left_by_its_job(made)
    made.write_proc("4711/status", status)
    made.write_proc("4711/environ", environ)

    (result,) = made.examine(only=["slurm-jobs"])

    assert result.finding.state == "ok"


@pytest.mark.parametrize(
    "source", ["deb [arch=amd64] https://repo.radeon.com/x {} main\n", "URIs: https://repo.amd.com/x\nSuites: {}\n"]
)
@pytest.mark.parametrize(("release", "state"), [("noble", "note"), ("trixie", "ok")])
def test_packages_for_another_release_are_noted(machine, source, release, state):
    made = machine()
    made.write("/var/lib/dpkg/status", "Package: amdgpu-dkms\nStatus: install ok installed\n")
    made.write("/etc/os-release", "ID=debian\nVERSION_CODENAME=trixie\n")
    made.write("/etc/apt/sources.list.d/amd.list", f"# of AMD\n{source.format(release)}")

    (result,) = made.examine(only=["packages"])

    assert result.finding.state == state


@pytest.mark.parametrize(
    "name",
    [
        "amd-container-runtime",
        "amd-container-toolkit",
        "amd-ctk",
        "amd-device-spec",
        "amd-gpu-tracker",
        "amdgpu-discovery",
    ],
)
def test_each_package_of_the_toolkit_that_failed_half_way_is_named(machine, name):
    made = machine()
    made.write("/var/lib/dpkg/status", f"Package: {name}\nStatus: install ok half-configured\n")

    (result,) = made.examine(only=["packages"])

    assert (result.finding.state, result.finding.words) == ("bad", f"{name} is half-configured")


def test_packages_of_several_builds_are_noted(machine):
    made = machine()
    for name, build in {"amd-ctk": "2.0.0-2", "amd-gpu-tracker": "2.0.0-1", "amdgpu-discovery": "2.0.0-1"}.items():
        made.write(f"/usr/lib/amd-container-toolkit/parts/{name}/BUILD", f"# {build}\nsum  file\n")
    made.write("/var/lib/dpkg/status", "Package: amd-ctk\nStatus: install ok installed\n")

    (result,) = made.examine(only=["packages"])

    assert result.finding.state == "note"
    assert "amd-ctk is from another build than the others" in str(result.finding)


@pytest.mark.parametrize("engine", ["docker", "podman", "containerd", "slurm"])
@pytest.mark.needs("root")
def test_with_an_engine_the_checks_of_others_are_left_out(machine, engine):
    spoilt = machine()
    names = {"docker": "docker-file", "podman": "podman-user", "containerd": "containerd", "slurm": "slurm"}
    for name in names.values():
        FAULTS[name](spoilt)
    missing_node(spoilt)

    found = [result.check for result in spoilt.examine(engine=engine) if result.finding.state == BAD]

    assert found == ["nodes", names[engine]]


def test_where_no_package_of_amd_is_wanted_there_is_nothing_to_say(machine):
    made = machine()
    removed = "Package: amd-container-toolkit\nStatus: deinstall ok config-files\n"
    made.write("/var/lib/dpkg/status", f"Package: bash\nStatus: install ok half-installed\n\n{removed}")

    assert made.examine(only=["packages"]) == []


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ("", "bad"),
        ('runtime_supports_nocgroup = ["crun"]\n', "bad"),
        ('runtime_supports_nocgroup = ["crun", "amd"]\n', "ok"),
        # As Podman's manual has it, and Podman has not.
        ('runtime_supports_nocgroups = ["amd"]\n', "bad"),
    ],
)
def test_podman_without_cgroups_refuses_a_runtime_that_no_list_names(machine, lines, state):
    made = machine()
    made.add_program("podman", "exit 1")
    program = made.add_program("amd-container-runtime", "exit 0")
    made.write(
        "/etc/containers/containers.conf",
        f'[containers]\ncgroups = "disabled"\n[engine]\n{lines}[engine.runtimes]\namd = ["{program}"]\n',
    )

    (result,) = made.examine(only=["podman-file"])

    assert result.finding.state == state
