"""What docs/how-to/roll-back.md and back-up.md say is typed on the stand, line by line."""

from __future__ import annotations

import json

import pytest

from support.documentation import read_page
from support.stand import wait_until
from support.transcripts import parse_page

pytestmark = pytest.mark.e2e

SETTINGS = "/etc/amd-container-toolkit/config.toml"
# Those of the other family.
NOT_HERE = ("sudo dnf",)


def type_page(stand, page, **values):
    """Type the commands of a page as root, with these values for its placeholders; return what each printed."""
    said = {}
    for section in parse_page(read_page(f"docs/how-to/{page}")):
        for step in section.steps:
            if step.command.startswith(NOT_HERE):
                continue
            command = step.command.replace("sudo apt ", "sudo apt-get -y ").replace("sudo ", "")
            for name, value in values.items():
                command = command.replace(name, value)
            stand.write("/run/typed", f"export DEBIAN_FRONTEND=noninteractive\n{command}\n")
            # Doctor finds things to say about a machine without a driver.
            said[step.command] = stand.run("bash /run/typed 2>&1", check="doctor" not in command)
    return said


@pytest.fixture(scope="module")
def shared(stand):
    """Return a machine on which alice has a GPU, GPU 3 is drained, and something was recorded."""
    stand.run("amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive; amd-ctk users allow everyone --gpus=2")
    stand.run("amd-ctk gpu-tracker drain 3 --reason=cable; amd-ctk config set queue-order fifo; amd-ctk report enable")
    stand.run("amd-ctk runtime configure --runtime=docker --restart; amd-ctk cdi generate")
    stand.as_user("alice", "amd-ctk run --gpus=free:1 -- true")
    return stand


def what_was_decided(stand):
    tracked = json.loads(stand.run("amd-ctk gpu-tracker status --json"))
    totals = json.loads(stand.run("amd-ctk report --json"))["totals"]
    return {
        "settings": stand.run("amd-ctk config show"),
        "gpus": [(gpu["number"], gpu["accessibility"]) for gpu in tracked["gpus"]],
        "drained": "cable" in stand.run("amd-ctk status"),
        "people": [(row["person"], row["starts"]) for row in totals],
    }


def test_a_roll_back_keeps_jobs_settings_and_what_was_recorded(shared):
    shared.release("9.0")
    shared.change_to("9.0")
    shared.run("amd-ctk config set idle 2h")
    shared.as_user("alice", "amd-ctk run --gpus=0 --name=train -- sleep 86400 >/dev/null 2>&1 &")
    wait_until(lambda: "train" in shared.run("amd-ctk queue list"))
    before = what_was_decided(shared)

    type_page(shared, "roll-back.md", VERSION=shared.version)

    assert shared.run("dpkg-query -W -f '${Version}' amd-ctk") == shared.version
    assert what_was_decided(shared) == before
    assert "train" in shared.run("amd-ctk queue list")
    shared.run("pkill -x -U alice sleep; apt-mark unhold 'amd*'")
    wait_until(lambda: shared.run("amd-ctk queue list") == "No job waits for GPUs\n")


def test_a_backup_is_there_after_a_reinstallation(shared):
    before = what_was_decided(shared)
    page = parse_page(read_page("docs/how-to/back-up.md"))
    (copy,) = (step.command for section in page for step in section.steps if "-czf" in step.command)
    shared.run(copy.removeprefix("sudo "))
    shared.apt("purge 'amd*'")
    shared.run("rm -rf /etc/docker /etc/cdi /etc/amd-container-toolkit /var/lib/amd-container-toolkit")
    shared.install()

    # The copy is there already; what is made now is restored again.
    said = type_page(shared, "back-up.md", **{"tar -C / -czf": "true"})

    assert what_was_decided(shared) == before
    assert shared.as_user("alice", "amd-ctk run --gpus=free:1 -- echo ran").endswith("ran\n")
    assert shared.run("systemctl is-active amd-gpu-usage.timer") == "active\n"
    assert said["sudo amd-ctk cdi generate"].startswith("Generated CDI spec: /etc/cdi/amd.json\n")
    assert "amd" in json.loads(shared.run("cat /etc/docker/daemon.json"))["runtimes"]
