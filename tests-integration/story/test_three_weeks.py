"""Three weeks of a machine that a lab shares, in chapters. After each, `support/judge.py` looks at /proc and files.

Each chapter goes on where the one before ended.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import judge
from support.stand import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.story]

GPUS = "AMD_VISIBLE_DEVICES"
START = "--detach --restart=always --network=none"
# GPUs 3 and 2, by what they are called wherever they are put.
SERVICES = {
    "docker": f"docker run --runtime=amd {START} -e {GPUS}=GPU-012fe4f7fdaf06b9",
    "podman": f"podman --runtime=/usr/bin/amd-container-runtime run {START} -e {GPUS}=GPU-6e32f10efc982b4c",
}


@pytest.fixture(scope="module")
def lab(stand, image_archive):
    """Return a machine with Docker and Podman, on which nobody has worked yet."""
    stand.write("/usr/local/lib/judge.py", Path(judge.__file__).read_text(encoding="utf-8"))
    stand.put_image(image_archive)
    stand.run("docker import /run/shared/image.tar busybox:local")
    return stand


@pytest.fixture(autouse=True)
def _judged(lab):
    """Judge the machine after each chapter."""
    yield
    # The service sees the end of a job a moment after it.
    for _ in range(20):
        if not (problems := lab.run("python3 /usr/local/lib/judge.py").strip()):
            break
        lab.run("sleep 0.5")
    assert problems == ""
    assert lab.run("systemctl list-units --failed --no-legend --plain 'amd-*' docker.service") == ""


def start(lab, user, command, said):
    lab.as_user(user, f"{command} >/home/{user}/{said} 2>&1 &")


def said(lab, user, file):
    return lab.run(f"cat /home/{user}/{file}", check=False)


def running(lab):
    """Return the jobs and reservations that there are, with their GPUs."""
    return {job["name"]: job["gpus"] for job in json.loads(lab.run("amd-ctk queue list --json"))["running"]}


def is_up(lab, engine):
    return lab.run(f"{engine} inspect --format '{{{{.State.Status}}}}' service", check=False) == "running\n"


def totals(lab):
    return {row["person"]: row["starts"] for row in json.loads(lab.run("amd-ctk report --json"))["totals"]}


def test_monday_an_administrator_enables_the_tracker_and_lets_people_reserve(lab):
    lab.run("amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive")
    lab.run("amd-ctk runtime configure --runtime=docker --restart; amd-ctk cdi generate")
    lab.run("mkdir -p /var/lib/prometheus/node-exporter; amd-ctk report enable")
    lab.run("amd-ctk users allow everyone --gpus=2")

    assert lab.as_user("alice", "amd-ctk queue list") == "No job waits for GPUs\n"


def test_tuesday_people_run_reserve_wait_and_keep(lab):
    start(lab, "alice", "amd-ctk run --gpus=free:2 --name=train -- sleep 3600", "train")
    wait_until(lambda: running(lab) == {"train": [0, 1]})
    lab.as_user("bob", "amd-ctk reserve 2 --for=1h --name=notebook")
    start(lab, "bob", "amd-ctk run --gpus=0 --wait --name=later -- sleep 3600", "later")
    wait_until(lambda: "waiting for" in said(lab, "bob", "later"))

    lab.as_user("bob", "amd-ctk keep notebook")
    assert running(lab) == {"train": [0, 1], "notebook": [2]}
    lab.run("pkill -x -U alice sleep")
    wait_until(lambda: running(lab) == {"later": [0], "notebook": [2]})
    lab.as_user("bob", "amd-ctk release notebook")


@pytest.mark.parametrize("engine", SERVICES)
def test_wednesday_container_services_start(lab, engine):
    lab.run(f"{SERVICES[engine]} --name=service busybox:local sleep 3600")

    wait_until(lambda: is_up(lab, engine))


def test_thursday_a_third_container_finds_the_gpu_in_use(lab):
    refused = lab.run("docker run --runtime=amd --rm -e AMD_VISIBLE_DEVICES=3 busybox:local true 2>&1", check=False)

    assert "in use" in refused


def test_friday_the_report_has_each_person(lab):
    assert {person: count for person, count in totals(lab).items() if person in ("alice", "bob")} == {
        "alice": 1,
        "bob": 2,
    }
    wait_until(lambda: "amd_gpu_" in lab.run("cat /var/lib/prometheus/node-exporter/*.prom", check=False))


def test_in_the_second_week_an_idle_job_makes_room(lab):
    lab.run("amd-ctk config set idle 3s")
    start(lab, "alice", "amd-ctk run --gpus=0 --wait --name=next -- sleep 3600", "next")

    wait_until(lambda: running(lab).get("next") == [0])
    lab.run("amd-ctk config unset idle")


def test_a_drained_gpu_is_given_to_no_one(lab):
    lab.run("amd-ctk gpu-tracker drain 1 --reason=cable")

    assert "drained: cable" in lab.as_user("bob", "amd-ctk run --gpus=1 -- true 2>&1", check=False)
    lab.run("amd-ctk gpu-tracker undrain 1")
    assert "GPU 1\n" in lab.as_user("bob", "amd-ctk run --gpus=1 -- true")


def test_at_night_a_gpu_is_lost_and_no_number_means_another(lab):
    lab.break_gpu(1, "lost")

    assert "1" in lab.as_user("bob", "amd-ctk run --gpus=1 -- true 2>&1", check=False)
    # The number could mean another GPU than the day before.
    refused = lab.run("docker run --runtime=amd --rm -e AMD_VISIBLE_DEVICES=3 busybox:local true 2>&1", check=False)
    assert "amd-ctk gpu-tracker forget 1" in refused
    assert running(lab) == {"next": [0]}


def test_after_a_power_cut_services_have_their_gpus_and_no_job_is_left(lab):
    lab.cut_power()

    wait_until(lambda: is_up(lab, "docker"))
    assert running(lab) == {}
    assert lab.as_user("alice", "amd-ctk run --gpus=0 -- echo ran").endswith("ran\n")
    # Its partner of the second week has an end in the history.
    assert totals(lab)["alice"] == 3


@pytest.mark.parametrize("version", ["9.0", "8.9"])
def test_in_the_third_week_another_version_comes_while_people_work(lab, version):
    start(lab, "alice", "amd-ctk run --gpus=0 --name=long -- sleep 3600", "long")
    wait_until(lambda: running(lab) == {"long": [0]})
    start(lab, "bob", f"amd-ctk run --gpus=0 --wait --name=later -- echo {version}", "after")
    wait_until(lambda: "waiting for" in said(lab, "bob", "after"))
    lab.release(version)

    lab.change_to(version)

    assert running(lab) == {"long": [0]}
    assert is_up(lab, "docker")
    lab.run("pkill -x -U alice sleep")
    wait_until(lambda: said(lab, "bob", "after").endswith(f"{version}\n"))


def test_at_the_end_a_purge_leaves_containers_alone_and_nothing_behind(lab):
    # Podman 4 cannot remove a container whose runtime is gone.
    lab.run("podman rm --force --ignore --time=0 service")

    lab.apt("purge 'amd*'")

    assert is_up(lab, "docker")
    left = lab.run("ls -d /etc/amd-container-toolkit /var/lib/amd-container-toolkit 2>/dev/null", check=False)
    assert left == ""
    lab.run("docker rm --force service")
