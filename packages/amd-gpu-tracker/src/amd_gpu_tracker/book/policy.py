"""The administrator's decisions: whether GPUs are tracked, and which of them are exclusive."""

from __future__ import annotations

from amd_gpu_tracker.book.lease import NEVER, VERSION, require_version, with_unknown
from amdgpu_discovery.gpu import HEXADECIMAL, GpuLocation
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


SHARED = "shared"
EXCLUSIVE = "exclusive"
# Docker waits 100 ms after the first end of a container, and doubles this with each that follows at once. Restarting an
# engine with its containers takes some seconds.
RESTART_GRACE = 15
LONGEST_GRACE = 3600
# Hexadecimal digits of 64 bits.
LONGEST_UNIQUE_ID = 16
# The hardware has none.
NO_ID = "0x0"


class TrackedGpu(Value):
    """A GPU whose accessibility is set, with properties that survive reboots and new drivers."""

    # `GpuLocation.key`: its PCI address and its rank among the partitions there.
    key: str
    # In hexadecimal, as 64 bits are too many for some readers of JSON.
    unique_id: str
    # "cpx_nps4", "" for hardware without partitions.
    partition: str
    partition_total: int
    exclusive: bool = False
    # When the host was first seen without it, in seconds since 1970 (UTC); 0 while the host has it.
    lost_since: float = 0
    # Keys of later versions, with their values.
    unknown: tuple[tuple[str, Any], ...] = ()

    @property
    def pci_address(self) -> str:
        """Return the PCI address of its board."""
        return self.key.rpartition("/")[0]


class Policy(Value):
    """The state that outlives reboots.

    The position of a GPU in `gpus` is the number by which it was tracked. While a GPU before it is lost, this differs
    from its number on the host.
    """

    enabled: bool = False
    gpus: tuple[TrackedGpu, ...] = ()
    # Containers get only the GPUs of a reservation.
    require_reservation: bool = False
    # A GPU is exclusive to all containers of a pod together, not to one container.
    is_exclusive_to_pods: bool = False
    # For how many seconds a container that its engine restarts keeps its GPUs; 0 for not at all.
    restart_grace: int = RESTART_GRACE
    unknown: tuple[tuple[str, Any], ...] = ()

    @property
    def exclusive_keys(self) -> frozenset[str]:
        """Return the keys of the exclusive GPUs."""
        return frozenset(gpu.key for gpu in self.gpus if gpu.exclusive)

    def exclusive_among(self, gpus: Iterable[GpuLocation]) -> list[GpuLocation]:
        """Return those of some GPUs that are exclusive."""
        keys = self.exclusive_keys
        return [gpu for gpu in gpus if gpu.key in keys] if keys else []

    @property
    def lasting(self) -> dict[str, Any]:
        """Return the settings that outlive `reset` and `disable`."""
        return {name: getattr(self, name) for name in LASTING}

    def with_accessibility(self, keys: Iterable[str], *, exclusive: bool) -> Policy:
        """Return the policy with these GPUs exclusive or shared."""
        chosen = frozenset(keys)
        return self.replace(
            gpus=tuple(gpu.replace(exclusive=exclusive) if gpu.key in chosen else gpu for gpu in self.gpus)
        )


# Settings about people and containers, not about the state of GPUs. So they outlive `reset` and `disable`.
LASTING = ("require_reservation", "is_exclusive_to_pods", "restart_grace")


def format_policy(policy: Policy) -> bytes:
    """Return a policy as the content of its file."""
    gpus = [_gpu_fields(gpu) for gpu in policy.gpus]
    fields = policy.as_dict()
    more = {name: fields[name] for name in LASTING if fields[name] != getattr(Policy, name)}
    return dumps({"version": VERSION, "enabled": policy.enabled, "gpus": gpus, **more, **dict(policy.unknown)}) + b"\n"


def parse_policy(content: bytes) -> Policy:
    """Parse the content of the policy's file; ValueError if `format_policy` did not write it.

    LaterVersion, a ValueError, if a later version of the toolkit wrote it in an incompatible format.
    """
    try:
        return _parse(loads(content))
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error


def _gpu_fields(gpu: TrackedGpu) -> dict[str, Any]:
    fields = with_unknown(gpu)
    if not gpu.lost_since:
        del fields["lost_since"]
    return fields


def _parse(document: dict[str, Any]) -> Policy:
    require_version(document.pop("version", None))
    # Keys that every version writes must not get defaults.
    if not {"enabled", "gpus"} <= document.keys() or not all("exclusive" in fields for fields in document["gpus"]):
        raise ValueError("'enabled', 'gpus' or 'exclusive' is missing")
    policy = Policy.from_json(document, {"TrackedGpu": TrackedGpu})
    if not 0 <= policy.restart_grace <= LONGEST_GRACE:
        raise ValueError("'restart_grace' is not a number of seconds")
    for gpu in policy.gpus:
        digits = gpu.unique_id[2:]
        if gpu.unique_id[:2] != "0x" or not 0 < len(digits) <= LONGEST_UNIQUE_ID or digits.strip(HEXADECIMAL):
            raise ValueError("'unique_id' of a GPU is not an id")
        if not 0 <= gpu.lost_since < NEVER:
            raise ValueError("'lost_since' of a GPU is not a time")
    return policy
