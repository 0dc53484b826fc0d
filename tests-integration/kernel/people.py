"""People of the virtual machine, who share its two GPUs: those of a simulated host, whose nodes are real and open."""

from __future__ import annotations

from amd_gpu_sharing.node_access.nodes import RULE
from kernel.containers import FIRST, SECOND
from kernel.machine import Machine

# Carol is in no group that may open GPUs.
PEOPLE = """
useradd --create-home --uid 1101 --groups render --shell /bin/sh alice
useradd --create-home --uid 1102 --groups render --shell /bin/sh bob
useradd --create-home --uid 1103 --shell /bin/sh carol
rm /etc/systemd/system/systemd-logind.service
# With a network of its own a service gets another /sys, too.
mkdir -p /etc/systemd/system/amd-gpu-tracker.service.d
printf '[Service]\\nPrivateNetwork=no\\n' >/etc/systemd/system/amd-gpu-tracker.service.d/hardware.conf
systemctl daemon-reload
systemctl start systemd-logind
"""
# What the toolkit reads of GPUs; udev and logind, which run already, go on seeing the kernel's own.
LAY_HARDWARE = """
mount --make-private /sys
mkdir -p /run/laid/drm /run/laid/amdgpu /run/whole/sys
# Users may mount /sys for their containers only where they see a whole one.
mount -t sysfs -o ro sysfs /run/whole/sys
for entry in /srv/laid/sys/class/drm/*[0-9]; do ln -s $(readlink -f $entry) /run/laid/drm; done
for entry in /srv/laid/sys/bus/pci/drivers/amdgpu/0000:*; do ln -s $(readlink -f $entry) /run/laid/amdgpu; done
mount --bind /run/laid/drm /sys/class/drm
mount --bind /run/laid/amdgpu /sys/bus/pci/drivers/amdgpu
mount --bind /srv/laid/sys/devices/virtual/kfd/kfd/topology /sys/devices/virtual/kfd/kfd/topology
"""
TAKE_HARDWARE = """
for path in class/drm bus/pci/drivers/amdgpu devices/virtual/kfd/kfd/topology; do umount /sys/$path; done
umount /run/whole/sys && rm -r /run/laid
"""
# Our rule as it is, but for the driver and the name by which it knows the nodes of GPUs.
RULE_OF_HERE = RULE.replace('DRIVERS=="amdgpu"', 'DRIVERS=="virtio-pci"').replace("amdgpu_xcp*", "vgem")
LAY_RULE = f"""
mkdir -p /run/udev/rules.d
cat >/run/udev/rules.d/72-amd-gpu-access-here.rules <<'END'
{RULE_OF_HERE}END
udevadm control --reload
"""
TAKE_RULE = "rm /run/udev/rules.d/72-amd-gpu-access-here.rules; udevadm control --reload"
# As at a boot, where udev sets up all nodes; its own view of /sys is the kernel's.
TRIGGER = "nsenter --mount --target=$(pidof -s systemd-udevd) udevadm trigger --action=add; udevadm settle"
OPEN = f"sh /srv/rootfs/bin/open-nodes /dev/kfd {FIRST} {SECOND}"
AS = (
    "cd /home/{0}; env HOME=/home/{0} XDG_RUNTIME_DIR=/run/user/$(id -u {0})"
    " setpriv --reuid={0} --regid={0} --init-groups"
)
# At the first six terminals logind starts a getty, which hangs up whoever is there.
ALICES, CAROLS = "tty8", "tty9"
LOG_IN = (
    "systemd-run --quiet --collect --unit=seat-{0} --uid={0} -p PAMName=login -p TTYPath=/dev/{1} -p StandardInput=tty"
    " sh -c 'read line'"
)
LOOKS = 120


def as_user(machine: Machine, person: str, command: str) -> str:
    """Run a command as a person, outside of any session; return what it prints."""
    return machine.run(f"{AS.format(person)} {command}", check=False)


def log_in(machine: Machine, person: str, terminal: str) -> None:
    """Let a person log in at a virtual terminal of the machine's only seat, and stay."""
    machine.run(LOG_IN.format(person, terminal))
    wait_until(machine, f"loginctl list-sessions | grep -q '{person} *seat0'")


def sit_down(machine: Machine, person: str) -> None:
    """Switch to the session of a person who has logged in, and wait until logind has done what follows from that."""
    session = machine.run(f"loginctl list-sessions --no-legend | awk '/{person} *seat0/ {{print $1}}'").strip()
    machine.run(f"loginctl activate {session}")
    wait_until(machine, f"loginctl show-session {session} | grep -q Active=yes")
    # systemd 261 says so before the lists of nodes have changed.
    machine.run("udevadm settle")


def hold(machine: Machine, person: str, gpu: int, job: str) -> None:
    """Let a person's job have a GPU until its `sleep` is ended."""
    as_user(
        machine, person, f"setsid amd-ctk run --gpus={gpu} --name={job} -- sleep infinity </dev/null >/dev/null 2>&1 &"
    )
    wait_until(machine, f"amd-ctk queue list | grep -q {job}")


def wait_until(machine: Machine, condition: str) -> None:
    """Repeat a shell command in the machine until it succeeds."""
    machine.run(f"for i in $(seq {LOOKS}); do {condition} && exit; sleep 1; done; exit 1")
