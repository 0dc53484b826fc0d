"""What is wrong with a choice, in one sentence."""

from __future__ import annotations

from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.unknown_gpus import SHOW_GPUS, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CONDITIONS = "gfx942, gfx94X, MI300X, vram:64GiB, numa:0, xgmi, discrete, integrated, spx to cpx, group:NAME"


def combined(choice: str, other: str) -> RequestError:
    """Say that a choice stands alone."""
    both = f"{shown(choice, quoted=True)} cannot be combined with {shown(other, quoted=True)}"
    return RequestError(f"{both}: name GPUs, or say how many")


def repeated(choice: str) -> RequestError:
    """Say that a choice is no item of a list, also where it could be added up."""
    return RequestError(
        f"{shown(choice, quoted=True)} is written twice, but a choice stands alone", hint="as in auto:2"
    )


def is_no_cdi_name(choice: str) -> RequestError:
    """Say that a CDI spec has no choices."""
    return RequestError(
        f"{shown(choice, quoted=True)} is not a CDI device: a CDI spec is static, and what a choice means depends on"
        " the moment",
        hint=f"write {shown(choice)} without 'amd.com/gpu='",
    )


def depends_on_the_moment(choice: str) -> RequestError:
    """Say that here GPUs are meant whether they are in use or not."""
    return RequestError(
        f"{shown(choice)} depends on which GPUs are in use, which does not count here",
        hint="name GPUs, or write all with conditions, such as all+gfx942",
    )


def no_count(choice: str) -> RequestError:
    """Say that behind the colon stands how many GPUs are needed."""
    return RequestError(f"{shown(choice, quoted=True)} does not say how many GPUs", hint="as in auto:2")


def asks_for_no_gpu(choice: str) -> RequestError:
    """Say how no GPU is asked for."""
    return RequestError(f"{shown(choice, quoted=True)} asks for no GPU", hint="write none")


def empty_condition(choice: str) -> RequestError:
    """Say that something is missing."""
    return RequestError(f"{shown(choice, quoted=True)} has an empty condition", hint=f"conditions are {CONDITIONS}")


def unknown_condition(text: str) -> RequestError:
    """Say which conditions there are."""
    return RequestError(f"{shown(text, quoted=True)} is not a condition", hint=f"conditions are {CONDITIONS}")


def too_many_conditions(count: int, most: int) -> RequestError:
    """Say how many are read."""
    return RequestError(f"a choice with {count} conditions is too long", hint=f"at most {most} are read")


def no_amount(text: str) -> RequestError:
    """Say how memory is written."""
    return RequestError(f"{shown(text, quoted=True)} is not an amount of memory", hint="as in vram:64GiB")


def no_numa_node(text: str) -> RequestError:
    """Say how a NUMA node is written."""
    return RequestError(f"{shown(text, quoted=True)} is not a NUMA node", hint="as in numa:0")


def no_group_name(text: str) -> RequestError:
    """Say how a group is written."""
    return RequestError(f"{shown(text, quoted=True)} names no group", hint="as in group:NAME")


def no_such_group(group: str, names: Sequence[str]) -> RequestError:
    """Say which groups the configuration has."""
    return RequestError(
        f"there is no group {shown(group, quoted=True)}",
        hint=f"gpu-groups of the configuration has {', '.join(names)}" if names else "gpu-groups sets groups",
    )


def no_gpu_fits(choice: str, conditions: Sequence[str]) -> RequestError:
    """Say that no GPU is what a condition wants, or none all that several want."""
    what = ", ".join(shown(condition) for condition in conditions)
    what = what if len(conditions) == 1 else f"all of {what}"
    return RequestError(f"{shown(choice)}: no GPU of this host fits {what}", hint=SHOW_GPUS)


def too_few_gpus(choice: str, fitting: int, total: int, *, is_host: bool) -> RequestError:
    """Say how many GPUs there are, of which `fitting` are what is wanted."""
    gpus = f"{total} GPU{'' if total == 1 else 's'}"
    whose = f"this host has {gpus}" if is_host else f"this process may use {gpus}"
    if fitting < total:
        whose = f"{fitting} of {gpus} {'fits' if fitting == 1 else 'fit'}"
    return RequestError(f"{shown(choice)}: {whose}")


def hive_too_small(choice: str, largest: int) -> RequestError:
    """Say how many GPUs reach each other."""
    return RequestError(
        f"{shown(choice)}: the largest XGMI hive has {largest} GPU{'' if largest == 1 else 's'} that fit"
    )
