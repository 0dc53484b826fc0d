"""What ROCm's programs do with their variables, step by step as their sources do it, and random environments.

It was written from libhsakmt's topology.c, ROCr's flag.h and amd_filter_device.cpp, and CLR's flags.cpp and
rocdevice.cpp, and not from the code of explain. GPUs are pairs of a KFD node and a unique id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

Gpu = tuple[int, int]
Environment = dict[str, str]

SPACES = " \t\n\v\f\r"
ULONG, LONG = 2**64 - 1, 2**63 - 1


def hip_order(gpus: Iterable[Gpu], environment: Environment, processors: int) -> list[int]:
    """Return the KFD nodes of the GPUs that HIP lists, in its order."""
    agents = sorted(gpus)
    for node, _ in enumerate(agents, processors):
        value = environment.get(f"HSA_OVERRIDE_GFX_VERSION_{node}", environment.get("HSA_OVERRIDE_GFX_VERSION"))
        if value is not None and not reads_version(value):
            return []
    agents = rocr(agents, environment)
    return [node for node, _ in clr(agents, environment)]


def reads_version(value: str) -> bool:
    """Return whether sscanf(value, "%u.%u.%u%c") gives three numbers within their limits."""
    at = 0
    for position, limit in enumerate((63, 255, 255)):
        while at < len(value) and value[at] in SPACES:
            at += 1
        negative = value[at : at + 1] == "-"
        at += value[at : at + 1] in ("+", "-") and value[at : at + 1] != ""
        begin = at
        while at < len(value) and value[at] in "0123456789":
            at += 1
        if begin == at:
            return False
        number = int(value[begin:at])
        number = ULONG if number > ULONG else (2**64 - number) % 2**64 if negative else number
        if number & 0xFFFFFFFF > limit:
            return False
        if position < 2:
            if value[at : at + 1] != ".":
                return False
            at += 1
    return at == len(value)


def rocr(agents: list[Gpu], environment: Environment) -> list[Gpu]:
    value = environment.get("ROCR_VISIBLE_DEVICES")
    if value is None:
        return agents
    ids = [f"GPU-{unique:016X}" if unique else "Invalid-UUID" for _, unique in agents]
    tokens = getline(value)
    chosen: list[int] = []
    for token in [token.upper().strip(SPACES) for token in tokens][: min(len(agents), len(tokens))]:
        if token == "":
            # std::out_of_range out of hsa_init
            return []
        index = by_id(token, ids) if token[0] == "G" else strtol(token)
        if index is None or index < 0 or index >= len(agents) or index in chosen:
            break
        chosen.append(index)
    return [agents[index] for index in chosen]


def getline(value: str) -> list[str]:
    tokens: list[str] = []
    token = ""
    for letter in value:
        if letter == ",":
            tokens.append(token)
            token = ""
        else:
            token += letter
    return [*tokens, token] if token else tokens


def by_id(token: str, ids: list[str]) -> int | None:
    if len(token) < 5 or len(token) > 20:
        return None
    matching = [index for index, known in enumerate(ids) if len(token) <= len(known) and known[: len(token)] == token]
    return matching[0] if len(matching) == 1 else None


def strtol(token: str) -> int | None:
    """Return strtol(token, &end, 0) as an int32_t, None if `end` is not the end."""
    sign, digits = (token[0], token[1:]) if token[0] in "+-" else ("+", token)
    if digits[:2] == "0X" and digits[2:3] and digits[2] in "0123456789ABCDEF":
        base, digits, allowed = 16, digits[2:], "0123456789ABCDEF"
    elif digits[:1] == "0":
        base, allowed = 8, "01234567"
    else:
        base, allowed = 10, "0123456789"
    number = 0
    for digit in digits:
        if digit not in allowed:
            return None
        number = number * base + allowed.index(digit)
    if not digits:
        return None
    number = min(number, LONG + (sign == "-"))
    low = (-number if sign == "-" else number) & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low


def clr(agents: list[Gpu], environment: Environment) -> list[Gpu]:
    first, second = (remove_quotes(environment.get(f"{name}_VISIBLE_DEVICES", "")) for name in ("HIP", "CUDA"))
    ordinals = first or second
    if not ordinals:
        return agents
    valid: list[int] = []
    position = 0
    while position < len(ordinals):
        end = ordinals.find(",", position)
        end = len(ordinals) if end < 0 else end
        word = ordinals[position:end]
        if "GPU-" in word:
            for index, (_, unique) in enumerate(agents):
                if word in (f"GPU-{unique:016x}" if unique else "GPU-XX"):
                    word = str(index)
                    break
        if word not in [str(index) for index in range(len(agents))]:
            break
        if int(word) not in valid:
            valid.append(int(word))
        position = end + 1
    return [agents[index] for index in valid]


def remove_quotes(value: str) -> str:
    begin = 0
    while value[begin : begin + 1] == " ":
        begin += 1
    if value[begin : begin + 1] != '"':
        return value
    last: int | None = None
    for at in range(begin + 1, len(value)):
        if value[at] == '"':
            last = at
        elif last is not None and value[at] != " ":
            last = None
    return value if last is None else value[begin + 1 : last]


NUMBERS = ["0", "1", "2", "3", "4", "9", "-1", "00", "01", "+1", "0x1", "0X2", " 0", "1 ", "\t2", "", " ", "all", "1.0"]
NUMBERS += [
    "4294967296",
    "4294967297",
    "99999999999999999999",
    "-99999999999999999999",
    "08",
    "-0",
    "- 1",
    "1;2",
    "none",
]
VERSIONS = ["", " ", "11.0.0", " 11.0.0", "11.0.0 ", "11.0", "11.0.0.0", "gfx1100", "11.0.00", "64.0.0", "63.255.255"]
VERSIONS += [
    "11.0.300",
    "11.256.0",
    "+11.0.0",
    "-11.0.0",
    "11.-0.0",
    "11. 0. 0",
    "11 .0.0",
    "11.0.0a",
    "11,0,0",
    "v11.0.0",
]
VERSIONS += ["4294967307.0.0", "-4294967285.0.0", "99999999999999999999.0.0", "011.0.0", "0x0b.0.0", "none", "10.3.0"]


def make_environments(seed: int, count: int, ids: Sequence[int]) -> list[Environment]:
    """Return random environments about GPUs with these unique ids; the same seed gives the same ones."""
    rng = Random(seed)
    return [_environment(rng, ids) for _ in range(count)]


def _environment(rng: Random, ids: Sequence[int]) -> Environment:
    made: Environment = {}
    for name in ("ROCR", "HIP", "CUDA"):
        if rng.random() < 0.45:
            made[f"{name}_VISIBLE_DEVICES"] = _list(rng, ids)
    if rng.random() < 0.25:
        made["HSA_OVERRIDE_GFX_VERSION"] = rng.choice(VERSIONS)
    if rng.random() < 0.2:
        made[f"HSA_OVERRIDE_GFX_VERSION_{rng.randrange(8)}"] = rng.choice(VERSIONS)
    return made


def _list(rng: Random, ids: Sequence[int]) -> str:
    if rng.random() < 0.15:
        return ""
    plain = rng.random() < 0.5
    words = [str(rng.randrange(5)) if plain else _word(rng, ids) for _ in range(rng.randint(1, 4))]
    text = ",".join(words)
    return rng.choice([text, text, text, text, f"{text},", f'"{text}"', f" '{text}'", f' "{text}" ', f'"{text}'])


def _word(rng: Random, ids: Sequence[int]) -> str:
    one = rng.choice(ids)
    text = f"GPU-{one:016x}"
    forms = [text, text.upper(), text[:9], "GPU-", "GPU", "G", "gpu-0", "GPU-XX", f" {text}", f"{text}0", text[4:]]
    return rng.choice([rng.choice(NUMBERS), rng.choice(NUMBERS), rng.choice(forms)])
