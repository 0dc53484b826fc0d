"""What a container start asks of the kernel. Counts do not depend on how busy a machine is, as times do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.installed import engine_program

pytestmark = pytest.mark.parametrize("profile", ["mi300x-8", "mi300x-8-cpx"], indirect=True)

# As pip installs it, each module a file of its own, and with room for other versions of python, sh and the C library.
# Modules come from files, about twelve calls each (decision 30), and 22 for a package around them. Three of those are
# rooms of amdgpu-discovery; the deb and rpm packages read one file instead, and make half of these calls.
MOST_CALLS = {"mi300x-8": 1116, "mi300x-8-cpx": 1566}


@pytest.fixture
def trace(machine):
    """Return a function that starts a container under strace and returns the calls, with a runc that does nothing."""
    strace = engine_program("strace")
    shutil.copy("/bin/true", machine.directory / "bin/runc")

    def run(request):
        output = machine.directory / "trace"
        real = machine._run
        machine._run = lambda program, *words: real(strace, "-f", "-qq", "-o", output, program, *words)
        assert machine.create(request).returncode == 0
        machine._run = real
        return [line.split(maxsplit=1)[1] for line in output.read_text().splitlines() if "(" in line]

    return run


def executed(calls):
    """Return the programs that were executed, where that was no failed attempt."""
    paths = [call.split('"')[1] for call in calls if call.startswith("execve(") and " = -1 " not in call]
    names = [Path(path).name for path in paths]
    return ["python3" if name.startswith("python3") else name for name in names]


def test_a_start_stays_within_its_count(trace, profile):
    assert len(trace("all")) <= MOST_CALLS[profile]


def test_a_start_runs_no_program_but_ourselves_and_the_search_whether_it_must(trace):
    assert executed(trace("all")) == ["amd-container-runtime", "grep", "python3", "runc"]


def test_drm_nodes_that_are_no_gpus_are_not_looked_at(trace, gpu_count):
    links = [call for call in trace("all") if call.startswith("readlink") and "/sys/class/drm/" in call]

    # A card and a render node each; a host in this mode has seven more pairs for each GPU, for partitions.
    assert len(links) <= 2 * gpu_count + 1
