"""Random files of variables for Compose, from seeds: valid, odd and invalid ones."""

from __future__ import annotations

from random import Random

NAMES = ("A", "AMD_VISIBLE_DEVICES", "B_1", "a.b", "X-Y", "GPUS", "HOST", "C[0]")
PIECES = (
    *("0", "0-2", "all", "x y", "a#b", "a # b", "$HOST", "${HOST}", "${NONE:-1}", "${NONE-}", "${GPUS:-2}", "$$"),
    *("\\$HOST", "\\n", "\\t", "é", "'", '"', "=", "${HOST:+z}", "a\\b", "$", "${", "${A}", "  ", "#", '\\"', "\\'"),
    *("${NONE:-${HOST}}", "\\101", "\\0101", ":", "%"),
)
ODD_LINES = ("A B=1", "1=2", "=x", "A$=1", "é=1", "export", "A+=1", "-e A=1")
COMMENTS = ("# comment", "  # indented", "", "   ", "#A=1")
# The caller's variables.
CALLER = {"HOST": "h"}


def make_env_files(count: int) -> list[str]:
    """Return the texts of `count` files, which are always the same."""
    return [_make(Random(seed)) for seed in range(count)]


def _make(rng: Random) -> str:
    text = "\n".join(_line(rng) for _ in range(rng.randint(1, 5)))
    mark = rng.choice(("", "", "", "", "\ufeff"))
    lines = text.replace("\n", "\r\n") if rng.random() < 0.1 else text
    end = rng.choice(("\n", "\n", "\n", ""))
    return f"{mark}{lines}{end}"


def _line(rng: Random) -> str:
    name, kind = rng.choice(NAMES), rng.random()
    if kind < 0.62:
        before, sign = rng.choice(("", "", "export ", "export\t", " ")), rng.choice("=,=,=, = ,: ,:,= ".split(","))
        return f"{before}{name}{sign}{_value(rng)}"
    if kind < 0.72:
        return rng.choice(COMMENTS)
    if kind < 0.82:
        return rng.choice(("", "export ")) + name
    if kind < 0.86:
        return rng.choice(ODD_LINES)
    return f"{name}={rng.choice(('0', '1,2', 'all'))}"


def _value(rng: Random) -> str:
    raw = "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 3)))
    forms = (raw, raw, f'"{raw}"', f"'{raw}'", f'"{raw}" # c', f"'{raw}'x", f"{raw} # c", f'"{raw}\nmore"', f" {raw} ")
    return rng.choice(forms)
