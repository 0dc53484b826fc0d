"""GPUs that are not given out: drained until they are undrained, or seen to be sick until they are seen to be well.

A file of its own, which most hosts do not have: a container start reads this and no health.
"""

from __future__ import annotations

import time

from amd_gpu_tracker.enabled import DRAINS_FILE, POLICY_DIRECTORY
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.records.lease import NEVER, VERSION, LaterVersion, require_version, with_unknown
from amd_gpu_tracker.records.state import make_directory, read_if_there
from amdgpu_discovery.files import read_file, replace_file
from amdgpu_discovery.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from amdgpu_discovery.host import Host

LONGEST_REASON = 200
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Drain(Value):
    """A GPU that is not given out.

    Attributes:
        key: `GpuLocation.key` of the GPU.
        reason: What the administrator said, "" where nothing; of a sick GPU what is wrong with it.
        since: From when on, in seconds since 1970 (UTC).
        until: When it ends by itself; 0 where it does not.
        by: Uid of who asked for it; None where that is not known.
        boot_id: The boot in which the GPU was seen to be sick, which is all that this counts for; "" if a user
            drained it.
    """

    key: str
    reason: str
    since: float
    until: float = 0
    by: int | None = None
    boot_id: str = ""
    # Keys of later versions with what they say.
    unknown: tuple[tuple[str, Any], ...] = ()

    @property
    def is_sick(self) -> bool:
        """Return whether the GPU is sick, and was not drained."""
        return bool(self.boot_id)


def read_drains(host: Host) -> tuple[Drain, ...]:
    """Return what has not ended of drained GPUs, then of sick ones; StateError where the file cannot be understood."""
    path = host.path(DRAINS_FILE)
    content = read_if_there(path)
    if content is None:
        return ()
    try:
        drains = _parse(loads(content))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        is_later = isinstance(error, LaterVersion)
        hint = "install that toolkit again" if is_later else "fix it, or delete it to drain no GPU"
        raise StateError(f"{path} cannot be understood: {error}", hint=hint, is_later=is_later) from error
    now = time.time()
    drained = [each for each in drains if not each.is_sick and (not each.until or each.until > now)]
    return (*drained, *(each for each in drains if each.is_sick and each.boot_id == this_boot()))


def by_key(drains: Iterable[Drain]) -> dict[str, Drain]:
    """Return what `read_drains` says of each GPU: of one that is drained and sick, that it is drained."""
    return {each.key: each for each in reversed([*drains])}


def this_boot() -> str:
    """Return the kernel's name for this boot: what a GPU was before says nothing of it."""
    return read_file(BOOT_ID).decode().strip()


def write_drains(host: Host, drains: Iterable[Drain]) -> None:
    """Replace the file, and wait for the disk. The caller holds the tracker's lock.

    ValueError, and nothing is written, where it could not be read.
    """
    content = dumps({"version": VERSION, "gpus": [with_unknown(drain) for drain in drains]}) + b"\n"
    _parse(loads(content))
    make_directory(host.path(POLICY_DIRECTORY))
    replace_file(host.path(DRAINS_FILE), content, mode=0o644, durable=True)


def move_drains(host: Host, keys: Mapping[str, str]) -> None:
    """Let drains follow GPUs that have another address now; `keys` are the earlier ones by the new ones."""
    earlier = {key: new for new, key in keys.items()}
    drains = read_drains(host)
    if earlier.keys() & {drain.key for drain in drains}:
        write_drains(host, [drain.replace(key=earlier.get(drain.key, drain.key)) for drain in drains])


def _parse(document: dict[str, Any]) -> list[Drain]:
    require_version(document["version"])
    drains = [Drain.from_json(fields) for fields in document["gpus"]]
    if not all(0 <= moment < NEVER for drain in drains for moment in (drain.since, drain.until)):
        raise ValueError("since, until: one is not a time")
    return drains
