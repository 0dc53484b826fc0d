"""amd-ctk config set gpu-access: nodes that only those open who have reserved a GPU, on a simulated host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amd_device_spec.settings_file import compile_settings
from amd_gpu_tracker import Tracker

RULE = "etc/udev/rules.d/72-amd-gpu-access.rules"
OPEN_TO_GROUP = "every member of the nodes' group can still open every GPU"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give nodes away")


@pytest.fixture
def shared(tracked, amd_ctk):
    """Return four exclusive MI210 of a host with systemd, which one user may reserve."""
    Path(tracked.root, "run/systemd/system").mkdir(parents=True)
    amd_ctk("users", "allow", "daemon")
    return tracked


def owners(host):
    """Return the groups and modes of the nodes of AMD GPUs; card0 is that of the board's own console."""
    nodes = [Path(host.root, "dev/kfd"), *Path(host.root, "dev/dri").glob("*[1-9]")]
    return {(node.stat().st_gid, f"{node.stat().st_mode & 0o777:o}") for node in nodes}


def test_the_nodes_are_closed_and_given_back(shared, amd_ctk):
    closed = amd_ctk("config", "set", "gpu-access", "reserved")

    assert (closed.returncode, closed.stdout, closed.stderr) == (
        0,
        "Updated the config file: /etc/amd-container-toolkit/config.toml\n",
        "",
    )
    assert Path(shared.root, RULE).exists()
    assert owners(shared) == {(0, "660")}
    assert Path(shared.root, "dev/dri/card0").stat().st_gid != 0
    assert amd_ctk("config", "show", "gpu-access").stdout == "reserved\n"

    opened = amd_ctk("config", "unset", "gpu-access")

    assert (opened.returncode, opened.stderr) == (0, "")
    assert not Path(shared.root, RULE).exists()
    assert 0 not in {gid for gid, _ in owners(shared)}
    assert amd_ctk("config", "show", "gpu-access").stdout == "group\n"


def test_the_same_command_closes_nodes_again_that_others_opened(shared, amd_ctk):
    amd_ctk("config", "set", "gpu-access", "reserved")
    Path(shared.root, "dev/kfd").chmod(0o666)
    Path(shared.root, RULE).unlink()

    assert amd_ctk("config", "set", "gpu-access", "reserved").returncode == 0

    assert Path(shared.root, RULE).exists()
    assert owners(shared) == {(0, "660")}


@pytest.mark.parametrize("command", ["gpu-tracker enable", "swarm setup --vram"])
def test_the_nodes_are_closed_again_by_what_enables_the_tracker(shared, amd_ctk, command):
    amd_ctk("config", "set", "gpu-access", "reserved")
    amd_ctk("gpu-tracker", "disable")
    assert 0 not in {gid for gid, _ in owners(shared)}

    answer = amd_ctk(*command.split())

    assert answer.stdout.startswith("GPU Tracker has been enabled\n")
    assert owners(shared) == {(0, "660")}


def test_the_nodes_go_back_also_where_the_config_file_was_broken(shared, amd_ctk):
    amd_ctk("config", "set", "gpu-access", "reserved")
    Path(shared.root, "etc/amd-container-toolkit/config.toml").write_text("gpu-access = [\n")

    assert amd_ctk("config", "unset", "gpu-access").returncode == 8

    assert not Path(shared.root, RULE).exists()
    assert 0 not in {gid for gid, _ in owners(shared)}


def test_the_nodes_go_back_when_nobody_is_left_who_may_reserve_gpus(shared, amd_ctk):
    amd_ctk("config", "set", "gpu-access", "reserved")

    answer = amd_ctk("users", "deny", "daemon")

    assert answer.stdout == "The rule for daemon is removed\nMembers of the nodes' group can open all GPUs again\n"
    assert not Path(shared.root, RULE).exists()
    assert amd_ctk("config", "show", "gpu-access").stdout == "group\n"


def test_the_nodes_are_open_while_the_tracker_is_disabled(shared, amd_ctk):
    amd_ctk("config", "set", "gpu-access", "reserved")

    amd_ctk("gpu-tracker", "disable")
    assert not Path(shared.root, RULE).exists()
    assert 0 not in {gid for gid, _ in owners(shared)}

    amd_ctk("gpu-tracker", "enable")
    assert owners(shared) == {(0, "660")}


def show_picture(host, name="card1-DP-1"):
    connector = Path(host.root, "sys/class/drm", name)
    connector.mkdir(exist_ok=True)
    (connector / "status").write_text("connected\n")
    (connector / "enabled").write_text("enabled\n")


def hand_on_the_modes_of_the_host(host):
    Path(host.root, "etc/amd-container-toolkit/config.toml").write_text('users = ["everyone"]\ndevice-mode = "host"\n')
    # Python 3.10 reads only compiled settings.
    compile_settings(host)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda host: Path(host.root, "etc/amd-container-toolkit/config.toml").unlink(),
            f"no user may reserve GPUs: {OPEN_TO_GROUP} (first run 'sudo amd-ctk users allow NAME')",
        ),
        (
            lambda host: Tracker(host).disable(),
            f"the GPU Tracker is disabled: {OPEN_TO_GROUP} (first run 'sudo amd-ctk gpu-tracker enable')",
        ),
        (
            lambda host: Path(host.root, "run/systemd/system").rmdir(),
            f"systemd does not run: {OPEN_TO_GROUP} (only systemd can close all other GPUs to a job)",
        ),
        (
            hand_on_the_modes_of_the_host,
            f"containers get the host's modes: {OPEN_TO_GROUP} (first run 'sudo amd-ctk config unset device-mode')",
        ),
        (
            show_picture,
            (
                f"a display runs on an AMD GPU (card1-DP-1): {OPEN_TO_GROUP}"
                " (use a machine without one, or connect it to another GPU)"
            ),
        ),
    ],
    ids=["nobody", "tracker", "systemd", "device-mode", "display"],
)
def test_gpu_access_is_refused_if_the_host_cannot_have_it_and_nothing_is_changed(shared, amd_ctk, spoil, said):
    before = owners(shared)
    spoil(shared)

    answer = amd_ctk("config", "set", "gpu-access", "reserved")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == f"{said}\n"
    assert not Path(shared.root, RULE).exists()
    assert owners(shared) == before
    assert amd_ctk("config", "show", "gpu-access").stdout == "group\n"


def test_a_picture_of_the_boards_own_console_and_a_monitor_that_is_off_are_no_obstacles(shared, amd_ctk):
    show_picture(shared, "card0-VGA-1")
    show_picture(shared, "card1-DP-1")
    Path(shared.root, "sys/class/drm/card1-DP-1/enabled").write_text("disabled\n")

    assert amd_ctk("config", "set", "gpu-access", "reserved").returncode == 0


def test_containers_do_not_get_the_hosts_modes_while_nodes_are_closed(shared, amd_ctk):
    amd_ctk("config", "set", "gpu-access", "reserved")

    answer = amd_ctk("config", "set", "device-mode", "host")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        "gpu-access is reserved: with the host's modes only root could open GPUs in containers"
        " (first run 'sudo amd-ctk config unset gpu-access')\n"
    )
    assert amd_ctk("config", "show", "device-mode").stdout == "open\n"
    assert amd_ctk("config", "set", "device-mode", "open").returncode == 0
