"""The Slurm job in the environment of a container."""

from __future__ import annotations

from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

JOB_ID = "SLURM_JOB_ID"
# A step may have fewer GPUs than its job. Slurm uses the step's variable also for the part that a task gets.
GPUS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
NODE = "SLURMD_NODENAME"
# A host has at most 64 GPUs, with numbers of two digits.
LONGEST_GPU_LIST = 1024


class SlurmError(ToolkitError):
    """Slurm gave a job GPUs, but its configuration does not show which."""

    exit_code = 4


class Job(Value):
    """A job, or a step of one.

    Attributes:
        variable: The variable that lists its GPUs; "" if there is none.
        gpus: The value of that variable: positions of devices in gres.conf.
        node: Slurm's name of this node; "" if the environment does not have it.
    """

    variable: str
    gpus: str
    node: str

    @property
    def positions(self) -> list[int]:
        """Return the positions of the GPUs in gres.conf; SlurmError if the value is not a list of numbers."""
        positions = parse_numbers(self.gpus) if self.gpus else []
        if positions is None:
            raise SlurmError(f"{self.variable}={shown(self.gpus)} is not a list of numbers")
        return positions


def parse_job(variables: Mapping[str, str]) -> Job | None:
    """Return the job that Slurm's variables describe; None if they describe none."""
    variable = next((name for name in GPUS if variables.get(name)), "")
    if not variable and JOB_ID not in variables:
        return None
    return Job(variable=variable, gpus=variables.get(variable, ""), node=variables.get(NODE, ""))


def parse_numbers(text: str) -> list[int] | None:
    """Return the numbers of a list; None if it contains anything else."""
    words = text.split(",") if len(text) <= LONGEST_GPU_LIST else [""]
    if not all(word.isascii() and word.isdecimal() for word in words):
        return None
    return [int(word) for word in words]
