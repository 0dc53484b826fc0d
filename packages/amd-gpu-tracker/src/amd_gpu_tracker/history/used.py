"""A reservation as the history has it: one that ended, or one that runs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from amd_gpu_tracker.records.history import FOUND, LONGEST_LINE, POWER, VERSION
from amd_gpu_tracker.records.lease import LARGEST_ID, MOST_GPUS
from amdgpu_discovery.plain_json import dumps, loads
from amdgpu_discovery.value import Value

# A hundred years in seconds, and the end of the year 9999.
LONGEST = 100 * 366 * 24 * 3600.0
LATEST = 253402300799.0
LARGEST_AMOUNT = 1 << 63
RUNNING = "running"
# What a field of a line that was written here looks like; a number of fewer digits than the largest that is one.
_TEXT = r"[ !#-\[\]-~]*"
_TEXTS = rf'\[(?:"{_TEXT}"(?:,"{_TEXT}"){{0,{MOST_GPUS - 1}}})?\]'
_SECONDS = r"(?:0|[1-9][0-9]{0,10})(?:\.[0-9]{1,9})?"
_WHOLE = r"(?:0|[1-9][0-9]{0,17})"


class Used(Value):
    """A reservation: who had which GPUs, from when on and for how long.

    Attributes:
        container_id: Id of the container, or name of the reservation.
        gpus: Each GPU by PCI address and rank of its partition, such as `0000:03:00.0/0`.
        person: Number of the user; None where nobody said whose it was.
        since: When it began, in seconds since 1970 (UTC).
        seconds: For how long it had the GPUs.
        how: How its end is known: `hook`, `program`, `found`, `forgotten`, `power`, or `running`.
        part_of: Name of the reservation whose GPUs it was given, which counts for both; "" for none.
        busy: Mean share of the time for which its GPUs were at work, 0 to 1; None where nobody looked.
        peak_bytes: The most memory that it was seen to use; None where nobody looked.
        name: Name of the container; "" where that is not known.
        image: Image of the container; "" where that is not known.
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

    @property
    def gpu_seconds(self) -> float:
        """Return for how long it had how many GPUs; 0 for a part of another reservation, which counts itself."""
        return 0.0 if self.part_of else self.seconds * len(self.gpus)

    @property
    def is_certain(self) -> bool:
        """Return whether it is known when it ended: the power did not go, and it was not found over later."""
        return self.how not in (FOUND, POWER)


class Look(Value):
    """What was seen of a running reservation so far: the sums that its line gets."""

    # In seconds since boot.
    last: float
    looks: int = 0
    busy_sum: float = 0.0
    peak_bytes: int = 0
    name: str = ""
    image: str = ""

    def as_text(self) -> str:
        """Return what goes behind the line that `records.history` began."""
        return f",{dumps(self.as_dict()).decode()[1:-1]}"


def parse_look(text: str) -> Look:
    """Return what earlier looks came to, from what `Look.as_text` wrote behind its comma; ValueError."""
    try:
        fields = loads(f"{{{text}}}".encode())
        return Look(
            last=_number(fields["last"], LATEST),
            looks=_whole(fields["looks"]),
            busy_sum=_number(fields["busy_sum"], LARGEST_AMOUNT),
            peak_bytes=_whole(fields["peak_bytes"]),
            name=_text(fields["name"]),
            image=_text(fields["image"]),
        )
    except (KeyError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error


def parse_line(line: bytes, *, end: float | None = None) -> Used:
    """Return what a line of the history says; ValueError where it is none of ours.

    A line without an end is that of a reservation that runs, until `end` in seconds since boot.
    """
    try:
        return _checked(loads(line), end)
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error


def parse_lines(lines: bytes) -> Iterator[Used | None]:
    """Yield what each line says that is not empty, None for one that `parse_line` refuses.

    Lines as they are written here are read in two thirds of the time that JSON takes: a history has a million of them.
    """
    # Bytes as they are: the pattern takes ASCII alone.
    for groups in _pattern().findall(lines.decode("latin-1")):
        yield _parse_other(groups[-1].encode("latin-1")) if groups[-1] else _from_groups(groups)


@functools.cache
def _pattern() -> re.Pattern[str]:
    """Return what finds the fields of a line that was written here and has an end, or else the line."""
    begun = (
        rf'"version":{VERSION},"boot_id":"{_TEXT}","start":({_SECONDS}),"id":"({_TEXT})","root":"{_TEXT}",'
        rf'"since":({_SECONDS}),"ways":{_TEXTS},"person":(null|0|[1-9][0-9]{{0,8}}),"vram_mb":{_WHOLE},'
        rf'"part_of":"({_TEXT})","gpus":({_TEXTS})(?:,"until":{_SECONDS})?'
    )
    looked = (
        rf'"last":{_SECONDS},"looks":({_WHOLE}),"busy_sum":({_SECONDS}),"peak_bytes":({_WHOLE}),"name":"({_TEXT})",'
        rf'"image":"({_TEXT})"'
    )
    ended = rf'"end":({_SECONDS}),"how":"(hook|program|found|forgotten)"'
    return re.compile(rf"^(?:{{{begun}(?:,{looked})?,{ended}}}|(.+))$", re.MULTILINE)


def _from_groups(groups: tuple[str, ...]) -> Used:
    start, container_id, since, person, part_of, gpus, looks, busy_sum, peak_bytes, name, image, end, how, _ = groups
    seconds, seen = round(float(end) - float(start), 2), int(looks or 0)
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
    )


# There are as many as GPUs that are given together.
@functools.lru_cache(maxsize=1024)
def _split(texts: str) -> tuple[str, ...]:
    return tuple(texts[2:-2].split('","')) if texts != "[]" else ()


def _parse_other(line: bytes) -> Used | None:
    try:
        return parse_line(line) if len(line) <= LONGEST_LINE else None
    except ValueError:
        return None


def _checked(fields: dict[str, Any], end: float | None) -> Used:
    if fields["version"] != VERSION:
        raise ValueError(f"it is not version {VERSION}")
    start, how = _number(fields["start"], LATEST), fields.get("how", RUNNING)
    last = fields.get("last", start) if how == POWER else fields.get("end", end)
    looks = _whole(fields.get("looks", 0))
    return Used(
        container_id=_text(fields["id"]),
        gpus=_texts(fields["gpus"]),
        person=None if fields["person"] is None else _whole(fields["person"], LARGEST_ID),
        since=_number(fields["since"], LATEST),
        seconds=max(0.0, round(_number(last, LATEST) - start, 2)),
        how=_text(how),
        part_of=_text(fields["part_of"]),
        busy=_number(fields["busy_sum"], LARGEST_AMOUNT) / looks if looks else None,
        peak_bytes=_whole(fields["peak_bytes"]) if looks else None,
        name=_text(fields.get("name", "")),
        image=_text(fields.get("image", "")),
    )


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("a field is not text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if type(value) is not list or len(value) > MOST_GPUS or any(type(each) is not str for each in value):
        raise ValueError("a field is not a list of text")
    return tuple(value)


def _number(value: Any, largest: float) -> float:
    # NaN is larger than nothing.
    if type(value) not in (int, float) or not 0 <= value <= largest:
        raise ValueError("a field is not a number")
    return float(value)


def _whole(value: Any, largest: int = LARGEST_AMOUNT) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        raise ValueError("a number is not a whole number")
    return value
