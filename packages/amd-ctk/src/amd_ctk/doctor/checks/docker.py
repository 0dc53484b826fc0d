"""Checks of Docker and containerd."""

from __future__ import annotations

from shlex import quote

from amd_ctk.doctor.check import Finding, bad, check, not_checked, note, ok
from amd_ctk.doctor.checks.cdi import GENERATE, judge_directories, judge_version
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.docker import LATE, REFUSED, DockerFacts
from amd_ctk.engines.docker import (
    FIRST_COMPOSE_WITH_GPUS,
    FIRST_GPUS_BY_CDI,
    FIRST_WITH_CDI,
    FIRST_WITH_GPUS,
    ROOTLESS_FILE,
)
from amd_ctk.engines.engine_address import PODMAN_API_FIX

CONFIGURE = "sudo amd-ctk runtime configure"
USE_AMD_RUNTIME = "use --runtime=amd -e AMD_VISIBLE_DEVICES=all"


@check(
    engine="containerd",
    why="containerd does not start if its file is broken; containers do not start if their runtime is missing",
    see="how-to/configure-engines.md",
)
def check_containerd(facts: Facts) -> Finding | None:
    """Is containerd's config.toml valid, and does the program that it names exist?"""
    containerd = facts.containerd
    if containerd.problem:
        fix = f"correct {containerd.broken_file}, and try it with: containerd config dump"
        return bad(f"containerd cannot read {containerd.broken_file}: {containerd.problem}", fix=fix)
    if containerd.missing_program:
        words = f"containerd's config.toml names {containerd.missing_program}, which does not exist"
        return bad(words, fix="sudo amd-ctk runtime configure --runtime=containerd")
    if containerd.refusal and not containerd.runtimes:
        return note(f"{containerd.refusal.message}, which has no runtime amd", fix=containerd.refusal.hint)
    return ok(f"containerd has the runtime {containerd.runtimes[-1]}") if containerd.runtimes else None


@check(
    engine="docker",
    why="'docker run --runtime=amd' fails, or a container silently gets no GPU",
    see="how-to/configure-engines.md",
)
def check_docker(facts: Facts) -> Finding | None:
    """Does the docker daemon know the AMD runtime?"""
    docker = facts.docker
    is_elsewhere = docker.endpoint.is_other_machine or docker.is_desktop
    if not docker.is_installed or docker.is_broken or is_elsewhere:
        return None
    if docker.is_podman:
        return note("'docker' talks to Podman, which drops the runtime that a container asks for", fix=PODMAN_API_FIX)
    if docker.problem:
        return _judge_no_answer(docker)
    version = docker.version_text
    lost = [name for name in docker.file_runtimes if name not in docker.runtimes]
    if lost:
        words = f"{version} was started before {docker.file_name} had the runtime {lost[0]}"
        return bad(words, fix=restart_command(docker))
    if not docker.file_runtimes and "amd" not in docker.runtimes:
        return note(f"{version} has no runtime amd", fix=configure_and_restart(docker))
    return ok(f"{version} has the runtime {', '.join(docker.file_runtimes) or 'amd'}")


def configure_command(docker: DockerFacts) -> str:
    """Return the command that registers the AMD runtime with this engine."""
    own_file = docker.file_path or f"~/.config/{ROOTLESS_FILE}"
    return f"amd-ctk runtime configure --config-path={own_file}" if docker.is_rootless else CONFIGURE


def restart_command(docker: DockerFacts) -> str:
    """Return the command that makes this engine read its file again."""
    return "systemctl --user restart docker" if docker.is_rootless else "sudo systemctl restart docker"


def configure_and_restart(docker: DockerFacts) -> str:
    """Return the commands after which containers can use the AMD runtime."""
    return docker.by_hand or f"{configure_command(docker)} && {restart_command(docker)}"


