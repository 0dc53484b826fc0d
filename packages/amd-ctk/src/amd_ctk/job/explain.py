"""Preview of `amd-ctk run`: the GPUs that the command would get, what it would wait for, or why it is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping

from amd_ctk.engines.engine_words import find_engine
from amd_ctk.explain.running import is_set_up
from amd_ctk.job.run import find_engine_options, find_limit
from amd_ctk.job.service import preview
from amd_ctk.job.start import GivenGpus, PlannedJob
from amd_device_spec.slurm.job_gpus import FILTERS
from amd_gpu_tracker import Reservation
from amd_gpu_tracker.book.job_ids import require_name
from amd_gpu_tracker.times import format_seconds, parse_duration
from amd_gpu_tracker.watch.show.jobs import describe_grant
from amdgpu_discovery.command_line.listing import to_json
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_text import printable
from amdgpu_discovery.value import Value

# The version of the format of `--json`.
VERSION = 1
A_SECRET = "is set, to pass the GPUs on to a container"  # noqa: S105 - it says what that is for


class JobExplanation(Value):
    """What would happen to a job, or why it is refused, and the caller's variables that its command does not get."""

    foreseen: GivenGpus = GivenGpus()
    refusal: ToolkitError | None = None
    removed: tuple[str, ...] = ()

    @property
    def starts(self) -> bool:
        """Return whether the command would start now."""
        return self.refusal is None and not self.foreseen.message


def explain_job(host: Host, job: PlannedJob, environment: Mapping[str, str] = os.environ) -> JobExplanation:
    """Return what would happen to a job that a caller with this environment starts."""
    try:
        # Asking a Podman that was never used would make it set itself up.
        is_asked = is_set_up(job.argv[find_engine(job.argv)])
        limit = find_limit(job, host, find_engine_options(job, host, environment) if is_asked else None)
        require_name(job.name)
        parse_duration(job.wait or "")
        foreseen = preview(host, job.replace(part_mib=limit.part_mib if limit else 0))
        if limit:
            variables = limit.variables_for(host, foreseen.numbers)
            foreseen = foreseen.replace(environment={**foreseen.environment, **variables})
    except ToolkitError as error:
        return JobExplanation(refusal=error)
    removed = tuple(name for name in FILTERS if name in environment and name not in foreseen.environment)
    return JobExplanation(foreseen=foreseen, removed=removed)


def format_job(explanation: JobExplanation) -> str:
    """Return the GPUs and the variables that the command gets, or what prevents its start."""
    foreseen = explanation.foreseen
    if explanation.refusal:
        lines = ["The command does not start:", *_indented(str(explanation.refusal))]
    elif foreseen.message:
        lines = ["The command does not start yet:", *_indented(foreseen.message)]
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
            "waits_for": foreseen.message or None,
            "gpus": list(foreseen.numbers),
            "seconds": foreseen.seconds or None,
            "environment": dict(foreseen.environment),
            "removed": list(explanation.removed),
            "refusals": [str(explanation.refusal)] if explanation.refusal else [],
        }
    )


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _starts(foreseen: GivenGpus) -> str:
    gpus = f"with {describe_grant(foreseen.numbers, None)}" if foreseen.numbers else "without a GPU"
    limit = f" for at most {format_seconds(foreseen.seconds)}" if foreseen.seconds else ""
    return f"The command starts now, {gpus}{limit}"


def _variables(explanation: JobExplanation) -> list[str]:
    foreseen = explanation.foreseen
    given = [f"{name}={value}" for name, value in foreseen.environment.items()]
    secret = [f"{Reservation.VARIABLE} {A_SECRET}"] if foreseen.numbers else []
    return [*given, *secret, *(f"{name} is removed" for name in explanation.removed)]
