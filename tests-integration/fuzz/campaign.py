"""Change what programs parse, call them, and report calls that end in a trace, take too long or too much memory.

Example: python tests-integration/fuzz/campaign.py --minutes 10 --parser cdi --parser state
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.call import Outcome, call_entry, call_process, import_programs
from fuzz.mutate import mutate
from fuzz.world import Call, Input, World

# Seconds of a processor, and MiB.
MOST_CPU = 1.0
MOST_MEMORY = 100
# Every so many rounds a program runs as a process, and the host is made again, which programs may have changed.
PROCESS_EVERY = 1000
REMAKE_EVERY = 500
FAULTS = Path("fuzz-faults")
# What a program says that found a bug in itself.
BUGS = ("Traceback (most recent call last)", "internal error")
# A request is the end of the word before it.
JOINED = "="


class Fault(NamedTuple):
    """A call that ended as none may, what was changed to what, and why it is a fault."""

    why: str
    chosen: Input
    call: Call
    content: bytes
    outcome: Outcome


def play(world: World, chosen: Input, call: Call, content: bytes, *, as_process: bool = False) -> Fault | None:
    """Call a program with a changed input; return what is wrong with its end."""
    words = world.change(chosen, content)
    full = (*call[:-1], call[-1] + words[0]) if words and call[-1].endswith(JOINED) else (*call, *words)
    run = call_process if as_process else call_entry
    try:
        outcome = run(full[0], full[1:], world.environment)
        why = _fault(outcome)
        # Other work of the machine counts as time of a processor now and then.
        if why.startswith("took"):
            outcome = run(full[0], full[1:], world.environment)
            why = _fault(outcome)
    finally:
        world.restore(chosen)
    return Fault(why, chosen, full, content, outcome) if why else None


def _fault(outcome: Outcome) -> str:
    if outcome.code < 0:
        return f"ended by signal {-outcome.code}"
    if any(bug in outcome.output for bug in BUGS):
        return f"trace: {outcome.output.strip().splitlines()[-1][:200]}"
    if outcome.cpu > MOST_CPU:
        return f"took {outcome.cpu:.1f} s"
    return f"took {outcome.memory:.0f} MiB" if outcome.memory > MOST_MEMORY else ""


def rounds(world: World, parsers: list[str], chance: random.Random) -> Iterator[tuple[Input, Fault | None]]:
    """Play rounds without end, as many of each parser."""
    names = parsers or sorted({each.parser for each in world.inputs})
    inputs = {name: [each for each in world.inputs if each.parser == name] for name in names}
    count = 0
    while True:
        for name in names:
            count += 1
            if count % REMAKE_EVERY == 0:
                world.make()
            chosen = chance.choice(inputs[name])
            content = mutate(chance.choice(chosen.seeds), chance)
            yield (
                chosen,
                play(world, chosen, chance.choice(chosen.calls), content, as_process=count % PROCESS_EVERY == 0),
            )


def main(words: list[str]) -> int:
    """Play rounds until the time is over; return whether there were faults."""
    options = _options().parse_args(words)
    deadline = time.monotonic() + 60 * options.minutes
    played: Counter[str] = Counter()
    faults: dict[str, Fault] = {}
    import_programs()
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory) / "world")
        for chosen, fault in rounds(world, options.parser, random.Random(options.seed)):
            played[chosen.parser] += 1
            if fault and fault.why not in faults:
                faults[fault.why] = fault
                _keep(fault)
            if time.monotonic() > deadline or (options.rounds and played.total() >= options.rounds):
                break
    print(f"seed {options.seed}:", ", ".join(f"{name} {count}" for name, count in sorted(played.items())))
    print(f"{played.total()} rounds, {len(faults)} faults")
    return int(bool(faults))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=0, help="end after so many, if that is earlier")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parser", action="append", default=[], help="only this one; may be given several times")
    return parser


def _keep(fault: Fault) -> None:
    """Print a fault, and write what the file contained."""
    FAULTS.mkdir(exist_ok=True)
    kept = FAULTS / f"{fault.chosen.parser}-{hashlib.sha256(fault.content).hexdigest()[:12]}"
    kept.write_bytes(fault.content)
    print(f"{fault.why}\n  {' '.join(fault.call)[:300]!r}\n  {fault.chosen.path}: {kept}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
