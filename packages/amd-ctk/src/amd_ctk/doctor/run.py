"""The checks there are, and what they have to say about a host."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from amd_ctk.doctor.check import Check, Finding
from amd_ctk.doctor.checks import cdi, conditions, docker, gpus, inside, inside_image, kernel, podman, slurm, toolkit
from amd_ctk.doctor.facts.all import Facts
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

CHECKS = {
    found.name: found
    for module in (kernel, gpus, conditions, cdi, docker, podman, slurm, toolkit, inside, inside_image)
    for found in vars(module).values()
    if isinstance(found, Check)
}
# In which order they are shown: from the kernel to the nodes; all others by name.
ORDER = ("windows", "driver", "dkms", "secure-boot", "kfd", "gpu-state", "nodes", "partitions", "node-access")
# Whose checks --engine chooses; what all of them depend on is checked with each.
ENGINES = ("docker", "podman", "containerd", "slurm")
# Twice the longest.
LONGEST_NAME = 40


class DoctorError(ToolkitError):
    """A check or an engine that does not exist, or a bundle that cannot be written."""

    exit_code = 2


class Result(Value):
    """What one check found out, why it matters, and the page that says more."""

    check: str
    finding: Finding
    why: str
    see: str


def check_names() -> list[str]:
    """Return the ids of all checks, in the order in which they are shown."""
    return [*ORDER, *sorted(CHECKS.keys() - {*ORDER})]


def run_checks(facts: Facts, *, only: Iterable[str] = (), skip: Iterable[str] = (), engine: str = "") -> list[Result]:
    """Return what each check has to say; DoctorError for a name that no check has.

    With an `engine`, checks of the other engines are left out.
    """
    known = check_names()
    for name in (*only, *skip):
        if name not in known:
            hint = f"did you mean {_nearest(name, known)}? reference/doctor.md lists all"
            raise DoctorError(f"there is no check {name}", hint=hint)
    chosen = [CHECKS[name] for name in known if (not only or name in only) and name not in skip]
    results = (_run(one, facts) for one in chosen if not engine or one.engine in ("", engine))
    return [result for result in results if result]


def require_engine(engine: str) -> None:
    """Raise DoctorError for the name of an engine that doctor does not know; "" is all of them."""
    if engine and engine not in ENGINES:
        raise DoctorError(f"there is no engine {engine}", hint=f"there are {', '.join(ENGINES)}")


def _nearest(name: str, known: list[str]) -> str:
    return get_close_matches(name[:LONGEST_NAME].replace("_", "-").lower(), known, n=1, cutoff=0)[0]


def _run(check: Check, facts: Facts) -> Result | None:
    finding = check.judge(facts)
    return Result(check=check.name, finding=finding, why=check.why, see=check.see) if finding else None
