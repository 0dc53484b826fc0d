"""Change what programs parse, call them, and report calls that end in a trace, take too long or too much memory.

Example: python tests-integration/fuzz/campaign.py --minutes 10 --parser cdi --parser state
"""

from __future__ import annotations

import hashlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.call import Outcome, Run, call_entry, call_process, import_programs
from fuzz.in_place import play_in_place
from fuzz.mutate import mutate
from fuzz.world import Call, Input, World

# Seconds of a processor, and MiB.
MOST_CPU = 1.0
MOST_MEMORY = 100
# Every so many rounds a program runs as a process, and the host is made again, which programs may have changed.
PROCESS_EVERY = 1000
BATCH = 500
REPORT_EVERY = 10_000
# Programs wait for the disk when they write.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
# What was a fault once, and what parsers fail on; each by the name of its parser and what it is.
CORPUS = Path(__file__).parent / "corpus"
FAULTS = Path("fuzz-faults")
# What a program says that found a bug in itself.
BUGS = ("Traceback (most recent call last)", "internal error")
# A request is the end of the word before it.
JOINED = "="
Turn = tuple[Input, Call, bytes]


class Fault(NamedTuple):
    """A call that ended as none may, what was changed to what, and why it is a fault."""

    why: str
    chosen: Input
    call: Call
    content: bytes
    outcome: Outcome


def play(world: World, chosen: Input, call: Call, content: bytes, run: Run = call_entry) -> Fault | None:
    """Call a program with a changed input; return what is wrong with its end."""
    words = world.change(chosen, content)
    full = (*call[:-1], call[-1] + words[0]) if words and call[-1].endswith(JOINED) else (*call, *words)
    try:
        outcome = run(full[0], full[1:], world.environment)
        why = find_fault(outcome)
        # Other work of the machine counts as time of a processor now and then.
        if why.startswith("took"):
            outcome = run(full[0], full[1:], world.environment)
            why = find_fault(outcome)
    finally:
        world.restore(chosen)
    return Fault(why, chosen, full, content, outcome) if why else None


def find_fault(outcome: Outcome) -> str:
    """Return why an end is a fault, "" for one that is none."""
    if outcome.code < 0:
        return f"ended by signal {-outcome.code}"
    if any(bug in outcome.output for bug in BUGS):
        return f"trace: {outcome.output.strip().splitlines()[-1][:200]}"
    if outcome.cpu > MOST_CPU:
        return f"took {outcome.cpu:.1f} s"
    return f"took {outcome.memory:.0f} MiB" if outcome.memory > MOST_MEMORY else ""


def play_corpus(world: World, parsers: Sequence[str]) -> Iterator[tuple[Input, Fault | None]]:
    """Give each input that was kept to every call that reads one of its kind."""
    for kept in sorted(CORPUS.iterdir()):
        parser = kept.name.partition(" ")[0]
        for chosen in (each for each in world.inputs if each.parser == parser and parser in parsers):
            for call in chosen.calls:
                yield chosen, play(world, chosen, call, kept.read_bytes())


def play_rounds(
    world: World, parsers: Sequence[str], seed: int, *, batch: int = BATCH
) -> Iterator[tuple[Input, Fault | None]]:
    """Play rounds without end, as many of each parser; what goes wrong in a batch is played again by itself."""
    number = 0
    for made in count():
        world.make()
        turns = list(islice(_turns(world, parsers, random.Random(f"{seed} {made}")), batch))
        suspects = play_in_place(turns, lambda turn, run: play(world, *turn, run=run))
        for position, turn in enumerate(turns):
            number += 1
            as_process = number % PROCESS_EVERY == 0
            alone = as_process or position in suspects
            yield turn[0], play(world, *turn, run=call_process if as_process else call_entry) if alone else None


def _turns(world: World, parsers: Sequence[str], chance: random.Random) -> Iterator[Turn]:
    inputs = {name: [each for each in world.inputs if each.parser == name] for name in parsers}
    while True:
        for name in parsers:
            chosen = chance.choice(inputs[name])
            content = mutate(chance.choice(chosen.seeds), chance)
            yield chosen, chance.choice(chosen.calls), content


class Campaign:
    """What was played so far, and the faults, one of a kind."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.played: Counter[str] = Counter()
        self.faults: dict[str, Fault] = {}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begin

    def note(self, chosen: Input, fault: Fault | None) -> None:
        """Count a call."""
        self.played[chosen.parser] += 1
        if fault and fault.why not in self.faults:
            self.faults[fault.why] = fault
            _keep(fault)
        if self.played.total() % REPORT_EVERY == 0:
            print(f"{self.played.total()} rounds, {len(self.faults)} faults in {self.seconds:.0f} s", flush=True)


def main(
    *,
    minutes: Annotated[float, typer.Option(help="For how long rounds are played.")] = 5,
    rounds: Annotated[int, typer.Option(help="End after so many, if that is earlier.")] = 0,
    seed: Annotated[int, typer.Option(help="The same seed plays the same rounds.")] = 1,
    parser: Annotated[list[str] | None, typer.Option(help="Only this one; may be given several times.")] = None,
) -> None:
    """Change what programs parse and call them: the corpus first, then rounds until the time is over."""
    import_programs()
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory:
        world = World(Path(directory) / "world")
        parsers = parser or sorted({each.parser for each in world.inputs})
        kept, campaign = Campaign(), Campaign()
        for chosen, fault in play_corpus(world, parsers):
            kept.note(chosen, fault)
        for chosen, fault in play_rounds(world, parsers, seed, batch=min(BATCH, rounds or BATCH)):
            campaign.note(chosen, fault)
            if campaign.seconds > 60 * minutes or campaign.played.total() == rounds:
                break
    faults = len({**kept.faults, **campaign.faults})
    print(f"corpus: {kept.played.total()} calls")
    print(f"seed {seed}:", ", ".join(f"{name} {count}" for name, count in sorted(campaign.played.items())))
    print(f"{campaign.played.total()} rounds, {faults} faults")
    raise typer.Exit(int(bool(faults)))


def _keep(fault: Fault) -> None:
    """Print a fault, and write what the file contained."""
    FAULTS.mkdir(exist_ok=True)
    kept = FAULTS / f"{fault.chosen.parser}-{hashlib.sha256(fault.content).hexdigest()[:12]}"
    kept.write_bytes(fault.content)
    print(f"{fault.why}\n  {' '.join(fault.call)[:300]!r}\n  {fault.chosen.path}: {kept}", flush=True)


if __name__ == "__main__":
    typer.run(main)
