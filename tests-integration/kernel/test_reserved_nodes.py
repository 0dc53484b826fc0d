"""GPUs that only their holder opens, under a real kernel: udev, a seat with two sessions, lists and device filters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernel.containers import FIRST, SECOND
from kernel.engines import ARCHIVE, IMAGE, NO_NETWORK
from kernel.machine import Machine
from kernel.people import (
    ALICES,
    AS,
    CAROLS,
    LAY_HARDWARE,
    LAY_RULE,
    OPEN,
    PEOPLE,
    TAKE_HARDWARE,
    TAKE_RULE,
    TRIGGER,
    as_user,
    hold,
    log_in,
    sit_down,
    wait_until,
)

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

CLOSED = f"/dev/kfd Permission denied\n{FIRST} Permission denied\n{SECOND} Permission denied\n"
KEPT_NODE = "/tmp/kept.py"
# Asks the driver by a descriptor, and opens the same node by it and by its name.
KEEP_NODE = f"""
import ctypes, fcntl, os, struct, time
node = os.open("{FIRST}", os.O_RDWR)
open("/tmp/has", "w").close()
while not os.path.exists("/tmp/ended"):
    time.sleep(0.1)
name = ctypes.create_string_buffer(32)
fcntl.ioctl(node, 0xC0406400, struct.pack("iiixxxx6Q", 0, 0, 0, 32, ctypes.addressof(name), 0, 0, 0, 0))
said = [name.value.decode()]
for path in ("/proc/self/fd/%d" % node, "{FIRST}"):
    try:
        said.append(os.open(path, os.O_RDWR))
    except OSError as error:
        said.append(error.strerror)
