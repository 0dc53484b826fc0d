"""Is daemon.json what Docker understands, and is the program there that it names?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "docker"
WHY = "dockerd does not start with a broken file, and no container starts under a runtime that is not there"
PLACE = "how-to/configure-engines.md"


def check(facts: Facts) -> Finding | None:
    """Judge what daemon.json says of the AMD runtime."""
    docker = facts.docker
    if docker.file_problem:
        words = f"{docker.file_path} cannot be read: {docker.file_problem}"
        return bad(words, fix=f"sudo dockerd --validate --config-file {docker.file_path}, and correct it")
    if docker.missing_programs:
        words = f"daemon.json names {docker.missing_programs[0]}, which is not there"
        return bad(words, fix=docker.configure_command)
    return ok("daemon.json is understood") if docker.file_runtimes else None
