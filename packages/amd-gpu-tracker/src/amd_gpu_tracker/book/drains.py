"""GPUs that are not given out: drained until they are undrained, sick or dirty until a look finds them well.

They have their own file, which most hosts lack. A container start reads it, and does not check the health of GPUs.
"""

from __future__ import annotations

import time

from amd_gpu_tracker.book.lease import NEVER, VERSION, LaterVersion, ProcessId, require_version, with_unknown
from amd_gpu_tracker.book.state import make_directory, read_if_there
from amd_gpu_tracker.enabled import DRAINS_FILE, POLICY_DIRECTORY
from amd_gpu_tracker.errors import StateError
from amdgpu_discovery.files import read_file, replace_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from amdgpu_discovery.host import Host

LONGEST_REASON = 200
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Why a GPU is not given out, the word that counts first.
DRAINED, SICK, DIRTY = STATES = ("drained", "sick", "dirty")
TYPES = {"ProcessId": ProcessId}


class Drain(Value):
    """A GPU that is not given out.

    Attributes:
        key: `GpuLocation.key` of the GPU.
        reason: The administrator's reason, "" without one; for another GPU, what is wrong with it.
        since: The beginning, in seconds since 1970 (UTC).
        until: When it ends by itself; 0 for never.
        by: Uid of the user who drained it; None if unknown.
        boot_id: The boot in which the GPU was seen to be sick or dirty; the record counts only in that boot. "" if a
            user drained it.
        job: For a dirty GPU, the id of the ended job or container that left something on it; else "".
        left: For a dirty GPU, the processes of this job that still used it.
    """

    key: str
    reason: str
    since: float
    until: float = 0
    by: int | None = None
    boot_id: str = ""
    job: str = ""
    left: tuple[ProcessId, ...] = ()
    # Keys of later versions, with their values.
    unknown: tuple[tuple[str, Any], ...] = ()

    @property
    def state(self) -> str:
        """Return DRAINED, SICK or DIRTY."""
        if not self.boot_id:
            return DRAINED
        return DIRTY if self.job else SICK

    @property
    def why(self) -> str:
        """Return the reason, and when a drain ends by itself; "" if neither is known."""
        return ", ".join(filter(None, (self.reason, format_end(self.until))))


def format_end(until: float) -> str:
    """Return when a drain ends by itself; "" if it does not."""
    if not until:
        return ""
    # Only sentences need it.
    from amd_gpu_tracker.times import format_time

    return f"until {format_time(until)}"


def read_drains(host: Host) -> tuple[Drain, ...]:
    """Return current drains: of drained GPUs, then of sick, then of dirty ones; StateError if the file is invalid."""
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
    boot_id = this_boot() if any(each.boot_id for each in drains) else ""
    current = [each for each in drains if each.boot_id == boot_id or not each.boot_id]
    current = [each for each in current if not each.until or each.until > now]
    return tuple(sorted(current, key=lambda each: STATES.index(each.state)))


def by_key(drains: Iterable[Drain]) -> dict[str, Drain]:
    """Return the drains by key; for a GPU with several, the one that counts first."""
    return {each.key: each for each in reversed([*drains])}


def this_boot() -> str:
    """Return the kernel's id of this boot: the health of a GPU in an earlier boot does not count."""
    return read_file(BOOT_ID).decode().strip()


def write_drains(host: Host, drains: Iterable[Drain]) -> None:
    """Replace the file, and wait for the disk. The caller holds the tracker's lock.

    Raises ValueError and writes nothing if the file could not be read back.
    """
    content = dumps({"version": VERSION, "gpus": [_fields_of(drain) for drain in drains]}) + b"\n"
    _parse(loads(content))
    make_directory(host.path(POLICY_DIRECTORY))
    replace_file(host.path(DRAINS_FILE), content, mode=0o644, durable=True)


def move_drains(host: Host, keys: Mapping[str, str]) -> None:
    """Let drains follow GPUs whose address has changed; `keys` maps new keys to earlier ones."""
    earlier = {key: new for new, key in keys.items()}
    drains = read_drains(host)
    if earlier.keys() & {drain.key for drain in drains}:
        write_drains(host, [drain.replace(key=earlier.get(drain.key, drain.key)) for drain in drains])


def _fields_of(drain: Drain) -> dict[str, Any]:
    fields = with_unknown(drain)
    # Only dirty GPUs have these.
    more = {"job": drain.job, "left": [each.as_dict() for each in drain.left]} if drain.job else {}
    return {name: field for name, field in fields.items() if name not in ("job", "left")} | more


def _parse(document: dict[str, Any]) -> list[Drain]:
    require_version(document["version"])
    drains = [Drain.from_json(fields, TYPES) for fields in document["gpus"]]
    if not all(0 <= moment < NEVER for drain in drains for moment in (drain.since, drain.until)):
        raise ValueError("since or until is not a time")
    return drains
