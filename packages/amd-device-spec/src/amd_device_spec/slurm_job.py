"""What Slurm says of a job in the environment of a container."""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.unknown_gpus import shown
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

JOB_ID = "SLURM_JOB_ID"
# A step may have less than its job, and Slurm gives tasks a part of their step by the same variable.
GPUS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
NODE = "SLURMD_NODENAME"
# A host has 64 GPUs at most, with numbers of two digits.
LONGEST_LIST = 1024


class SlurmError(ToolkitError):
    """Slurm gave a job GPUs, and its configuration does not say which these are."""

    exit_code = 4


class Job(Value):
    """A job, or a step of one.

    Attributes:
        variable: The variable that names its GPUs; "" where it has none.
        gpus: The value of it: positions of devices in gres.conf.
        node: What Slurm calls this node; "" where it does not say.
    """

    variable: str
    gpus: str
    node: str

    @property
    def positions(self) -> list[int]:
        """Return the positions of the GPUs in gres.conf; SlurmError where the value is no list of numbers."""
        positions = parse_numbers(self.gpus) if self.gpus else []
        if positions is None:
            raise SlurmError(f"{self.variable}={shown(self.gpus)} is not a list of numbers")
        return positions


def parse_job(variables: Mapping[str, str]) -> Job | None:
    """Return what variables of Slurm say; None where they are not those of a job."""
    variable = next((name for name in GPUS if variables.get(name)), "")
    if not variable and JOB_ID not in variables:
        return None
    return Job(variable=variable, gpus=variables.get(variable, ""), node=variables.get(NODE, ""))


def parse_numbers(text: str) -> list[int] | None:
    """Return the numbers of a list, None where it holds anything else."""
    words = text.split(",") if len(text) <= LONGEST_LIST else [""]
    if not all(word.isascii() and word.isdecimal() for word in words):
        return None
    return [int(word) for word in words]
