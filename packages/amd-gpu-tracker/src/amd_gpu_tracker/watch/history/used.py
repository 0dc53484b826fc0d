"""A reservation in the history, which has ended or is running."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from amd_gpu_tracker.book.history import FORGOTTEN, FOUND, HOOK, LONGEST_HISTORY_LINE, POWER, PROGRAM, VERSION
from amd_gpu_tracker.book.lease import LARGEST_ID, MOST_LEASED_GPUS
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.value import Value

# A hundred years in seconds, and the end of the year 9999.
LONGEST_DURATION = 100 * 366 * 24 * 3600.0
LATEST = 253402300799.0
LARGEST_MEASURE = 1 << 63
RUNNING = "running"
# The form of each field in lines that this version writes. Numbers have fewer digits than the largest that is allowed.
_TEXT = r"[ !#-\[\]-~]*"
_TEXTS = rf'\[(?:"{_TEXT}"(?:,"{_TEXT}"){{0,{MOST_LEASED_GPUS - 1}}})?\]'
_SECONDS = r"(?:0|[1-9][0-9]{0,10})(?:\.[0-9]{1,9})?"
_WHOLE = r"(?:0|[1-9][0-9]{0,17})"


class Used(Value):
    """A reservation: who had which GPUs, since when and for how long.

    Attributes:
        container_id: Id of the container, or name of the reservation.
        gpus: Each GPU by PCI address and rank of its partition, such as `0000:03:00.0/0`.
        person: Number of the user; None if that is unknown.
        since: When it began, in seconds since 1970 (UTC).
        seconds: For how long it had the GPUs.
        how: How its end is known: `hook`, `program`, `found`, `forgotten`, `power`, or `running`.
        part_of: Name of the reservation whose GPUs it was given, which counts for both; "" for none.
        busy: Mean share of the time for which its GPUs were at work, 0 to 1; None if that was never read.
        peak_bytes: The most memory that it was seen to use; None if that was never read.
        name: Name of the container; "" if unknown.
        image: Image of the container; "" if unknown.
        pod: Namespace and name of the pod of the container; "" if it has none, or if that is unknown.
    """

    container_id: str
    gpus: tuple[str, ...]
    person: int | None
    since: float
    seconds: float
    how: str
    part_of: str = ""
    busy: float | None = None
    peak_bytes: int | None = None
    name: str = ""
    image: str = ""
    pod: str = ""

    @property
    def gpu_seconds(self) -> float:
        """Return its GPUs times seconds; 0 for a part of another reservation, which counts instead."""
        return 0.0 if self.part_of else self.seconds * len(self.gpus)

    @property
    def is_certain(self) -> bool:
        """Return whether its end is known exactly: it was neither found later nor only followed from a restart."""
        return self.how not in (FOUND, POWER)


class SampleSums(Value):
    """The samples of a running reservation so far, as the sums for its line."""

    # In seconds since boot.
    last: float
    # The number of samples, by its name in the file.
    looks: int
    busy_sum: float
    peak_bytes: int
    name: str = ""
    image: str = ""
    pod: str = ""

    def as_text(self) -> str:
        """Return the text to append to the line that `book.history` began."""
        return f",{dumps(self.as_dict()).decode()[1:-1]}"


class _Line(Value):
    """The fields of a line, without those of samples."""

    version: int
    id: str
    gpus: tuple[str, ...]
    person: int | None
    since: float
    # In seconds since boot.
    start: float
    end: float
    how: str = RUNNING
    part_of: str


def parse_sums(fields: dict[str, Any]) -> SampleSums:
    """Return the sums of earlier samples from the fields of a line; ValueError."""
    sums = SampleSums.from_json(fields)
    _require_within(LATEST, sums.last)
    _require_within(LARGEST_MEASURE, sums.looks, sums.busy_sum, sums.peak_bytes)
    return sums


def parse_line(line: bytes, *, end: float | None = None) -> Used:
    """Parse a line of the history; ValueError if this toolkit did not write it.

    A line without an end belongs to a running reservation; it counts until `end`, in seconds since boot.
    """
    try:
        return _parse({"end": end, **loads(line)})
    except (RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error


def parse_if_sound(line: bytes, *, end: float | None = None) -> Used | None:
    """Return the result of `parse_line`, None for a line that it refuses or that is too long."""
    try:
        return parse_line(line, end=end) if len(line) <= LONGEST_HISTORY_LINE else None
    except ValueError:
        return None


def parse_lines(lines: bytes) -> Iterator[Used | None]:
    """Yield the result of `parse_line` for each line that is not empty, None for one that it refuses.

    A pattern reads the lines that this version writes in two thirds of the time of JSON: there may be a million.
    """
    # One character per byte: the pattern accepts only ASCII.
    for groups in _pattern().findall(lines.decode("latin-1")):
        yield parse_if_sound(groups[-1].encode("latin-1")) if groups[-1] else _from_groups(groups)


@functools.cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern for the fields of a line with an end, as this version writes it, or else for any line."""
    begun = (
        rf'"version":{VERSION},"boot_id":"{_TEXT}","start":({_SECONDS}),"id":"({_TEXT})","root":"{_TEXT}",'
        rf'"since":({_SECONDS}),"ways":{_TEXTS},"person":(null|0|[1-9][0-9]{{0,8}}),"vram_mb":{_WHOLE},'
        rf'"part_of":"({_TEXT})","gpus":({_TEXTS})(?:,"until":{_SECONDS})?'
    )
    sampled = (
        rf'"last":{_SECONDS},"looks":({_WHOLE}),"busy_sum":({_SECONDS}),"peak_bytes":({_WHOLE}),"name":"({_TEXT})",'
        rf'"image":"({_TEXT})"(?:,"pod":"({_TEXT})")?'
    )
    ended = rf'"end":({_SECONDS}),"how":"({HOOK}|{PROGRAM}|{FOUND}|{FORGOTTEN})"'
    return re.compile(rf"^(?:{{{begun}(?:,{sampled})?,{ended}}}|(.+))$", re.MULTILINE)


