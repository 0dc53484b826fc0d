"""GPUs that another driver has, and GPUs that only one half of amdgpu has: each with its own cause and fix."""

from __future__ import annotations

import os

import pytest

DRIVER = "/sys/module/amdgpu/drivers/pci:amdgpu"
GPU = "/sys/bus/pci/devices/0000:03:00.0"


def finding_of(machine, check):
    results = machine.examine(only=[check])
    return (results[0].finding.state, results[0].finding.words) if results else None


def without_compute_driver(machine):
    machine.remove("/sys/devices/virtual/kfd") if (machine.root / "sys/devices/virtual/kfd").exists() else None
    for path in ("/sys/class/kfd", "/dev/kfd"):
        if os.path.lexists(machine.host.path(path)):
            machine.remove(path)


def without_drm(machine):
    for name in os.listdir(machine.host.path("/sys/class/drm")):
        if name != "version":
            machine.remove(f"/sys/class/drm/{name}")
    for path in (f"{GPU}/drm", "/dev/dri/renderD128", "/dev/dri/card0"):
        machine.remove(path)


def pulled_out(machine):
    """Take the GPU from the bus, and leave its KFD node, as the kernel does while a process has it open."""
    without_drm(machine)
    for path in (f"{DRIVER}/0000:03:00.0", GPU):
        machine.remove(path)
    (machine.root / "sys/bus/pci/devices/0000:00:00.0").mkdir(parents=True, exist_ok=True)


def give_to(driver, address="0000:03:00.0"):
    def give(machine):
        machine.remove(f"{DRIVER}/{address}")
        link = machine.root / f"sys/bus/pci/devices/{address}/driver"
        if os.path.lexists(link):
            link.unlink()
        if driver:
            link.symlink_to(f"../../../bus/pci/drivers/{driver}")

    return give


@pytest.mark.parametrize(
    ("spoil", "words", "fix"),
    [
        (
            without_compute_driver,
            "this kernel has no compute driver (CONFIG_HSA_AMD), so GPUs can only drive displays",
            "boot a kernel of a distribution, or one with CONFIG_HSA_AMD=y",
        ),
        (
            without_drm,
            "KFD lists the GPU at 0000:03:00.0, but /sys/class/drm has no render node of it",
            "sudo dmesg | grep -iE 'drm|amdgpu', then load the driver again or reboot",
        ),
        (
            pulled_out,
            "KFD still lists the GPU at 0000:03:00.0, which is gone, because a process holds it open",
            "sudo fuser -v /dev/kfd, and end these processes",
        ),
    ],
)
def test_a_gpu_that_is_half_there_has_its_own_cause(machine, spoil, words, fix):
    made = machine()
    spoil(made)

    (result,) = made.examine(only=["kfd"])

    assert (result.finding.state, result.finding.words, result.finding.fix) == ("bad", words, fix)


@pytest.mark.parametrize(
    "option", ["nomodeset", "amdgpu.modeset=0", "module_blacklist=amdgpu", "modprobe.blacklist=radeon,amdgpu"]
)
def test_a_kernel_that_was_told_not_to_load_the_driver_says_so(machine, option):
    made = machine("no-driver")
    made.write_proc("cmdline", f"BOOT_IMAGE=/vmlinuz root=/dev/sda1 {option} quiet\n")

    words = f"amdgpu does not load, because the kernel was started with {option}"
    assert finding_of(made, "driver") == ("bad", words)


TAKE_OUT = "take that line out, then 'sudo update-initramfs -u' or 'sudo dracut --force', and reboot"


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("/etc/modprobe.d/amdgpu.conf", "blacklist amdgpu\n", "blacklist amdgpu"),
        ("/usr/lib/modprobe.d/x.conf", "# no GPU\n  blacklist\tamdgpu  # ours\n", "blacklist amdgpu"),
        ("/run/modprobe.d/x.conf", "install amdgpu /bin/false\n", "install amdgpu /bin/false"),
        ("/etc/modprobe.d/x.conf", "options amdgpu dpm=0 \\\n modeset=0\n", "options amdgpu dpm=0 modeset=0"),
    ],
)
def test_a_line_of_modprobes_files_that_refuses_the_driver_is_named(machine, file, text, line):
    made = machine("no-driver")
    made.write(file, text)

    (result,) = made.examine(only=["driver"])

    words = f"amdgpu does not load, because of {line!r} in {file}"
    assert (result.finding.state, result.finding.words, result.finding.fix) == ("bad", words, TAKE_OUT)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("/etc/modprobe.d/x.conf", "# blacklist amdgpu\nblacklist radeon\noptions amdgpu dpm=0\n"),
        ("/etc/modprobe.d/x.conf.bak", "blacklist amdgpu\n"),
        ("/etc/modprobe.d/x.conf", "install amdgpu /sbin/modprobe -i amdgpu ppfeaturemask=0\n"),
    ],
)
def test_other_lines_of_modprobes_files_are_no_reason(machine, file, text):
    made = machine("no-driver")
    made.write(file, text)

    assert finding_of(made, "driver") == ("bad", "amdgpu is not loaded")