def _judge_no_answer(docker: DockerFacts) -> Finding:
    words = f"the docker daemon does not answer: {docker.problem}"
    endpoint = docker.endpoint
    if docker.silence == REFUSED:
        return not_checked(words, needs="root or group docker")
    if endpoint.undo:
        there = f"an engine at {endpoint.address}" if endpoint.address else "a context that exists"
        return not_checked(words, needs=f"{there}, or: {endpoint.undo}")
    return not_checked(words, needs=f"sudo systemctl {'status' if docker.silence == LATE else 'start'} docker")


@check(engine="docker", why="'--device amd.com/gpu=0' fails", see="reference/engines.md#notes-on-engines")
def check_docker_cdi(facts: Facts) -> Finding | None:
    """Does Docker read CDI specs?"""
    docker = facts.docker
    if not docker.version:
        return None
    if docker.version < FIRST_WITH_CDI:
        return note(f"Docker {docker.version_text} has no CDI; Docker 25 and later have it", fix="use --runtime=amd")
    if not docker.has_cdi:
        return note("Docker's CDI is off", fix=f"{configure_command(docker)} --cdi && {restart_command(docker)}")
    elsewhere = judge_directories("Docker", docker.cdi_elsewhere, facts.cdi)
    return elsewhere or judge_version("Docker", docker.version, facts.cdi) or ok("Docker reads CDI specs")


@check(
    engine="docker",
    why="a service with 'gpus:' starts without a GPU, and one with a CDI device below 'devices:' does not start",
    see="how-to/compose.md",
)
def check_docker_compose(facts: Facts) -> Finding | None:
    """Does Docker Compose support every way to request GPUs?"""
    version = facts.docker.compose_version
    if not version or version >= FIRST_COMPOSE_WITH_GPUS:
        return None
    words = f"Compose {'.'.join(map(str, version[:2]))} supports neither 'gpus:' nor CDI devices below 'devices:'"
    return note(words, fix="write 'runtime: amd' or 'deploy:' in Compose files")


@check(
    engine="docker",
    why="containers get the GPUs of the machine that runs them; Docker Desktop's virtual machine has none",
    see="reference/support.md#engines",
)
def check_docker_context(facts: Facts) -> Finding | None:
    """Is the engine behind `docker` on another machine?"""
    endpoint = facts.docker.endpoint
    if endpoint.is_other_machine:
        silent = " and does not answer" if facts.docker.problem else ""
        words = f"'docker' talks to {endpoint.address}, which is not this machine{silent}"
        return note(words, fix=f"run amd-ctk doctor there, or: {endpoint.undo}")
    if not facts.docker.is_desktop:
        return None
    return bad("'docker' talks to Docker Desktop, which runs in a virtual machine", fix="docker context use default")


@check(
    engine="docker",
    why="dockerd does not start if its file is broken; containers do not start if their runtime is missing",
    see="how-to/configure-engines.md",
)
def check_docker_file(facts: Facts) -> Finding | None:
    """Is daemon.json valid, and does the program that it names exist?"""
    docker = facts.docker
    if docker.file_problem:
        words = f"{docker.file_path} cannot be read: {docker.file_problem}"
        return bad(words, fix=f"sudo dockerd --validate --config-file {docker.file_path}, and correct it")
    if finding := _judge_programs(docker):
        return finding
    if docker.file_refusal:
        words = f"dockerd refuses {docker.file_path}: {docker.file_refusal}"
        return bad(words, fix=f"correct it, and try: dockerd --validate --config-file {docker.file_path}")
    if user := docker.user_without_range:
        words = f"{docker.file_name} gives containers ids of {user}, who has no range in /etc/subuid and /etc/subgid"
        ranges = "--add-subuids 100000-165535 --add-subgids 100000-165535"
        return bad(
            words, fix=f"sudo usermod {ranges} {quote(user)}, with a free range, then: {restart_command(docker)}"
        )
    if docker.undefined_runtime:
        words = f"{docker.file_name} has the default runtime {docker.undefined_runtime}, but no entry defines it"
        return bad(words, fix=f"add it to runtimes in {docker.file_path}, or remove default-runtime")
    return ok(f"{docker.file_name} is valid") if docker.file_runtimes else None


