"""Random services of Compose files with valid and invalid values, from a seed.

The pieces are in odd_service_words.json. They follow the Compose specification, by an author who had not read the code
of explain. Each piece is used alone once; then pieces are combined.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from support.compose_services import Service
from support.run_lines import IMAGE, PLAIN_IMAGE

WORDS: dict[str, list[str]] = json.loads(Path(__file__).with_name("odd_service_words.json").read_text(encoding="utf-8"))


def make_odd_services(seed: int, mixed: int) -> list[Service]:
    """Return each piece alone, then `mixed` services of several pieces; the same seed gives the same ones."""
    rng = Random(seed)
    pieces = {kind: [_write(kind, word) for word in words] for kind, words in WORDS.items()}
    alone = [_service(rng, [piece]) for kind in pieces.values() for piece in kind]
    return [*alone, *(_service(rng, _several(rng, pieces)) for _ in range(mixed))]


def _write(kind: str, word: str) -> str:
    """Return the line of a service; the words of `whole` are already complete lines."""
    if kind in ("devices", "device_cgroup_rules", "environment"):
        return f"{kind}: [{json.dumps(word)}]"
    if kind == "reservation":
        return f"deploy: {{resources: {{reservations: {{devices: [{word}]}}}}}}"
    return word if kind == "whole" else f"{kind}: {word}"


def _several(rng: Random, pieces: dict[str, list[str]]) -> list[str]:
    kinds = rng.sample(sorted(set(pieces) - {"whole"}), rng.randint(2, 4))
    return [rng.choice(pieces[kind]) for kind in kinds]


def _service(rng: Random, pieces: list[str]) -> Service:
    runtime = [] if any(piece.startswith("runtime:") for piece in pieces) or rng.random() < 0.3 else ["runtime: amd"]
    lines = [f"image: {rng.choice((IMAGE, IMAGE, PLAIN_IMAGE))}", "network_mode: none", *runtime, *pieces]
    body = "".join(f"    {line}\n" for line in lines)
    return Service(f"services:\n  main:\n{body}", rng.random() < 0.5)
