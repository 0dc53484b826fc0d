"""The facts that `amd-ctk gpu query --format` can print of a GPU, by the names of its fields."""

from __future__ import annotations

import re

from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.models import model_of
from amdgpu_discovery.requirements.facts import ContainerFacts, GpuFacts
from amdgpu_discovery.targets import family_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.gpu import Gpu

FIELD = re.compile(r"\{([^{}]*)\}")


class QueryError(ToolkitError):
    """A format of `gpu query` that means nothing."""

    exit_code = 2


def format_gpus(text: str, gpus: Sequence[Gpu], facts: ContainerFacts) -> list[str]:
    """Return a line for each GPU, and of equal lines one; QueryError where there is no such field."""
    described = {gpu.number: gpu for gpu in facts.gpus}
    lines = [_format(text, _fields(gpu, described[gpu.number], facts)) for gpu in gpus]
    return list(dict.fromkeys(lines))


def _format(text: str, fields: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in fields:
            known = ", ".join(f"{{{field}}}" for field in fields)
            raise QueryError(f"there is no field {{{match[1]}}}", hint=f"the fields are {known}")
        return fields[match[1]]

    return FIELD.sub(value, text)


def _fields(gpu: Gpu, judged: GpuFacts, facts: ContainerFacts) -> dict[str, str]:
    """Return the facts under the names that `AMD_REQUIRE_*` and templates of images have for them; "" is unknown."""
    return {
        "number": str(gpu.number),
        "gfx": judged.target,
        "family": family_of(judged.target),
        "model": model_of(gpu),
        "vram": "" if judged.vram_mib is None else str(judged.vram_mib),
        "partition": "-".join(filter(None, (judged.compute_partition, judged.memory_partition))),
        "pci": str(gpu.pci_address),
        "driver": facts.driver,
        "rocm": facts.rocm[-1] if facts.rocm else "",
        "kernel": facts.kernel,
        "cpu": f"x86-64-v{facts.cpu_level}" if facts.cpu_level else "",
    }
