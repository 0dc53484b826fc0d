"""Take over the state of the original toolkit (1.x): whether it tracked, and which GPUs were exclusive.

A state that it accepts is taken over. A state that it refuses is refused here too, until `reset`. Its containers are
not taken over: nothing that it wrote proves that one of them is alive.
"""

from __future__ import annotations

from amd_gpu_tracker.book.matching import read_tracked_gpus
from amd_gpu_tracker.book.policy import Policy, TrackedGpu
from amd_gpu_tracker.enabled import FORMER_FILE
from amd_gpu_tracker.errors import StateError
from amdgpu_discovery.errors import reason
from amdgpu_discovery.numbering import locate_gpus, require_all_gpus
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

# Its values for accessibility.
FORMER_SHARED = 0
FORMER_EXCLUSIVE = 1
# Tracks other GPUs than any host has, so that every GPU is refused with the guide's message until `reset`.
REFUSE_ALL = Policy(enabled=True)


class FormerGpu(Value):
    """A GPU as the original recorded it.

    `unique_id` is 0 if it knew none, `partition` None if it wrote nothing.
    """

    unique_id: int
    accessibility: int
    partition: str | None


def read_former_policy(host: Host) -> Policy | None:
    """Return the policy in the original's file, None if there is none.

    StateError if the original refuses it, or if an exclusive GPU can no longer be identified. DriverUnavailable if the
    driver, which is needed to understand it, is not loaded (yet).
    """
    try:
        content = read_plain_file(host.path(FORMER_FILE))[0]
        return _read(host, content)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _cannot(host, reason(error)) from error
    except RecursionError as error:
        raise _cannot(host, "it is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise _cannot(host, str(error)) from error


def _cannot(host: Host, why: str) -> StateError:
    return StateError(
        f"the state of AMD's toolkit 1.x in {host.path(FORMER_FILE)} cannot be converted, so GPUs are refused: {why}",
        hint="make them available again with 'sudo amd-ctk gpu-tracker reset'",
    )


def _read(host: Host, content: bytes) -> Policy:
    enabled, former = _parse(content)
    if not enabled:
        return Policy()
    gpus = locate_gpus(host)
    if not former:
        raise ValueError("it lists no GPUs")
    # A policy is for all GPUs of the host.
    require_all_gpus(gpus)
    policy = Policy(enabled=True, gpus=read_tracked_gpus(host, gpus))
    numbers = [number for number in sorted(former) if _was_exclusive(number, former[number])]
    exclusive = {number: policy.gpus[_find(number, former, gpus).number] for number in numbers}
    for number, gpu in exclusive.items():
        _require_same_partition(number, former[number], gpu)
    return policy.with_accessibility([gpu.key for gpu in exclusive.values()], exclusive=True)


def _parse(content: bytes) -> tuple[bool, dict[int, FormerGpu]]:
    """Return whether it tracked, and its GPUs by number; ValueError or TypeError if its own reader would fail.

    That is Go's reader: it ignores data after the document and the case of keys, and treats null as missing.
    """
    import json

    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    document = decoder.raw_decode(content.decode("utf-8", "replace").lstrip(" \t\r\n"))[0]
    fields = _object(document, "the document")
    _object(fields.get("gpusinfo"), "gpusInfo")
    listed = _object(fields.get("gpusstatus"), "gpusStatus")
    former = {_number(number): _parse_gpu(number, _object(gpu, f"GPU {number}")) for number, gpu in listed.items()}
    return bool(_typed(fields.get("enabled"), bool, "enabled")), former


def _parse_gpu(number: str, fields: Mapping[str, Any]) -> FormerGpu:
    return FormerGpu(
        unique_id=_unique_id(_typed(fields.get("uuid"), str, f"uuid of GPU {number}") or ""),
        accessibility=_typed(fields.get("accessibility"), int, f"accessibility of GPU {number}") or FORMER_SHARED,
        partition=_typed(fields.get("partitiontype"), str, f"partitionType of GPU {number}"),
    )


def _object(value: Any, name: str) -> dict[str, Any]:
    fields = _typed(value, dict, name) or {}
    return {key.lower(): field for key, field in fields.items()}


def _typed(value: Any, kind: type, name: str) -> Any:
    if value is not None and type(value) is not kind:
        raise TypeError(f"{name} is not of the right kind")
    return value


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < len(str(2**32))):
        raise ValueError("a GPU's number is not a number")
    return int(text)


def _unique_id(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _was_exclusive(number: int, gpu: FormerGpu) -> bool:
    if gpu.accessibility not in (FORMER_SHARED, FORMER_EXCLUSIVE):
        raise ValueError(f"accessibility {gpu.accessibility} of GPU {number} is neither shared nor exclusive")
    return gpu.accessibility == FORMER_EXCLUSIVE


def _find(number: int, former: Mapping[int, FormerGpu], gpus: Sequence[GpuLocation]) -> GpuLocation:
    """Return the GPU that had a number, by its id; among partitions with the same id, the one of the same rank."""
    unique_id = former[number].unique_id
    same_then = sorted(other for other in former if former[other].unique_id == unique_id)
    same_now = [gpu for gpu in gpus if _has_id(gpu, unique_id)]
    if len(same_then) != len(same_now):
        raise ValueError(f"GPU {number}, which was exclusive, no longer has its id")
    return same_now[same_then.index(number)]


def _require_same_partition(number: int, former: FormerGpu, gpu: TrackedGpu) -> None:
    """Refuse what the original calls a GPU info mismatch; both write compute and memory mode: "cpx_nps4"."""
    if former.partition not in (None, gpu.partition):
        was, now = (partition or "no partition" for partition in (former.partition, gpu.partition))
        raise ValueError(f"GPU {number}, which was exclusive, was {was} and is now {now}")


def _has_id(gpu: GpuLocation, unique_id: int) -> bool:
    ids = (gpu.kfd_unique_id, gpu.pci_unique_id)
    return unique_id in ids if unique_id else not any(ids)
