"""Users take turns, however much there is to do for one of them."""

from __future__ import annotations

from amd_gpu_tracker.broker.fair_turns import FairTurns


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def filled(clock, **items):
    turns = FairTurns(clock)
    for uid, count in items.items():
        for number in range(count):
            turns.add(int(uid[1:]), f"{uid}-{number}")
    return turns


def test_each_user_has_one_turn_in_a_round_where_things_take_long():
    clock = Clock()
    turns = filled(clock, u1=1000, u2=2, u3=1)
    done = []

    for item in turns.take(0.01):
        done.append(item)
        clock.seconds += 0.02

    assert done == ["u1-0", "u2-0", "u3-0"]
    assert (len(turns), turns.count_of(1), turns.count_of(2), turns.count_of(3)) == (1000, 999, 1, 0)


def test_a_user_has_as_much_in_a_turn_as_fits_into_it():
    clock = Clock()
    turns = filled(clock, u1=1000, u2=1)
    done = []

    for item in turns.take(0.01):
        done.append(item)
        clock.seconds += 0.004

    assert done == ["u1-0", "u1-1", "u1-2", "u2-0"]


def test_what_comes_first_is_done_first():
    turns = filled(Clock(), u1=3)

    assert list(turns.take()) == ["u1-0", "u1-1", "u1-2"]
    assert list(turns.take()) == []