def _from_groups(groups: tuple[str, ...]) -> Used:
    start, container_id, since, person, part_of, gpus, looks, busy_sum, peak_bytes, name, image, pod, end, how, _ = (
        groups
    )
    seconds = round(float(end) - float(start), 2)
    seen = int(looks or 0)
    return Used(
        container_id=container_id,
        gpus=_split(gpus),
        person=None if person == "null" else int(person),
        since=float(since),
        seconds=seconds if seconds > 0 else 0.0,
        how=how,
        part_of=part_of,
        busy=float(busy_sum) / seen if seen else None,
        peak_bytes=int(peak_bytes) if seen else None,
        name=name,
        image=image,
        pod=pod,
    )


# There are as many as sets of GPUs that are given together.
@functools.lru_cache(maxsize=1024)
def _split(texts: str) -> tuple[str, ...]:
    return tuple(texts[2:-2].split('","')) if texts != "[]" else ()


def _parse(fields: dict[str, Any]) -> Used:
    line = _Line.from_json(fields)
    if line.version != VERSION or len(line.gpus) > MOST_LEASED_GPUS:
        raise ValueError(f"it is not version {VERSION}, or has too many GPUs")
    sums = parse_sums(fields) if "last" in fields else SampleSums(last=line.start, looks=0, busy_sum=0, peak_bytes=0)
    last = sums.last if line.how == POWER else line.end
    _require_within(LATEST, line.since, line.start, last)
    _require_within(LARGEST_ID, line.person or 0)
    return Used(
        container_id=line.id,
        gpus=line.gpus,
        person=line.person,
        since=line.since,
        seconds=max(0.0, round(last - line.start, 2)),
        how=line.how,
        part_of=line.part_of,
        busy=sums.busy_sum / sums.looks if sums.looks else None,
        peak_bytes=sums.peak_bytes if sums.looks else None,
        name=sums.name,
        image=sums.image,
        pod=sums.pod,
    )


def _require_within(largest: float, *numbers: float) -> None:
    if not all(0 <= number <= largest for number in numbers):
        raise ValueError(f"a number is not one from 0 to {largest:g}")