def _judge_programs(docker: DockerFacts) -> Finding | None:
    if docker.foreign_program:
        words = f"the runtime amd in {docker.file_name} is {docker.foreign_program!r}, which is not the AMD runtime"
        return bad(words, fix=f"remove it from {docker.file_path}, and then: {configure_and_restart(docker)}")
    if docker.missing_programs:
        words = f"{docker.file_name} names {docker.missing_programs[0]}, which does not exist"
        return bad(words, fix=configure_and_restart(docker))
    if docker.closed_programs:
        words = f"{docker.file_name} names {docker.closed_programs[0]}, which is not executable"
        return bad(words, fix=f"sudo chmod 755 {quote(docker.closed_programs[0])}")
    return None


@check(
    engine="docker",
    why="Docker before 28.3 says 'could not select device driver'; 28.3 uses the AMD runtime, 29.3 and later use CDI",
    see="how-to/troubleshoot.md#what-engines-say",
)
def check_docker_gpus(facts: Facts) -> Finding | None:
    """Does `docker run --gpus` mean AMD's GPUs?"""
    docker = facts.docker
    if not docker.version:
        return None
    why = facts.ignored_gpus_option
    if why:
        return bad(f"{facts.container_name} asks with --gpus, but {why}", fix=USE_AMD_RUNTIME)
    if docker.version < FIRST_WITH_GPUS:
        return note(f"Docker {docker.version_text} has no --gpus for AMD", fix=USE_AMD_RUNTIME)
    if facts.takes_cdi or docker.default_runtime in (docker.file_runtimes or ("amd",)):
        return ok("--gpus works for AMD GPUs")
    words = "--gpus has no effect without --runtime=amd"
    because = _find_cdi_obstacle(facts) if docker.version >= FIRST_GPUS_BY_CDI else ""
    if docker.version < FIRST_GPUS_BY_CDI or because:
        return note(f"{words}{because}", fix="add --runtime=amd")
    # dockerd looks for specs when it starts.
    return note(f"{words}, as no CDI spec offers amd.com/gpu", fix=f"{GENERATE} && {restart_command(docker)}")


def _find_cdi_obstacle(facts: Facts) -> str:
    """Return what keeps Docker from AMD's CDI devices for `--gpus`; a missing spec does not count."""
    if facts.cdi.has_nvidia:
        return ", because there are NVIDIA CDI devices"
    return "" if facts.docker.has_cdi else ", because Docker's CDI is off"


@check(
    engine="docker",
    why="dockerd does not start with a setting both in daemon.json and on its command line",
    see="how-to/configure-engines.md",
)
def check_docker_options(facts: Facts) -> Finding | None:
    """Is a setting both on the daemon's command line and in its file?"""
    taken = facts.docker.taken_directives
    if not taken:
        return None
    words = f"docker's unit sets {taken[0]}, and so does {facts.docker.file_name}: dockerd does not start with both"
    return bad(words, fix="sudo systemctl edit docker.service, and remove the option")


@check(
    engine="docker",
    why="without root, engines cannot make nodes; they bind the host's nodes, with the host's mode",
    see="explanation/access.md#rootless-engines",
)
def check_rootless(facts: Facts) -> Finding | None:
    """Can a rootless engine open the nodes?"""
    docker = facts.docker
    closed = facts.gpus.closed_nodes
    if docker.maps_users and closed and not docker.is_rootless:
        # The AMD runtime makes nodes that the mapped ids may open. With --device and CDI, the host's mode counts.
        words = f"Docker maps user ids, and with --device {closed[0].path} keeps its mode {closed[0].mode:04o}"
        return note(words, fix="use --runtime=amd, or --userns=host with --device")
    if not docker.is_rootless:
        return None
    if closed:
        words = f"Docker is rootless, and {closed[0].path} has mode {closed[0].mode:04o}"
        return bad(words, fix='add a udev rule that sets MODE="0666": see explanation/access.md#rootless-engines')
    return ok("Docker is rootless, and the nodes are open to everyone")
