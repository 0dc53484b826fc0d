"""Tasks of a lab's week on a booted machine: a course of 60, GPUs for the night only, and one policy for two servers.

Each test goes on where the one before ended.
"""

from __future__ import annotations

import json

import pytest

from support.stand import wait_until

# The night has a begin and an end to the minute.
pytestmark = [pytest.mark.e2e, pytest.mark.story, pytest.mark.timeout(1800)]

PUPILS = [f"pupil{number:02}" for number in range(60)]
# A job makes a directory of its own for its GPU; where another job has the GPU, that fails.
LESSON = """\
#!/bin/sh
gpu=/run/lesson/gpu$AMD_VISIBLE_DEVICES
mkdir "$gpu" || exit 9
sleep 0.5
rmdir "$gpu"
"""
ALL_AT_ONCE = """
install --directory --mode=777 /run/lesson /run/lesson/said
for name in {names}; do
  setpriv --reuid="$name" --regid="$name" --init-groups \\
    sh -c 'amd-ctk run --gpus=free:1 --wait --name=lesson -- /usr/local/bin/lesson; echo "ended with $?"' \\
    >"/run/lesson/said/$name" 2>&1 &
done
wait
"""
NIGHT = "/etc/cron.d/gpus-at-night"


def said_to(stand, user, command):
    """Return what a command says to a user, and its exit code in the last line."""
    return stand.as_user(user, f"sh -c '{command}; echo $?' 2>&1")


def test_a_course_of_sixty_pupils_has_one_gpu_each_and_no_gpu_has_two(stand):
    stand.run("groupadd course")
    stand.run(f"for name in {' '.join(PUPILS)}; do useradd --create-home --groups course $name || exit; done")
    stand.write("/usr/local/bin/lesson", LESSON)
    stand.run("chmod 755 /usr/local/bin/lesson; amd-ctk users allow @course --gpus=1 --time=2h")

    stand.run(ALL_AT_ONCE.format(names=" ".join(PUPILS)))

    assert stand.run("tail -qn 1 /run/lesson/said/* | sort | uniq -c").split() == ["60", "ended", "with", "0"]
    totals = json.loads(stand.run("amd-ctk report --json"))["totals"]
    assert sorted(row["person"] for row in totals) == PUPILS
    assert {row["starts"] for row in totals} == {1}


def test_a_pupil_may_not_take_a_second_gpu_and_others_none(stand):
    stand.as_user("pupil00", "amd-ctk reserve 2 --for=1h --name=mine")

    second = said_to(stand, "pupil00", "amd-ctk run --gpus=free:1 -- true")
    stranger = said_to(stand, "alice", "amd-ctk run --gpus=free:1 -- true")

    assert second == "you have 1 of 1 GPUs ('amd-ctk run --wait' waits in line)\n1\n"
    assert stranger.endswith("\n3\n")
    stand.as_user("pupil00", "amd-ctk end mine")
    stand.run("amd-ctk users deny @course")


def test_a_line_for_cron_gives_gpus_for_the_night_only(stand):
    stand.run("amd-ctk users allow bob --gpus=1")
    begin, end = stand.run("date --date='2 minutes' '+%M %H'; date --date='4 minutes' +%H:%M").splitlines()
    allow = f"/usr/bin/amd-ctk users allow alice --gpus=1 --until={end}"
    stand.write(NIGHT, f"{begin} * * * root {allow} >/run/said-at-night 2>&1; echo >>/run/said-at-night\n")
    by_day = said_to(stand, "alice", "amd-ctk run --gpus=free:1 -- true")

    wait_until(lambda: stand.run("cat /run/said-at-night", check=False).endswith("\n\n"))
    at_night = said_to(stand, "alice", "amd-ctk run --gpus=free:1 --name=night -- sleep 86400")

    assert at_night.splitlines()[-1] == "143", at_night
    assert by_day.endswith("\n3\n")
    # Jobs end in the last second of the rule.
    wait_until(lambda: said_to(stand, "alice", "amd-ctk run --gpus=free:1 -- true") == by_day)
    stand.run(f"rm {NIGHT}; amd-ctk users deny alice; amd-ctk users deny bob")


def test_a_policy_copied_from_a_server_with_other_numbers_is_named_and_its_lines_fix_it(stand):
    alice, bob = (stand.run(f"id -u {user}").strip() for user in ("alice", "bob"))
    stand.run(f"amd-ctk config set users alice={bob}:gpus=2 bob={alice}:gpus=4")

    named = stand.run("amd-ctk doctor --only=departed-users", check=False)
    stand.run("amd-ctk users allow alice --gpus=2; amd-ctk users allow bob --gpus=4")

    assert f"sudo amd-ctk users deny {bob} && sudo amd-ctk users deny {alice}" in named
    users = json.loads(stand.run("amd-ctk users list --json"))["users"]
    assert [(user["who"], f"{user['number']}", user["gpus"]) for user in users] == [
        ("alice", alice, 2),
        ("bob", bob, 4),
    ]
    assert "departed-users" not in stand.run("amd-ctk doctor --only=departed-users", check=False)
