"""Checks of the toolkit itself, and of running containers."""

from __future__ import annotations

from shlex import quote

from amd_ctk.doctor.check import Finding, bad, check, not_checked, note, ok
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.containers import StaleContainer
from amd_ctk.doctor.facts.docker import AMD
from amd_ctk.doctor.facts.engine_files import CGROUPFS
from amd_device_spec.settings import CONFIG_FILE

# The most commands in one line of a shell.
MOST_FIXES = 8
# By a part of the path of a bundle, the command of the engine that makes such paths.
RESTARTS = {
    "/io.containerd.runtime.v2.task/moby/": "docker restart",
    "/overlay-containers/": "podman restart",
    "/vfs-containers/": "podman restart",
    # The kubelet makes a new container.
    "/io.containerd.runtime.v2.task/k8s.io/": "crictl stop",
}


@check(
    why="a container keeps the device numbers that it started with, but the driver may have assigned others since",
    see="explanation/access.md#the-device-cgroup-is-the-gate",
)
def check_containers(facts: Facts) -> Finding | None:
    """Do running containers have current device numbers?"""
    if facts.stale_containers is None:
        return not_checked("the running containers", needs="root")
    for stale in facts.stale_containers:
        return bad(
            f"container {stale.container_id[:12]} has {stale.path} as {stale.inside}, but the host has {stale.outside}",
            fix=f"start it again: {_restart(stale)}",
        )
    return ok("all running containers have the host's device numbers")


def _restart(stale: StaleContainer) -> str:
    short_id = stale.container_id[:12]
    known = [command for part, command in RESTARTS.items() if part in stale.bundle]
    return f"{known[0]} {short_id}" if known else f"restart {short_id} with the engine that started it"


@check(
    why="a container can take the memory of its neighbours on a GPU if the kernel does not enforce its limit",
    see="how-to/limit-gpu-memory.md",
)
def check_memory_limit(facts: Facts) -> Finding | None:
    """Are limits on GPU memory enforced, and in every container?"""
    toolkit = facts.toolkit
    if not toolkit.limits_memory:
        return None
    if toolkit.memory_obstacle and toolkit.requires_memory_limit:
        words = f"containers are refused, because no limit on GPU memory can be enforced: {toolkit.memory_obstacle}"
        return bad(words, fix="sudo amd-ctk config set vram-limit asked")
    if toolkit.memory_obstacle:
        return note(f"limits on GPU memory are not enforced: {toolkit.memory_obstacle}")
    if gap := _find_gap(facts):
        return gap
    if _may_hang_at_limit(facts.kernel.release):
        words = f"kernel {facts.kernel.release} enforces limits, but without a fix of May 2026 programs can hang there"
        return note(words)
    by_crun = ", and crun sets them where systemd makes the container's cgroup" if toolkit.step_to_runc else ""
    return ok(f"the kernel enforces limits on GPU memory{by_crun}")


def _find_gap(facts: Facts) -> Finding | None:
    """Return what is wrong if some containers have a limit and others have none, None if all have one."""
    toolkit = facts.toolkit
    if left_out := _without_systemd(facts) if toolkit.step_to_runc else "":
        because = f"crun sets limits on GPU memory only where systemd makes the cgroup, and {left_out} does not use it"
        if toolkit.requires_memory_limit:
            return bad(f"containers are refused: {because}", fix=toolkit.step_to_runc)
        return note(f"limits are not enforced for every container: {because}", fix=toolkit.step_to_runc)
    if toolkit.memory_gap and toolkit.requires_memory_limit:
        words = f"some containers are refused, because they would have no limit on GPU memory: {toolkit.memory_gap}"
        return bad(words, fix="sudo amd-ctk config set vram-limit asked")
    if toolkit.memory_gap:
        return note(f"limits on GPU memory are not enforced for every container: {toolkit.memory_gap}")
    return None


def _without_systemd(facts: Facts) -> str:
    """Return the first engine under whose AMD runtime systemd does not make cgroups, "" if there is none."""
    docker, podman, containerd = facts.docker, facts.podman, facts.containerd
    left_out = {
        "Docker": docker.cgroup_driver == CGROUPFS and not {*docker.file_runtimes, AMD}.isdisjoint(docker.runtimes),
        "Podman": podman.files.uses_cgroupfs,
        "containerd": containerd.uses_cgroupfs,
    }
    return next((name for name, is_left_out in left_out.items() if is_left_out), "")


def _may_hang_at_limit(release: str) -> bool:
    """Return whether a kernel is one of those whose memory manager can repeat an allocation at the limit for ever.

    Source: "Convert -EAGAIN from dmem_cgroup_try_charge to -ENOSPC" in drm/ttm. Stable kernels have it, too, but their
    release does not tell.
    """
    numbers = [int(part) if part.isdecimal() else 0 for part in release.split("-", maxsplit=1)[0].split(".")[:2]]
    return (6, 14) <= tuple(numbers) <= (7, 0)


@check(
    why="an engine that is killed between create and start can leave a container that it does not list any more; it "
    "keeps its GPUs",
    see="reference/messages.md#the-gpu-tracker",
)
def check_unstarted_containers(facts: Facts) -> Finding | None:
    """Was every created container also started?"""
    for left in facts.unstarted_containers:
        words = f"container {left.container_id[:12]} with {left.path} was created and never started"
        root = f"--root {quote(left.root)} " if left.root else ""
        return note(words, fix=f"sudo runc {root}delete --force {quote(left.container_id)}")
    return None


