"""docs/tutorial/first-steps.md, typed word for word on a Debian 13 on which nothing is installed."""

from __future__ import annotations

import pytest

from fresh.machine import Machine
from support.documentation import read_page
from support.installed import require_programs, require_root
from support.transcripts import is_match, parse_page

pytestmark = [pytest.mark.e2e, pytest.mark.fresh, pytest.mark.timeout(3600)]

(TUTORIAL,) = parse_page(read_page("docs/tutorial/first-steps.md"))
# What dockerd of the system would make or listen on.
TRACES_OF_AN_ENGINE = (
    "/var/run/docker.sock /run/containerd/containerd.sock /var/lib/docker/overlay2 /etc/docker/daemon.json"
)


@pytest.fixture
def fresh(tmp_path):
    """Return a Debian 13 of this test's own."""
    require_root()
    require_programs("debootstrap", "unshare", "git")
    made = Machine("trixie", tmp_path / "root")
    yield made
    made.remove()


def test_every_command_of_the_tutorial_prints_what_it_shows(fresh):
    enabled = fresh.enabled_units()

    with fresh.shell() as shell:
        for step in TUTORIAL.steps:
            printed, exit_code = shell.run(step.command)

            where = f"line {step.line}: $ {step.command}\n"
            print(f"{where}{printed}", end="")
            assert is_match(step.expected, printed), f"{where}{printed}--- but the page shows:\n{step.expected}"
            assert exit_code == step.exit_code, f"{where}{printed}--- ended with {exit_code}"

    assert fresh.enabled_units() == enabled
    assert fresh.run("sh", "-c", f"ls -d {TRACES_OF_AN_ENGINE} 2>/dev/null").stdout == ""
