"""Parses a choice: `auto:2`, `free:1+vram:64GiB`, `all+discrete`.

    choice    = ( "auto" / "free" ) [ ":" count ] *( "+" condition ) / "all" 1*( "+" condition )
    condition = "gfx" hex / family / model / "vram:" size / "numa:" number / "xgmi" / "discrete" / "integrated"
                / "spx" / "dpx" / "tpx" / "qpx" / "cpx" / "group:" name

`&` means the same as `+`. Case does not matter, except in names of groups.
"""

from __future__ import annotations

from amdgpu_discovery.choices.selection import ALL, CDI_PREFIX, is_group_name, may_be_choice, parse_number, split_items
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import HEXADECIMAL
from amdgpu_discovery.tables.models import known_models
from amdgpu_discovery.value import Value

AUTO = "auto"
FREE = "free"
MODES = ("spx", "dpx", "tpx", "qpx", "cpx")
UNITS = {"mib": 1, "gib": 1024}
# Far more than the kinds of conditions; an image can write any number of them.
MOST_CONDITIONS = 16
CONDITIONS = "gfx942, gfx94X, MI300X, vram:64GiB, numa:0, xgmi, discrete, integrated, spx to cpx, group:NAME"

GFX = "gfx"
MODEL = "model"
VRAM = "vram"
NUMA = "numa"
XGMI = "xgmi"
DISCRETE = "discrete"
INTEGRATED = "integrated"
MODE = "mode"
GROUP = "group"


class Condition(Value):
    """A condition that a GPU must meet.

    Attributes:
        kind: `gfx`, `model`, `vram`, `numa`, `xgmi`, `discrete`, `integrated`, `mode` or `group`.
        value: The target, family, model, mode or name of a group; "" if the kind is the whole condition.
        amount: The number of a NUMA node, or an amount of MiB or GiB.
        in_gib: Whether memory is counted in GiB.
        text: The condition as it was written.
    """

    kind: str
    text: str
    value: str = ""
    amount: int = 0
    in_gib: bool = False


class Choice(Value):
    """How many GPUs are needed, and which conditions they must meet.

    Attributes:
        text: The request as it was written.
        word: `auto`: free GPUs first, then the least shared; `free`: free ones only; `all`: every GPU that fits.
        count: How many GPUs; 0 for all of them.
        conditions: The conditions that each of them must meet.
    """

    text: str
    word: str
    count: int
    conditions: tuple[Condition, ...] = ()

    @property
    def needs_tracker(self) -> bool:
        """Return whether the choice depends on which GPUs are in use."""
        return self.word != ALL

    @property
    def in_one_hive(self) -> bool:
        """Return whether the GPUs must reach each other by XGMI."""
        return self.needs_tracker and any(condition.kind == XGMI for condition in self.conditions)


def parse_choice(request: str) -> Choice | None:
    """Return the choice that a request is, None if it names GPUs; RequestError for an invalid choice."""
    if not may_be_choice(request):
        return None
    items = split_items(request)
    choices = [item for item in items if _is_choice(item)]
    if not choices:
        return None
    others = [item for item in items if item != choices[0]]
    choice = shown(choices[0], quoted=True)
    if others:
        raise RequestError(
            f"{choice} cannot be combined with {shown(others[0], quoted=True)}: name GPUs, or say how many"
        )
    # Repeated items are gone, but a comma still shows them. A comma after the last item means nothing.
    if "," in request.strip().removesuffix(","):
        raise RequestError(f"{choice} is written twice, but a choice stands alone", hint="as in auto:2")
    if CDI_PREFIX in request:
        raise RequestError(
            f"{choice} is not a CDI device: a CDI spec is static, and what a choice means depends on the moment",
            hint=f"write {shown(choices[0])} without 'amd.com/gpu='",
        )
    return _parse(choices[0])


def _is_choice(item: str) -> bool:
    text = item.lower().replace("&", "+")
    word = text.partition("+")[0].partition(":")[0].strip()
    return word in (AUTO, FREE) or (word == ALL and text.partition("+")[0].strip() == ALL and "+" in text)


def _parse(item: str) -> Choice:
    head, *conditions = [part.strip() for part in item.replace("&", "+").split("+")]
    if len(conditions) > MOST_CONDITIONS:
        message = f"a choice with {len(conditions)} conditions is too long"
        raise RequestError(message, hint=f"at most {MOST_CONDITIONS} are read")
    name, colon, number = head.partition(":")
    word = name.strip().lower()
    count = 0 if word == ALL else 1
    if colon and word != ALL:
        count = _parse_count(item, number.strip())
    return Choice(
        text=item,
        word=word,
        count=count,
        conditions=tuple(dict.fromkeys(_parse_condition(item, text) for text in conditions)),
    )


def _parse_count(item: str, text: str) -> int:
    count = _parse_digits(text)
    if count is None:
        raise RequestError(f"{shown(item, quoted=True)} does not say how many GPUs", hint="as in auto:2")
    if count == 0:
        raise RequestError(f"{shown(item, quoted=True)} asks for no GPU", hint="write none")
    return count


def _parse_condition(item: str, text: str) -> Condition:
    if not text:
        raise RequestError(f"{shown(item, quoted=True)} has an empty condition", hint=f"conditions are {CONDITIONS}")
    name, colon, value = text.partition(":")
    name, value = name.strip().lower(), value.strip()
    if name == VRAM:
        return _parse_vram(text, value)
    if name == NUMA:
        return _parse_numa(text, value)
    if name == GROUP:
        return _parse_group(text, value)
    if colon:
        raise _unknown(text)
    return _parse_word(text, name)


def _parse_word(text: str, word: str) -> Condition:
    if word in (XGMI, DISCRETE, INTEGRATED):
        return Condition(kind=word, text=text)
    if word in MODES:
        return Condition(kind=MODE, text=text, value=word.upper())
    if word.upper() in known_models():
        return Condition(kind=MODEL, text=text, value=word.upper())
    # The last digit of a family is an X: gfx94X, as AMD names its builds.
    digits = word.removeprefix("gfx").removesuffix("x")
    if word.startswith("gfx") and digits and not digits.strip(HEXADECIMAL):
        return Condition(kind=GFX, text=text, value=word)
    raise _unknown(text)


def _unknown(text: str) -> RequestError:
    return RequestError(f"{shown(text, quoted=True)} is not a condition", hint=f"conditions are {CONDITIONS}")


def _parse_vram(text: str, size: str) -> Condition:
    unit = size[-len("MiB") :].lower()
    amount = _parse_digits(size[: -len("MiB")].strip())
    if amount is None or unit not in UNITS:
        raise RequestError(f"{shown(text, quoted=True)} is not an amount of memory", hint="as in vram:64GiB")
    return Condition(kind=VRAM, text=text, amount=amount, in_gib=unit == "gib")


def _parse_numa(text: str, number: str) -> Condition:
    node = _parse_digits(number)
    if node is None:
        raise RequestError(f"{shown(text, quoted=True)} is not a NUMA node", hint="as in numa:0")
    return Condition(kind=NUMA, text=text, amount=node)


def _parse_group(text: str, name: str) -> Condition:
    if not is_group_name(name):
        raise RequestError(f"{shown(text, quoted=True)} names no group", hint="as in group:NAME")
    return Condition(kind=GROUP, text=text, value=name)


def _parse_digits(text: str) -> int | None:
    return parse_number(text) if text.isdecimal() else None
