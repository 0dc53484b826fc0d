"""Random command lines of `docker run` and `podman run` with valid and invalid options, from a seed.

The options are in odd_words.json, the files in odd_env_files.py. They come from the engines' --help and manual pages,
by an author who had not read the code of explain. Each piece, an option with its value, is used alone once; then pieces
are combined.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from random import Random
from typing import NamedTuple

from support.odd_env_files import ENV_FILES
from support.run_lines import IMAGE, PLAIN_IMAGE

Piece = tuple[str, ...]

SEED = 71
MIXED = 120
# Limit for the pieces of one option that are used alone.
MOST_ALONE = 60
WORDS: dict[str, list[str]] = json.loads(Path(__file__).with_name("odd_words.json").read_text(encoding="utf-8"))
OPTIONS = {
    "gpus": ("--gpus",),
    "env": ("-e", "--env"),
    "rule": ("--device-cgroup-rule",),
    "annotation": ("--annotation",),
    "ipc": ("--ipc",),
    "pid": ("--pid",),
    "userns": ("--userns",),
    "user": ("-u", "--user"),
    "group": ("--group-add",),
    "capability": ("--cap-add", "--cap-drop"),
    "security": ("--security-opt",),
    "volume": ("-v", "--volume"),
    "mount": ("--mount",),
}


class Odd(NamedTuple):
    """A command line: words before and after `run`, and whether the caller's variables are set."""

    before: Piece
    words: Piece
    with_caller: bool


def make_odd_lines(seed: int, mixed: int, *, is_podman: bool) -> list[Odd]:
    """Return each piece alone, then `mixed` lines of several pieces; the same seed gives the same ones."""
    rng = Random(seed)
    engine = "podman" if is_podman else "docker"
    before = [tuple(piece) for piece in WORDS[f"before_{engine}"]]
    kinds = _kinds(rng, engine)
    alone = [Odd((), (*piece, IMAGE, "true"), rng.random() < 0.5) for kind in kinds for piece in _thinned(rng, kind)]
    first = [Odd(piece, (IMAGE, "true"), rng.random() < 0.5) for piece in before]
    images = [Odd((), (image, "true"), with_caller=False) for image in WORDS["image"]]
    return [*alone, *first, *images, *(_mix(rng, kinds, before) for _ in range(mixed))]


def _kinds(rng: Random, engine: str) -> list[list[Piece]]:
    """Return the pieces of each option; options that give GPUs to containers come first."""
    flags = [f"--privileged={value}" for value in WORDS["boolean"]]
    return [
        [_written(rng, "--device", device) for device in _devices(rng)],
        [_written(rng, "--env-file", path) for path in ENV_FILES],
        [(flag,) for flag in ("--privileged", *flags)],
        [(f"--runtime={name}",) for name in WORDS["runtime"]],
        *([_written(rng, rng.choice(options), value) for value in WORDS[kind]] for kind, options in OPTIONS.items()),
        *([tuple(piece) for piece in WORDS[kind]] for kind in ("others", f"others_{engine}")),
    ]


def _devices(rng: Random) -> list[str]:
    """Return each kind of source alone and with targets and modes, and forms of four parts."""
    sources, targets, modes = WORDS["source"], WORDS["target"], WORDS["mode"]
    pairs = [f"/dev/kfd:{second}" for second in (*targets, *modes)]
    triples = [f"/dev/dri/renderD128:{target}:{mode}" for target, mode in product(targets, modes)]
    mixed = [f"{rng.choice(sources)}:{rng.choice((*targets, *modes))}" for _ in range(20)]
    return [*WORDS["device"], *sources, *pairs, *rng.sample(triples, 30), *mixed]


def _thinned(rng: Random, kind: list[Piece]) -> list[Piece]:
    chosen = sorted(rng.sample(range(len(kind)), min(len(kind), MOST_ALONE)))
    return [kind[index] for index in chosen]


def _written(rng: Random, option: str, value: str) -> Piece:
    """Format an option with its value as one word or two."""
    if not option.startswith("--"):
        return (option, value) if not value or rng.random() < 0.5 else (f"{option}{value}",)
    return (f"{option}={value}",) if rng.random() < 0.6 else (option, value)


def _mix(rng: Random, kinds: list[list[Piece]], before: list[Piece]) -> Odd:
    chosen = [rng.choice(rng.choice((*kinds[:7], *kinds))) for _ in range(rng.randint(2, 4))]
    first = rng.choice(before) if rng.random() < 0.15 else ()
    end = (rng.choice((IMAGE, IMAGE, PLAIN_IMAGE)), *rng.choice((("true",), ("true", "--privileged"), ())))
    return Odd(first, (*(word for piece in chosen for word in piece), *end), rng.random() < 0.5)