@check(
    why="the AMD runtime prepares the container and then executes runc or crun",
    see="reference/runtime.md#the-low-level-runtime",
)
def check_low_level_runtime(facts: Facts) -> Finding | None:
    """Is runc or crun installed?"""
    toolkit = facts.toolkit
    if toolkit.broken_low_level:
        words = f"low-level-runtime is {toolkit.broken_low_level}, which cannot be run"
        return bad(words, fix="sudo amd-ctk config unset low-level-runtime")
    if toolkit.has_low_level:
        return ok("a low-level runtime is installed")
    if not toolkit.runtime_program:
        return None
    return bad("neither runc nor crun is installed", fix="install runc or crun")


@check(why="with invalid settings no container with GPUs starts", see="reference/config.md")
def check_settings(facts: Facts) -> Finding | None:
    """Are the toolkit's settings valid?"""
    toolkit = facts.toolkit
    if toolkit.settings_problem:
        hint = f": {toolkit.settings_hint}" if toolkit.settings_hint else ""
        return bad(toolkit.settings_problem, fix=f"correct {CONFIG_FILE}{hint}")
    if not toolkit.is_compiled:
        return note("config.toml was changed since it was compiled", fix="sudo amd-ctk config compile")
    if toolkit.group_problems:
        return note(f"gpu-groups: {toolkit.group_problems[0]}", fix="amd-ctk config show gpu-groups, then correct it")
    if toolkit.visible_devices_env != "always":
        return note(f"visible-devices-env is {toolkit.visible_devices_env}: variables may give no GPU")
    return ok("the settings are valid")


@check(
    why="a service gives GPUs to people; it also ends jobs at their time limit, and watches for idle GPUs",
    see="how-to/share.md",
)
def check_sharing(facts: Facts) -> Finding | None:
    """Does the service that shares GPUs answer?"""
    toolkit = facts.toolkit
    if toolkit.missing_sharing:
        words = "amd-gpu-sharing is not installed: rules for people are not applied"
        return bad(words, fix=toolkit.missing_sharing)
    silent = toolkit.service_silence
    if toolkit.has_users and not toolkit.is_served:
        words = f"people may reserve GPUs, but the service that gives them out {silent}"
        return bad(words, fix=toolkit.service_fix)
    if toolkit.requires_reservation and not toolkit.has_users:
        words = "containers need a reservation, but only root may make one"
        return note(words, fix="sudo amd-ctk users allow NAME, for each user who may reserve GPUs")
    if toolkit.idle and not toolkit.is_served:
        words = f"idle is {toolkit.idle}, but the service that watches for it {silent}"
        return note(words, fix=toolkit.service_fix)
    if toolkit.has_users and not toolkit.may_look_at_users:
        words = "root may not look at processes of users here, so that jobs may outlive their time limit"
        return bad(words, fix="start the container with --cap-add=SYS_PTRACE")
    return ok("the service that gives GPUs to people answers") if toolkit.has_users else None


@check(
    why="GPUs are given to numbers: who has that of a deleted account, or of one of another machine, gets them",
    see="how-to/share.md",
)
def check_departed_users(facts: Facts) -> Finding | None:
    """Does every user and group in the rules, jobs and reservations have the number that is written there?"""
    departed = facts.toolkit.departed
    if not departed:
        return None
    more = f", and {len(departed) - 1} more" if len(departed) > 1 else ""
    words = f"a rule, job or reservation has a number that no user or group has here, or one of another name{more}"
    return note(words, fix=" && ".join(f"sudo amd-ctk {each}" for each in departed[:MOST_FIXES]))


@check(why="sudo looks for programs only in the directories of its secure_path", see="how-to/install.md")
def check_sudo(facts: Facts) -> Finding | None:
    """Does sudo find amd-ctk?"""
    toolkit = facts.toolkit
    if not toolkit.secure_path or not toolkit.program_directory:
        return None
    if toolkit.program_directory in toolkit.secure_path:
        return ok("sudo finds amd-ctk")
    words = f"sudo does not look in {toolkit.program_directory}"
    fix = f"sudo {toolkit.program_directory}/amd-ctk ..."
    # Programs of a virtual environment are usually called by their path.
    return note(words, fix=fix) if toolkit.is_virtual_environment else bad(words, fix=fix)


@check(
    why="if its state is unreadable or describes other GPUs, no container gets a GPU",
    see="reference/messages.md#the-gpu-tracker",
)
def check_tracker(facts: Facts) -> Finding | None:
    """Does the GPU Tracker know the GPUs?"""
    toolkit = facts.toolkit
    if toolkit.tracker_problem and facts.gpus.gpus:
        fix = "install the later toolkit again" if toolkit.tracker_is_later else "sudo amd-ctk gpu-tracker reset"
        return bad(toolkit.tracker_problem, fix=fix)
    if toolkit.has_former_tracker and facts.gpus.gpus:
        words = "the GPU Tracker still has the state of AMD's toolkit 1.x; the next container or command converts it"
        return note(words, fix="sudo amd-ctk gpu-tracker status")
    if toolkit.has_former_tracker:
        return note("the GPU Tracker will convert the state of AMD's toolkit 1.x once there are GPUs")
    if toolkit.tracker_problem:
        return not_checked("the GPU Tracker's state", needs="GPUs")
    if toolkit.dead_leases:
        count = toolkit.dead_leases
        words = f"{count} reservation{'' if count == 1 else 's'} of containers that are gone"
        return note(f"{words}; the next container with a GPU removes {'it' if count == 1 else 'them'}")
    return ok("the GPU Tracker's state is valid")


@check(why="a container with GPUs starts only after its reservation is written", see="reference/files.md#written")
def check_tracker_files(facts: Facts) -> Finding | None:
    """Can reservations and history be written?"""
    if facts.toolkit.unwritable:
        return bad(facts.toolkit.unwritable, fix="df --output=avail,iavail,target /run, then free some space")
    for problem in facts.toolkit.unrecorded:
        return note(f"not everything is recorded: {problem}")
    return None
