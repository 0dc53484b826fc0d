"""What doctor advises is followed on a host with that fault, and its check has nothing to say against it any more.

A fix that is a command is executed: `amd-ctk` as it is, the host's other programs by what they do to a simulated host.
Where a person has to act, the row says why, and does what the advice says.
"""

from __future__ import annotations

import ast
import json
import os
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from amd_ctk.doctor.run import CHECKS
from amd_gpu_sharing.rules.units import SOCKET_UNIT

ROWS_FILE = runpy.run_path(str(Path(__file__).parent / "fix_rows.py"))
ROWS, nothing, rebuild, run_amd_ctk = (ROWS_FILE[name] for name in ("ROWS", "nothing", "rebuild", "run_amd_ctk"))
DAEMON_JSON, ROOTLESS_DAEMON_JSON = ROWS_FILE["DAEMON_JSON"], ROWS_FILE["ROOTLESS_DAEMON_JSON"]


def systemctl(machine, *words):
    if words == ("restart", SOCKET_UNIT):
        machine.serve()
    elif words != ("enable", SOCKET_UNIT):
        restart_docker(machine, *words)


def restart_docker(machine, *words):
    file = machine.root / (ROOTLESS_DAEMON_JSON if "--user" in words else DAEMON_JSON).lstrip("/")
    configured = json.loads(file.read_text()) if file.exists() else {}
    machine.docker["Runtimes"] = {"runc": {}, **configured.get("runtimes", {})}


def move(machine, source, target):
    os.rename(machine.host.path(source), machine.host.path(target))


# What a program of the host does, by its name and first word or its name alone.
EFFECTS = {
    "amd-ctk": run_amd_ctk,
    "chmod": lambda machine, mode, path: os.chmod(
        path if path.startswith(str(machine.programs)) else machine.host.path(path), int(mode, 8)
    ),
    "rmdir": lambda machine, path: os.rmdir(machine.host.path(path)),
    "apt-get": lambda machine, *_: machine.write(
        "/var/lib/dpkg/status", "Package: amdgpu-dkms\nStatus: install ok installed\n"
    ),
    "dkms": lambda machine, *words: machine.write(f"/var/lib/dkms/amdgpu/6/{words[-1]}/x86_64/log", ""),
    "docker": lambda machine, *_: machine.docker.update(OperatingSystem="Debian"),
    "dpkg": nothing,
    "kill": lambda machine, _, pid: shutil.rmtree(machine.proc / pid),
    "modprobe": rebuild,
    "mv": move,
    "rm": lambda machine, path: os.unlink(machine.host.path(path)),
    "setsebool": lambda machine, *_: machine.write("/sys/fs/selinux/booleans/container_use_devices", "1 1"),
    "systemctl": systemctl,
    "udevadm": rebuild,
}


def execute(machine, fix):
    """Execute a fix; a word that no shell could take, and a program that is not there, fail."""
    for command in fix.split(" && "):
        words = shlex.split(command)
        words = words[1:] if words[0] == "sudo" else words
        EFFECTS[words[0]](machine, *words[1:])


def find_one(machine, check):
    results = machine.examine(only=[check])
    return results[0].finding if results else None


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "")
    monkeypatch.delenv("DOCKER_HOST")


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.check}-{number}" for number, row in enumerate(ROWS)])
@pytest.mark.needs("root")
def test_following_the_advice_fixes_the_fault(machine, row):
    made = machine(row.profile)
    row.spoil(made)
    before = find_one(made, row.check)
    assert before.state in ("bad", "note")
    assert before.fix

    row.follow(made) if row.follow else execute(made, before.fix)

    after = find_one(made, row.check)
    assert (after.state if after else "", bool(row.why)) == (row.becomes, row.follow is not None)


def places_of_fixes():
    """Yield where a check says what to do: the name of its module, and the line."""
    for module in {sys.modules[check.judge.__module__] for check in CHECKS.values()}:
        for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
            is_said = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("bad", "note")
            if is_said and any(keyword.arg == "fix" for keyword in node.keywords):
                yield module.__name__, node.lineno


@pytest.mark.needs("root")
def test_every_fix_of_every_check_is_followed_above(machine, monkeypatch, tmp_path_factory):
    said = set()

    def listen(module, function):
        def say(words, **further):
            said.add((module.__name__, sys._getframe(1).f_lineno))
            return function(words, **further)

        return say

    for module in {sys.modules[check.judge.__module__] for check in CHECKS.values()}:
        for name in ("bad", "note"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, listen(module, getattr(module, name)))
    make = type(machine())
    for row in ROWS:
        directory = tmp_path_factory.mktemp("row")
        monkeypatch.setenv("PATH", str(directory / "bin"))
        made = make(directory, row.profile)
        row.spoil(made)
        find_one(made, row.check)
        os.environ.pop("DOCKER_HOST", None)

    assert sorted(set(places_of_fixes()) - said) == []
