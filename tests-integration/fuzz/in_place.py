"""Many calls of entry functions in one child of this process, which is several times as fast as a child for each."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TypeVar

import typer.main

from amd_gpu_tracker.cli import program as tracker
from fuzz.call import ENTRIES, MOST_CPU, Outcome, Run, call_entry

Turn = TypeVar("Turn")
# It becomes another program in the end.
ALONE = "amd-container-runtime"


def play_in_place(turns: Sequence[Turn], play: Callable[[Turn, Run], object]) -> set[int]:
    """Play all turns; return the positions of those that are to be played again, alone: faults, and where it ended."""
    suspects: set[int] = set()
    begin = 0
    while begin < len(turns):
        answered = _play_from(begin, turns, play)
        suspects |= {position for position, is_fault in answered.items() if is_fault}
        begin += len(answered)
        # The child did not come to the end of this one.
        if begin < len(turns):
            suspects.add(begin)
            begin += 1
    return suspects


def _play_from(begin: int, turns: Sequence[Turn], play: Callable[[Turn, Run], object]) -> dict[int, bool]:
    """Play in a child from a position; return of each turn that ended whether it was a fault."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_child(begin, turns, play, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        said = answers.read()
    os.waitpid(child, 0)
    return {begin + position: answer == ord("1") for position, answer in enumerate(said)}


def _be_child(begin: int, turns: Sequence[Turn], play: Callable[[Turn, Run], object], writing: int) -> None:
    try:
        with tempfile.TemporaryFile() as output:
            for place in (1, 2):
                os.dup2(output.fileno(), place)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            # Half of a round is Typer's, which makes the same commands for each.
            typer.main.get_command = functools.cache(typer.main.get_command)
            typer.main.get_group = functools.cache(typer.main.get_group)
            tracker.make_app = functools.cache(tracker.make_app)
            # A look at how busy processes are takes two, with a pause in which nothing happens here.
            time.sleep = lambda _: None
            run = _runner(output)
            for turn in turns[begin:]:
                # A program that does not end is ended with this child.
                signal.setitimer(signal.ITIMER_PROF, MOST_CPU)
                os.write(writing, b"1" if play(turn, run) else b"0")
    finally:
        os._exit(0)


def _runner(output: IO[bytes]) -> Run:
    def run(program: str, words: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        if program == ALONE:
            return call_entry(program, words, environment)
        output.seek(0)
        output.truncate()
        _forget_peak()
        begin = time.process_time()
        code = _call(program, words, environment)
        cpu = time.process_time() - begin
        output.seek(0)
        return Outcome(code, cpu, _peak(), output.read(1 << 20).decode("utf-8", "replace"))

    return run


def _call(program: str, words: Sequence[str], environment: Mapping[str, str]) -> int:
    streams = {name: os.fdopen(number, mode, closefd=False) for number, name, mode in STREAMS}
    vars(sys).update(streams)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [program, *words]
    try:
        # Their `main` would end this child.
        importlib.import_module(ENTRIES[program]).run_command_line()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    else:
        return 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _forget_peak() -> None:
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")


def _peak() -> float:
    """Return the largest resident size since it was forgotten, in MiB."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return int(next(line for line in file if line.startswith("VmHWM:")).split()[1]) / 1024


STREAMS = ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w"))
