"""The stand is what people install: its units are those of the packages, and may write what these say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.stand import DROP_IN, DROP_IN_PATH

pytestmark = pytest.mark.e2e

UNITS = sorted((Path(__file__).parents[2] / "packaging/systemd").iterdir())
# What the service may write on the disk: systemd's ProtectSystem=strict leaves homes out, and /var/tmp is its own.
WRITES = ["/home", "/root", "/var/lib/amd-container-toolkit"]
SHOWN_ENVIRONMENT = {"amd-ctk-images@505.service": ("Environment=MALLOC_ARENA_MAX=1\n",)}
OWN = re.compile(r"/var/tmp/systemd-private-.*")


@pytest.fixture(scope="module")
def served(stand):
    """Return a stand on which the service runs, because alice has a GPU."""
    stand.run("amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive; amd-ctk users allow everyone")
    stand.as_user("alice", "amd-ctk reserve free:1 --for=1h --name=held")
    yield stand
    stand.run("amd-ctk release held --user=alice", check=False)


def test_units_are_those_of_the_package_but_for_one_drop_in(stand):
    for unit in UNITS:
        shown = stand.run(f"systemctl cat --no-pager {unit.name}")
        parts = re.split(r"^# (/.*)\n", shown, flags=re.MULTILINE)
        files = {path: text.strip("\n") for path, text in zip(parts[1::2], parts[2::2], strict=True)}

        drop_in = {DROP_IN_PATH: DROP_IN.strip("\n")} if unit.suffix == ".service" else {}
        # Before Debian 13 systemd shows it as /lib, which is a link.
        shown_files = {path.removeprefix("/usr"): text for path, text in files.items()}
        assert shown_files == {f"/lib/systemd/system/{unit.name}": unit.read_text().strip("\n"), **drop_in}


def test_no_unit_and_no_process_is_told_of_another_root(served):
    for unit in UNITS:
        name = unit.name.replace("@.", "@505.")
        shown = served.run(f"systemctl show --property=Environment {name}")
        assert shown in SHOWN_ENVIRONMENT.get(name, ("Environment=\n", ""))
    environment = served.run("tr '\\0' '\\n' </proc/$(systemctl show -P MainPID amd-gpu-tracker.service)/environ")
    assert "LISTEN_FDS=1" in environment
    assert "AMD_CTK_HOST_ROOT" not in environment


def test_the_service_writes_nothing_on_the_disk_that_its_unit_does_not_say(served):
    mounts = served.run("cat /proc/$(systemctl show -P MainPID amd-gpu-tracker.service)/mountinfo")

    of_disk = [words for words in map(str.split, mounts.splitlines()) if words[-3] == words[-2] == "overlay"]
    options = {words[4]: words[5].split(",") for words in of_disk if not OWN.match(words[3])}
    assert "ro" in options["/"]
    assert sorted(path for path in options if "rw" in options[path]) == WRITES
