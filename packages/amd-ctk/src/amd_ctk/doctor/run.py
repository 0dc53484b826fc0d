"""Find the checks and let them judge."""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from amd_ctk.doctor.facts.all import Facts

# In which order they are shown: from the kernel to the container; new ones come behind.
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
    place: str


def check_names() -> list[str]:
    """Return the ids of all checks, in the order in which they are shown."""
    from pkgutil import iter_modules

    from amd_ctk.doctor import checks

    names = sorted(module.name.replace("_", "-") for module in iter_modules(checks.__path__))
    return [*ORDER, *(name for name in names if name not in ORDER)]


def run_checks(facts: Facts, *, only: Iterable[str] = (), skip: Iterable[str] = (), engine: str = "") -> list[Result]:
    """Return what each check has to say; DoctorError for a name that no check has.

    With an `engine`, checks of the other engines are left out.
    """
    known = check_names()
    for name in (*only, *skip):
        if name not in known:
            hint = f"did you mean {_nearest(name, known)}? reference/doctor.md lists all"
            raise DoctorError(f"there is no check {name}", hint=hint)
    chosen = [name for name in known if (not only or name in only) and name not in skip]
    modules = {name: load_check(name) for name in chosen}
    results = (_run(name, module, facts) for name, module in modules.items() if _is_about(module, engine))
    return [result for result in results if result]


def require_engine(engine: str) -> None:
    """Raise DoctorError for the name of an engine that doctor does not know; "" is all of them."""
    if engine and engine not in ENGINES:
        raise DoctorError(f"there is no engine {engine}", hint=f"there are {', '.join(ENGINES)}")


def _nearest(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    return get_close_matches(name[:LONGEST_NAME].replace("_", "-").lower(), known, n=1, cutoff=0)[0]


def _is_about(module: ModuleType, engine: str) -> bool:
    return not engine or getattr(module, "ENGINE", engine) == engine


def load_check(name: str) -> ModuleType:
    """Return the module of a check, as checks/__init__.py describes it."""
    from importlib import import_module

    return import_module(f"amd_ctk.doctor.checks.{name.replace('-', '_')}")


def _run(name: str, module: ModuleType, facts: Facts) -> Result | None:
    finding: Finding | None = module.check(facts)
    return Result(check=name, finding=finding, why=module.WHY, place=module.PLACE) if finding else None
