"""What the administrator decided: whether GPUs are tracked, and which of them are exclusive."""

from __future__ import annotations

from amd_gpu_tracker.records.lease import NEVER, VERSION, require_version, with_unknown
from amdgpu_discovery.gpu import HEXADECIMAL, GpuLocation
from amdgpu_discovery.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


SHARED = "shared"
EXCLUSIVE = "exclusive"
# Docker waits 100 ms after the first end, and twice as long after each that follows at once; the restart of an engine
# with its containers takes some seconds.
RESTART_GRACE = 15
LONGEST_GRACE = 3600
# Digits of 64 bits.
LONGEST_ID = 16


class TrackedGpu(Value):
    """A GPU for which accessibility is set, told from every other by what neither a reboot nor a driver changes."""

    # `GpuLocation.key`: its PCI address and its rank among the partitions there.
    key: str
    # In hexadecimal, as 64 bits are too many for some readers of JSON; "0x0" where the hardware has none.
    unique_id: str
    # "cpx_nps4", "" for hardware without partitions.
    partition: str
    partition_total: int
    exclusive: bool = False
    # When it was first seen that the host does not have it any more, in seconds since 1970 (UTC); 0 while it has.
    lost_since: float = 0
    # Keys of later versions with what they say.
    unknown: tuple[tuple[str, Any], ...] = ()

    @property
    def pci_address(self) -> str:
        """Return the PCI address of its board."""
        return self.key.rpartition("/")[0]


class Policy(Value):
    """The state that outlives reboots.

    The place of a GPU among `gpus` is the number by which it was tracked, which differs from its number on the host
    while one before it is lost.
    """

    enabled: bool = False
    gpus: tuple[TrackedGpu, ...] = ()
    # A container gets the GPUs of a reservation, and no others.
    require_reservation: bool = False
    # A GPU is exclusive to all containers of a pod together, not to one container.
    is_exclusive_to_pods: bool = False
    # For how many seconds a container that its engine starts again keeps its GPUs; 0 for not at all.
    restart_grace: int = RESTART_GRACE
    unknown: tuple[tuple[str, Any], ...] = ()

    @property
    def exclusive_keys(self) -> frozenset[str]:
        """Return the keys of the exclusive GPUs."""
        return frozenset(gpu.key for gpu in self.gpus if gpu.exclusive)

    def exclusive_among(self, gpus: Iterable[GpuLocation]) -> list[GpuLocation]:
        """Return those of some GPUs that one container may have for itself."""
        keys = self.exclusive_keys
        return [gpu for gpu in gpus if gpu.key in keys] if keys else []

    @property
    def lasting(self) -> dict[str, Any]:
        """Return what outlives `reset` and `disable`."""
        return {name: getattr(self, name) for name in LASTING}

    def with_accessibility(self, keys: Iterable[str], *, exclusive: bool) -> Policy:
        """Return the policy with these GPUs exclusive or shared."""
        chosen = frozenset(keys)
        return self.replace(
            gpus=tuple(gpu.replace(exclusive=exclusive) if gpu.key in chosen else gpu for gpu in self.gpus)
        )


# They are about people and containers and not about the state of GPUs, so that they outlive `reset` and `disable`.
LASTING = ("require_reservation", "is_exclusive_to_pods", "restart_grace")


def format_policy(policy: Policy) -> bytes:
    """Return a policy as the content of its file."""
    gpus = [_gpu_fields(gpu) for gpu in policy.gpus]
    fields = policy.as_dict()
    more = {name: fields[name] for name in LASTING if fields[name] != getattr(Policy, name)}
    return dumps({"version": VERSION, "enabled": policy.enabled, "gpus": gpus, **more, **dict(policy.unknown)}) + b"\n"


def parse_policy(content: bytes) -> Policy:
    """Return what the content of the policy's file says; ValueError where it is not what `format_policy` wrote.

    LaterVersion, a ValueError, where a later version of the toolkit wrote it for itself only.
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
    # What was written always is not taken for its default.
    if not {"enabled", "gpus"} <= document.keys() or not all("exclusive" in fields for fields in document["gpus"]):
        raise ValueError("'enabled', 'gpus' or 'exclusive' is missing")
    policy = Policy.from_json(document, {"TrackedGpu": TrackedGpu})
    if not 0 <= policy.restart_grace <= LONGEST_GRACE:
        raise ValueError("'restart_grace' is not a number of seconds")
    for gpu in policy.gpus:
        digits = gpu.unique_id[2:]
        if gpu.unique_id[:2] != "0x" or not 0 < len(digits) <= LONGEST_ID or digits.strip(HEXADECIMAL):
            raise ValueError("'unique_id' of a GPU is not an id")
        if not 0 <= gpu.lost_since < NEVER:
            raise ValueError("'lost_since' of a GPU is not a time")
    return policy