print(*said, sep="\\n")
"""


@pytest.fixture(scope="module", autouse=True)
def people(machine: Machine) -> Iterator[None]:
    """Let people be there who may reserve the GPUs that the toolkit finds, and of whom two sit at the machine."""
    machine.run(f"set -e{PEOPLE}{LAY_HARDWARE}")
    machine.run("amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive; amd-ctk users allow everyone")
    log_in(machine, "alice", ALICES)
    log_in(machine, "carol", CAROLS)
    yield
    machine.run("systemctl stop seat-alice seat-carol; amd-ctk users deny --all; amd-ctk gpu-tracker disable")
    machine.run(TAKE_HARDWARE)


@pytest.fixture
def closed(machine: Machine) -> Iterator[None]:
    """Close the nodes; end what people run there, and open them to their groups."""
    machine.run(f"{LAY_RULE} amd-ctk config set gpu-access reserved")
    yield
    machine.run("pkill -U alice -x sleep; pkill -U bob -x sleep", check=False)
    wait_until(machine, "amd-ctk queue list | grep -q 'No job waits'")
    machine.run(f"{TAKE_RULE}; amd-ctk config unset gpu-access")


@pytest.fixture
def first_only(kfd: str) -> str:
    """Return what the holder of GPU 0 finds."""
    return f"{kfd}\n{FIRST} opens\n{SECOND} Permission denied\n"


def test_the_holder_opens_its_gpu_until_the_end_and_nobody_else_does(machine, closed, first_only):
    assert as_user(machine, "alice", OPEN) == CLOSED

    assert as_user(machine, "alice", f"amd-ctk run --gpus=0 -- {OPEN} 2>&1") == f"GPU 0\n{first_only}"

    wait_until(machine, "amd-ctk queue list | grep -q 'No job waits'")
    assert as_user(machine, "alice", OPEN) == CLOSED
    hold(machine, "alice", 0, "train")
    assert as_user(machine, "alice", OPEN) == first_only
    assert as_user(machine, "bob", OPEN) == CLOSED


def test_the_filter_of_a_job_refuses_other_gpus_by_their_numbers(machine, closed):
    machine.run("mkdir /srv/made; mknod -m 666 /srv/made/first c 226 128; mknod -m 666 /srv/made/second c 226 129")
    made = "sh /srv/rootfs/bin/open-nodes /srv/made/first /srv/made/second /dev/fuse /dev/net/tun"

    said = as_user(machine, "alice", f"amd-ctk run --gpus=0 -- {made} 2>&1")
    machine.run("rm -r /srv/made")

    assert said.splitlines() == [
        *("GPU 0", "/srv/made/first opens", "/srv/made/second Operation not permitted"),
        *("/dev/fuse opens", "/dev/net/tun opens"),
    ]


def test_a_process_with_an_open_node_keeps_using_it_and_opens_no_other(machine, closed):
    machine.run(f"cat >{KEPT_NODE} <<'END'\n{KEEP_NODE}END\nrm -f /tmp/has /tmp/ended /tmp/said")
    keep = f"setsid python3 {KEPT_NODE} >/tmp/said 2>&1 </dev/null & until [ -e /tmp/has ]; do sleep 0.1; done"

    as_user(machine, "alice", f"amd-ctk run --gpus=0 -- sh -c '{keep}'")
    wait_until(machine, "amd-ctk queue list | grep -q 'No job waits'")
    machine.run("touch /tmp/ended")
    wait_until(machine, "! pgrep -U alice -x python3")

    assert machine.run("cat /tmp/said") == "virtio_gpu\nPermission denied\nPermission denied\n"


def test_udev_gives_closed_nodes_to_nobody_also_where_no_service_would_take_them_back(machine, closed):
    sit_down(machine, "carol")

    machine.run(f"systemctl stop amd-gpu-tracker.service; {TRIGGER}")

    assert as_user(machine, "carol", OPEN) == CLOSED


def test_events_of_udev_take_a_node_from_no_holder_and_give_it_to_nobody(machine, closed, first_only):
    hold(machine, "alice", 0, "train")
    sit_down(machine, "carol")

    machine.run(TRIGGER)

    assert as_user(machine, "alice", OPEN) == first_only
    assert as_user(machine, "bob", OPEN) == CLOSED
    assert as_user(machine, "carol", OPEN) == CLOSED


def test_a_node_that_comes_back_is_its_holders(machine, closed, first_only):
    driver = "/sys/bus/pci/drivers/virtio-pci"
    function = machine.run("basename $(readlink -f /sys/dev/char/226:128/device) | grep 0000:").strip()
    hold(machine, "alice", 0, "train")

    machine.run(
        f"echo {function} >{driver}/unbind; ! test -e {FIRST} && echo {function} >{driver}/bind; udevadm settle"
    )

    assert machine.run(f"stat --format='%U:%G' {FIRST}") == "root:root\n"
    wait_until(machine, f"( {AS.format('alice')} {OPEN} | grep -q '{FIRST} opens' )")
    assert as_user(machine, "alice", OPEN) == first_only
    assert as_user(machine, "bob", OPEN) == CLOSED


def test_the_person_at_the_machine_is_given_nodes_unless_they_are_closed(machine):
    opens = f"sh /srv/rootfs/bin/open-nodes {FIRST}"
    sit_down(machine, "carol")
    assert as_user(machine, "carol", opens) == f"{FIRST} opens\n"
    sit_down(machine, "alice")
    assert as_user(machine, "carol", opens) == f"{FIRST} Permission denied\n"


def test_a_switch_of_sessions_takes_a_node_from_no_holder_and_gives_it_to_nobody(machine, closed, first_only):
    hold(machine, "alice", 0, "train")

    for person in ("carol", "alice", "carol"):
        sit_down(machine, person)

        assert as_user(machine, "alice", OPEN) == first_only
        assert as_user(machine, "carol", OPEN) == CLOSED


def test_rootless_podman_opens_the_gpu_of_its_job_and_no_other(machine, closed):
    as_user(machine, "alice", f"podman import --quiet {ARCHIVE} {IMAGE}")
    podman = f"podman run --rm {NO_NETWORK}"

    own = as_user(
        machine, "alice", f"amd-ctk run --gpus=0 -- {podman} --device={FIRST} {IMAGE} open-nodes {FIRST} 2>&1"
    )
    other = as_user(
        machine, "alice", f"amd-ctk run --gpus=0 -- {podman} --device={SECOND} {IMAGE} open-nodes {SECOND} 2>&1"
    )

    assert own == f"GPU 0\n{FIRST} opens\n"
    assert other == f"GPU 0\n{SECOND} Permission denied\n"
