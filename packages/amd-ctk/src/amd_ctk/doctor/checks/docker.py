"""Does the docker daemon know the AMD runtime?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, not_checked, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "docker"
WHY = "'docker run --runtime=amd' is refused, or a container silently has no GPU"
PLACE = "how-to/configure-engines.md"


def check(facts: Facts) -> Finding | None:
    """Judge whether the daemon runs with what its file says."""
    docker = facts.docker
    is_elsewhere = docker.other_machine or "Docker Desktop" in docker.operating_system
    if not docker.is_installed or docker.is_broken or is_elsewhere:
        return None
    if docker.problem:
        return _judge_silence(docker.problem)
    version, lost = docker.version_words, [name for name in docker.file_runtimes if name not in docker.runtimes]
    if lost:
        words = f"{version} was started before daemon.json had the runtime {lost[0]}"
        return bad(words, fix=docker.restart_command)
    if not docker.file_runtimes and "amd" not in docker.runtimes:
        return note(f"{version} has no runtime amd", fix=docker.configure_command)
    return ok(f"{version} has the runtime {', '.join(docker.file_runtimes) or 'amd'}")


def _judge_silence(problem: str) -> Finding:
    words = f"the docker daemon does not answer: {problem}"
    if "permission denied" in problem.lower():
        return not_checked(words, needs="root or group docker")
    is_hanging = "gave no answer" in problem
    return not_checked(words, needs=f"sudo systemctl {'status' if is_hanging else 'start'} docker")
