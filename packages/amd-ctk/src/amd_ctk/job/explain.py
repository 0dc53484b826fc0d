"""What `amd-ctk run` would do now: with which GPUs the command starts, what it waits for, or why it is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping

from amd_ctk.job.foresee import Foreseen, foresee
from amd_ctk.job.run import PlannedJob
from amd_ctk.listing import to_json
from amd_device_spec.slurm.filters import FILTERS
from amd_gpu_tracker.records.lease import TOKEN
from amd_gpu_tracker.records.plain_text import printable
from amd_gpu_tracker.waiting.sentences import format_seconds, got
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# What `--json` prints is of this version.
VERSION = 1
A_SECRET = "is set, to hand the GPUs on to a container"  # noqa: S105 - it says what that is for


class JobExplanation(Value):
    """What becomes of a job, or why it is refused, and the caller's variables that its command does not see."""

    foreseen: Foreseen = Foreseen()
    refusal: ToolkitError | None = None
    removed: tuple[str, ...] = ()

    @property
    def starts(self) -> bool:
        """Return whether the command would start now."""
        return self.refusal is None and not self.foreseen.waits_for


def explain_job(host: Host, job: PlannedJob, environment: Mapping[str, str] = os.environ) -> JobExplanation:
    """Return what becomes of a job that a caller with this environment starts."""
    try:
        foreseen = foresee(host, job.name, job.request, job.wait, job.reservation, is_spare=job.is_spare)
    except ToolkitError as error:
        return JobExplanation(refusal=error)
    removed = tuple(name for name in FILTERS if name in environment and name not in foreseen.environment)
    return JobExplanation(foreseen=foreseen, removed=removed)


def format_job(explanation: JobExplanation) -> str:
    """Return the GPUs and the variables that the command gets, or what is in the way."""
    foreseen = explanation.foreseen
    if explanation.refusal:
        lines = ["The command does not start:", *_indented(str(explanation.refusal))]
    elif foreseen.waits_for:
        lines = ["The command does not start yet:", *_indented(foreseen.waits_for)]
    else:
        lines = [_starts(foreseen), *_variables(explanation)]
    return "\n".join(map(printable, lines))


def format_job_as_json(explanation: JobExplanation) -> str:
    """Return everything as JSON, as explain/schema/explain-run.json describes it."""
    foreseen = explanation.foreseen
    return to_json(
        {
            "version": VERSION,
            "starts": explanation.starts,
            "waits_for": foreseen.waits_for or None,
            "gpus": list(foreseen.numbers),
            "seconds": foreseen.seconds or None,
            "environment": foreseen.environment,
            "removed": list(explanation.removed),
            "refusals": [str(explanation.refusal)] if explanation.refusal else [],
        }
    )


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _starts(foreseen: Foreseen) -> str:
    gpus = f"with {got(foreseen.numbers, None)}" if foreseen.numbers else "without a GPU"
    limit = f" for at most {format_seconds(foreseen.seconds)}" if foreseen.seconds else ""
    return f"The command starts now, {gpus}{limit}"


def _variables(explanation: JobExplanation) -> list[str]:
    foreseen = explanation.foreseen
    given = [f"{name}={value}" for name, value in foreseen.environment.items()]
    secret = [f"{TOKEN} {A_SECRET}"] if foreseen.numbers else []
    return [*given, *secret, *(f"{name} is removed" for name in explanation.removed)]
