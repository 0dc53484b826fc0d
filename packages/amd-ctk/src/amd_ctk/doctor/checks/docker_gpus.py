"""Does `docker run --gpus` mean AMD's GPUs?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok
from amd_ctk.doctor.inside.tried import FIRST_BY_CDI, FIRST_WITH_GPUS, ignored_gpus_option, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "docker"
WHY = "Docker before 28.3 says 'could not select device driver'; from then on only the AMD runtime understands it"
PLACE = "how-to/troubleshoot.md#what-engines-say"
INSTEAD = "use --runtime=amd -e AMD_VISIBLE_DEVICES=all"


def check(facts: Facts) -> Finding | None:
    """Judge what --gpus does with this version, and for a container that was given it."""
    docker = facts.docker
    if not docker.version:
        return None
    why = ignored_gpus_option(facts)
    if why:
        return bad(f"{name_of(facts)} asks with --gpus, and {why}", fix=INSTEAD)
    if docker.version < FIRST_WITH_GPUS:
        return note(f"Docker {docker.version_words} has no --gpus for AMD", fix=INSTEAD)
    if docker.version < FIRST_BY_CDI and docker.default_runtime not in (docker.file_runtimes or ("amd",)):
        return note("--gpus has no effect without --runtime=amd", fix="add --runtime=amd")
    return ok("--gpus works for AMD GPUs")
