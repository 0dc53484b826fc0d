"""Does `docker run --gpus` mean AMD's GPUs?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "docker"
WHY = "Docker before 28.3 says 'could not select device driver'; from then on only the AMD runtime understands it"
PLACE = "how-to/troubleshoot.md#what-engines-say"
FIRST = (28, 3)
BY_CDI = (29, 3)


def check(facts: Facts) -> Finding | None:
    """Say what --gpus does with this version."""
    docker = facts.docker
    if not docker.version:
        return None
    if docker.version < FIRST:
        words = f"Docker {docker.version_words} has no --gpus for AMD"
        return note(words, fix="use --runtime=amd -e AMD_VISIBLE_DEVICES=all")
    if docker.version < BY_CDI and docker.default_runtime not in (docker.file_runtimes or ("amd",)):
        return note("--gpus has no effect without --runtime=amd", fix="add --runtime=amd")
    return ok("--gpus works for AMD GPUs")