def test_a_file_of_the_administrator_replaces_the_one_of_a_package(machine):
    made = machine("no-driver")
    made.write("/usr/lib/modprobe.d/amd.conf", "blacklist amdgpu\n")
    made.write("/etc/modprobe.d/amd.conf", "")

    assert finding_of(made, "driver") == ("bad", "amdgpu is not loaded")


@pytest.mark.parametrize("module", ["vfio-pci", "vfio_pci"])
def test_the_line_that_gives_a_gpu_to_vfio_is_named(machine, module):
    made = machine()
    give_to("vfio-pci")(made)
    made.remove("/sys/class/kfd")
    made.write("/etc/modprobe.d/vfio.conf", f"options {module} ids=10de:1b80,1002:744c\n")

    (result,) = made.examine(only=["driver"])

    because = f"because of 'options {module} ids=10de:1b80,1002:744c' in /etc/modprobe.d/vfio.conf"
    assert result.finding.words == f"the GPU at 0000:03:00.0 {DRIVERS['vfio-pci']}, {because}"
    assert result.finding.fix == TAKE_OUT


DRIVERS = {
    "vfio-pci": "belongs to the driver vfio-pci, and not to amdgpu",
    "radeon": "belongs to the driver radeon, and not to amdgpu",
    "pci-stub": "belongs to the driver pci-stub, and not to amdgpu",
    "": "has no driver",
}


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_gpu_of_another_driver_is_named_with_it(machine, driver):
    made = machine()
    give_to(driver)(made)
    made.remove("/sys/class/kfd")

    assert finding_of(made, "driver") == ("bad", f"the GPU at 0000:03:00.0 {DRIVERS[driver]}")
    assert finding_of(made, "kfd") is None


@pytest.mark.parametrize("driver", DRIVERS)
def test_one_gpu_of_another_driver_among_four_is_noted(machine, driver):
    made = machine("mi210-4")
    address = min(name for name in os.listdir(made.host.path(DRIVER)) if ":" in name)
    give_to(driver, address)(made)

    assert finding_of(made, "driver") == ("note", f"the GPU at {address} {DRIVERS[driver]}")


def test_every_gpu_of_another_driver_is_no_reason_to_load_amdgpu(machine):
    made = machine("no-driver")
    for address in os.listdir(made.host.path("/sys/bus/pci/devices")):
        link = made.root / f"sys/bus/pci/devices/{address}/driver"
        link.unlink(missing_ok=True)
        link.symlink_to("../../../bus/pci/drivers/vfio-pci")

    state, words = finding_of(made, "driver")

    assert state == "bad"
    assert words.endswith("belongs to the driver vfio-pci, and not to amdgpu")


# What depmod writes for amdgpu of Linux 6.1, shortened.
ALIASES_OF_6_1 = """\
# Aliases extracted from modules themselves.
alias pci:v00001002d00007551sv*sd*bc03sc00i00* amdkfd
alias pci:v00001002d*sv*sd*bc03sc00i00* amdgpu
alias pci:v00001002d0000740Fsv*sd*bc*sc*i* amdgpu
alias platform:amdgpu amdgpu
"""
MI300X = "pci:v00001002d000074A1sv00001002sd000074A1bc12sc00i00"
R9700 = "pci:v00001002d00007551sv00001002sd00000E0Dbc03sc00i00"


def give_aliases(machine, gpu):
    machine.write("/lib/modules/6.12.12-amd64/modules.alias", ALIASES_OF_6_1)
    machine.write(f"{GPU}/modalias", f"{gpu}\n")


def test_a_driver_that_is_too_old_for_the_gpu_is_named_instead_of_loaded(machine):
    made = machine("no-driver")
    give_aliases(made, MI300X)

    (result,) = made.examine(only=["driver"])

    assert (result.finding.state, result.finding.words, result.finding.fix) == (
        "bad",
        "amdgpu of Linux 6.12.12-amd64 does not know the GPU at 0000:03:00.0",
        "install a later kernel, or AMD's amdgpu-dkms",
    )


def test_a_loaded_driver_that_is_too_old_for_the_gpu_says_so_too(machine):
    made = machine()
    give_to("")(made)
    give_aliases(made, MI300X)

    words = "amdgpu of Linux 6.12.12-amd64 does not know the GPU at 0000:03:00.0"
    assert finding_of(made, "driver") == ("bad", words)


def test_a_gpu_that_the_driver_knows_by_its_class_only_needs_the_driver(machine):
    made = machine("no-driver")
    give_aliases(made, R9700)

    assert finding_of(made, "driver") == ("bad", "amdgpu is not loaded")


def test_a_driver_of_dkms_that_is_not_built_is_built_before_the_kernel_is_called_too_old(machine):
    made = machine("no-driver")
    give_aliases(made, MI300X)
    made.write("/var/lib/dkms/amdgpu/6.12.12/6.11.0-1-amd64/x86_64/log", "")

    assert finding_of(made, "driver") is None
    assert finding_of(made, "dkms") == ("bad", "DKMS has no amdgpu for the running kernel 6.12.12-amd64")
