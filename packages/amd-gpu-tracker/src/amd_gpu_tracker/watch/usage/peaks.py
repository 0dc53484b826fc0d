"""Remembers the most memory that each container has used, and when it was last seen to use a GPU.

Written when root reads the usage, so a peak is what these readings have seen. The file does not survive a reboot.
"""

from __future__ import annotations

import errno

from amd_gpu_tracker.book.lease import NEVER
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.watch.show.listing import cut_id
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import replace_file
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.leases.containers import Owner

    # Id of a container, `GpuLocation.key` of a GPU, and the user of the container.
    Key = tuple[str, str, int | None]

FILE = "peaks.json"
# Pairs of a container and a GPU; those that were not seen for the longest time are forgotten.
MOST_PEAKS = 1000
# A user may make cgroups with the names of any number of containers.
MOST_PEAKS_OF_A_USER = 32
# Of ids and names; engines allow less.
LONGEST_PEAK_TEXT = 128
LARGEST_MEASURE = 1 << 63
# More than `MOST_PEAKS` need: in JSON a character takes 12 bytes at most.
LARGEST_PEAKS_FILE = 4 * 1024 * 1024


class Peak(Value):
    """The most that a container has used of a GPU.

    Attributes:
        container_id: Id of the container.
        gpu: Address and rank of the GPU, such as `0000:03:00.0/0`.
        name: Name of the container; "" if unknown.
        engine: The maker of the container; "" if unknown.
        vram_bytes: The most video memory that it was seen to use.
        gtt_bytes: The most system memory that the GPU was seen to use for it.
        seen: When it was last seen to use the GPU, in seconds since 1970 (UTC).
        user: Uid of the user of the container; None for containers of root.
    """

    container_id: str
    gpu: str
    name: str
    engine: str
    vram_bytes: int
    # Missing in files that an earlier version wrote in this boot.
    gtt_bytes: int = 0
    seen: float
    user: int | None = None

    @property
    def key(self) -> Key:
        """Return what identifies this peak."""
        return self.container_id, self.gpu, self.user

    @property
    def owner(self) -> Owner:
        """Return what identifies the container."""
        return self.container_id, self.user

    @property
    def title(self) -> str:
        """Return the name of the container for people, with its maker."""
        return format_title(self.container_id, self.name, self.engine, self.user)


def format_title(container_id: str, name: str, engine: str, user: int | None = None) -> str:
    """Return the name of a container for people, with its maker; ids that engines make are cut as engines do."""
    called = name or cut_id(container_id)
    maker = " ".join(filter(None, (engine, "" if user is None else f"of user {user}"))).removeprefix("of ")
    return f"{called} ({maker})" if maker else called


def read_peaks(state: State) -> dict[Key, Peak]:
    """Return the remembered peaks, without invalid ones; StateError if the caller may not read them."""
    path = f"{state.run_directory}/{FILE}"
    try:
        content = read_plain_file(path, largest=LARGEST_PEAKS_FILE)[0]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        if error.errno == errno.EFBIG:
            return {}
        raise StateError(f"{path} cannot be read: {reason(error)}", hint="run the command with sudo") from error
    try:
        peaks = [_parse(fields) for fields in loads(content)["peaks"]]
    except (KeyError, RecursionError, TypeError, ValueError):
        return {}
    return {peak.key: peak for peak in peaks if peak}


def is_recorded(container_id: str) -> bool:
    """Return whether the peaks of a container with this id are remembered."""
    return len(container_id) <= LONGEST_PEAK_TEXT and container_id.isprintable()


def update_peaks(known: Mapping[Key, Peak], now: Iterable[Peak]) -> dict[Key, Peak]:
    """Return the peaks after one more reading, in which `now` was seen."""
    peaks = dict(known)
    for seen in now:
        before = peaks.pop(seen.key, seen)
        # At the end, because the order is that in which containers were last seen.
        peaks[seen.key] = seen.replace(
            vram_bytes=max(seen.vram_bytes, before.vram_bytes),
            gtt_bytes=max(seen.gtt_bytes, before.gtt_bytes),
            name=seen.name or before.name,
        )
    return dict(list(_without_surplus(peaks).items())[-MOST_PEAKS:])


def write_peaks(state: State, peaks: Mapping[Key, Peak]) -> None:
    """Replace the file of peaks, which only root may read; a full disk must not keep known peaks from being shown."""
    content = dumps({"version": 1, "peaks": [peak.as_dict() for peak in peaks.values()]}) + b"\n"
    try:
        replace_file(f"{state.run_directory}/{FILE}", content, mode=0o600)
    except FileError:
        return


def _without_surplus(peaks: Mapping[Key, Peak]) -> dict[Key, Peak]:
    """Return the peaks with only the latest few of each user."""
    counts: dict[int, int] = {}
    kept: list[Peak] = []
    for peak in reversed(list(peaks.values())):
        if peak.user is not None:
            counts[peak.user] = counts.get(peak.user, 0) + 1
        if peak.user is None or counts[peak.user] <= MOST_PEAKS_OF_A_USER:
            kept.append(peak)
    return {peak.key: peak for peak in reversed(kept)}


def _parse(fields: dict[str, Any]) -> Peak | None:
    try:
        peak = Peak.from_json(fields)
    except ValueError:
        return None
    is_short = all(len(text) <= LONGEST_PEAK_TEXT for text in (peak.gpu, peak.name, peak.engine))
    is_amount = all(0 <= amount < LARGEST_MEASURE for amount in (peak.vram_bytes, peak.gtt_bytes))
    return peak if is_short and is_recorded(peak.container_id) and is_amount and 0 <= peak.seen < NEVER else None
