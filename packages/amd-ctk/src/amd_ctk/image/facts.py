"""What images are held against: the GPUs of this host, or those of them that a container will get."""

from __future__ import annotations

from amd_ctk.image.errors import ImageError
from amdgpu_discovery.discover import find_gpus, find_unnumbered_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.requirements.facts import ContainerFacts, read_facts
from amdgpu_discovery.selection import select_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.host import Host


def read_host(host: Host, request: str, environment: Sequence[str] = ()) -> ContainerFacts:
    """Return the facts about the GPUs of a request, in a container with an environment.

    ImageError where there is no driver or no GPU, or where the request cannot be met.
    """
    try:
        gpus = select_gpus(find_gpus(host), request, unnumbered=lambda: find_unnumbered_gpus(host))
    except ToolkitError as error:
        # Of the commands about images, exit code 1 means that an image was judged and does not fit.
        raise ImageError(error.message, hint=error.hint) from error
    if not gpus:
        raise ImageError("there is no GPU that an image could fit", hint="'amd-ctk gpu list' shows the GPUs")
    variables = dict(entry.partition("=")[::2] for entry in environment)
    return read_facts(host, {gpu.number for gpu in gpus}, variables)
