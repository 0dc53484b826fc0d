"""All checks of doctor, and their results as values, as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from amd_ctk.doctor.check import BAD, NOT_CHECKED, NOTE, OK, Check, Finding
from amd_ctk.doctor.checks import cdi, docker, gpus, inside, inside_image, kernel, podman, slurm, toolkit
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.pages import find_page
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.untrusted.plain_text import printable
from amdgpu_discovery.value import Value

CHECKS = {
    found.name: found
    for module in (kernel, gpus, cdi, docker, podman, slurm, toolkit, inside, inside_image)
    for found in vars(module).values()
    if isinstance(found, Check)
}
# Results are shown in this order, from the kernel to the nodes; those of all other checks follow by name.
ORDER = ("windows", "driver", "dkms", "secure-boot", "kfd", "gpu-state", "nodes", "partitions", "node-access")
# The engines that --engine accepts. Checks that concern all engines run with each of them.
ENGINES = ("docker", "podman", "containerd", "slurm")
# Twice the length of the longest name.
LONGEST_CHECK_NAME = 40
# The version of the format of `--json`; see schema/doctor.json.
VERSION = 1


class DoctorError(ToolkitError):
    """A check or an engine that does not exist, or a bundle that cannot be written."""

    exit_code = 2


class Result(Value):
    """What one check found, why it matters, and the documentation page about it."""

    check: str
    finding: Finding
    why: str
    see: str


def check_names() -> list[str]:
    """Return the ids of all checks, in the order in which they are shown."""
    return [*ORDER, *sorted(CHECKS.keys() - {*ORDER})]


def run_checks(facts: Facts, *, only: Iterable[str] = (), skip: Iterable[str] = (), engine: str = "") -> list[Result]:
    """Run the checks and return their results; DoctorError for an unknown name.

    With an `engine`, checks of the other engines are left out.
    """
    known = check_names()
    for name in (*only, *skip):
        if name not in known:
            spelt = name[:LONGEST_CHECK_NAME].replace("_", "-").lower()
            hint = f"did you mean {get_close_matches(spelt, known, n=1, cutoff=0)[0]}? reference/doctor.md lists all"
            raise DoctorError(f"there is no check {name}", hint=hint)
    chosen = [CHECKS[name] for name in known if (not only or name in only) and name not in skip]
    return [
        Result(check=one.name, finding=finding, why=one.why, see=one.see)
        for one in chosen
        if (not engine or one.engine in ("", engine)) and (finding := one.judge(facts))
    ]


def require_engine(engine: str) -> None:
    """Raise DoctorError for an engine that doctor does not know; "" means all engines."""
    if engine and engine not in ENGINES:
        raise DoctorError(f"there is no engine {engine}", hint=f"there are {', '.join(ENGINES)}")


def format_results(results: Sequence[Result], *, verbose: bool = False) -> str:
    """Return a line for each check, its fix below it, and the totals."""
    names = max((len(result.check) for result in results), default=0)
    lines = [line for result in results for line in _lines(result, names, verbose=verbose)]
    return "\n".join([*lines, _sums(results)])


def format_json(results: Sequence[Result]) -> str:
    """Return {"version", "healthy", "checks"}, as schema/doctor.json describes it."""
    checks = [
        {"id": result.check, **result.finding.as_dict(), "why": result.why, "see": result.see} for result in results
    ]
    return json.dumps({"version": VERSION, "healthy": is_healthy(results), "checks": checks}, indent=2)


def is_healthy(results: Sequence[Result]) -> bool:
    """Return whether no finding is bad."""
    return all(result.finding.state != BAD for result in results)


def _lines(result: Result, width: int, *, verbose: bool) -> list[str]:
    finding = result.finding
    indent = " " * (width + 2 + len(NOT_CHECKED) + 2)
    lines = [f"{result.check:<{width}}  {finding.state:<{len(NOT_CHECKED)}}  {printable(finding.words)}"]
    if finding.needs:
        lines.append(f"{indent}needs: {printable(finding.needs)}")
    if finding.fix:
        word = "fix" if finding.state == BAD else "option"
        lines.append(f"{indent}{word}: {printable(finding.fix)}")
    if verbose:
        lines += [f"{indent}why: {result.why}", f"{indent}see: {find_page(result.see)}"]
    return lines


def _sums(results: Sequence[Result]) -> str:
    if not results:
        return "none of these checks applies to this host"
    counts = Counter(result.finding.state for result in results)
    known = f"{counts[OK]} ok, {counts[BAD]} bad, {_plural(counts[NOTE], 'note')}"
    return f"{_plural(len(results), 'check')}: {known}, {counts[NOT_CHECKED]} not checked"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
