"""The words in front of a command."""

from __future__ import annotations

import pytest

from amd_ctk.engines.engine_words import environment_of, without_prefixes


@pytest.mark.parametrize(
    ("line", "environment"),
    [
        ("docker run image", {"A": "1"}),
        ("sudo docker run image", {}),
        ("sudo -E docker run image", {"A": "1"}),
        ("/usr/bin/sudo -n --preserve-env -u root -- docker run image", {"A": "1"}),
        ("sudo B=2 docker run image", {"B": "2"}),
        ("env A=3 B=2 docker run image", {"A": "3", "B": "2"}),
        ("sudo -E env B=2 docker run image", {"A": "1", "B": "2"}),
        ("env B=2 sudo docker run image", {}),
        ("sudo --preserve-env=A,C docker run image", {"A": "1"}),
        ("sudo --preserve-env=C --preserve-env=D docker run image", {}),
        ("sudo --preserve-env=A,C sudo -E --preserve-env=C docker run image", {"A": "1"}),
        ("sudo --preserve-env=A,C sudo --preserve-env=C docker run image", {}),
        ("env docker run image", {"A": "1"}),
        ("nice docker run image", {"A": "1"}),
        ("nice -n 10 nohup docker run image", {"A": "1"}),
        ("nice -10 docker run image", {"A": "1"}),
        ("taskset -c 0-3 docker run image", {"A": "1"}),
        ("chrt --batch 0 docker run image", {"A": "1"}),
        ("numactl -N 0 --membind=0 docker run image", {"A": "1"}),
        ("flock -w 5 /tmp/lock docker run image", {"A": "1"}),
        ("prlimit --nofile=64 strace -f -o x docker run image", {"A": "1"}),
        ("ionice -c 2 -n7 docker run image", {"A": "1"}),
        ("timeout --signal=INT -k 5 1h docker run image", {"A": "1"}),
        ("time -p docker run image", {"A": "1"}),
        ("setsid --wait -- docker run image", {"A": "1"}),
        ("stdbuf -oL docker run image", {"A": "1"}),
        ("sudo nice -n 5 docker run image", {}),
        ("env B=2 nice docker run image", {"A": "1", "B": "2"}),
        ("env -i docker run image", {}),
        ("env - B=2 docker run image", {"B": "2"}),
        ("env --ignore-environment docker run image", {}),
        ("env -u A docker run image", {}),
        ("env -u B --unset=C B=3 docker run image", {"A": "1", "B": "3"}),
        ("env --unset=A A=2 docker run image", {"A": "2"}),
        ("env B=2 env -u B docker run image", {"A": "1"}),
        ("env -u A sudo -E docker run image", {}),
    ],
)
def test_sudo_and_env_are_passed_over(line, environment):
    command = without_prefixes(line.split())

    assert command.argv == ("docker", "run", "image")
    assert environment_of(command, {"A": "1"}) == environment


@pytest.mark.parametrize(
    "line",
    ["", "sudo", "sudo -E", "sudo -u", "env A=1", "env -S docker run", "sudo -i docker run", "nice", "timeout 5"],
)
def test_words_that_are_not_understood_stay(line):
    assert without_prefixes(line.split()).argv == tuple(line.split())
