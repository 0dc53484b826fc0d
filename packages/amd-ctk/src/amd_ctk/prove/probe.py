"""Run in the container: ask the kernel which GPUs this process may use, and print its answers.

Example: python3 -ISB probe.py 129,130 (render minors of GPUs that this container was not given)

It stands alone, as nothing else of the toolkit is in the image. Each line has a word, its subject, and an error number,
0 for none: `open /dev/kfd 0`, `listed 12261 0`. `device /dev/dri/renderD128 29711` ends with a PCI device id instead,
and `limit drm/0000:03:00.0/vram 1073741824` with bytes.
"""

from __future__ import annotations

import array
import fcntl
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Answer = TypeVar("Answer")

KFD = "/dev/kfd"
DRI = "/dev/dri"
DRM_MAJOR = 226
# linux/kfd_ioctl.h: AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, whose argument is the address of a list and its length.
GET_APERTURES = 3 << 30 | 16 << 16 | ord("K") << 8 | 0x14
ARGUMENT_BYTES = 16
# struct kfd_process_device_apertures: six addresses, then the id of the GPU.
ENTRY_BYTES = 56
ID_AT = 48
MOST_PROBED_GPUS = 512
# drm/amdgpu_drm.h: DRM_IOCTL_AMDGPU_INFO with AMDGPU_INFO_DEV_INFO, whose answer begins with the PCI device id.
GET_INFO = 1 << 30 | 32 << 16 | ord("d") << 8 | 0x45
DEVICE_INFO = 0x16
INFO_BYTES = 32
# Python passes a copy of smaller buffers, and writing it back would overwrite the kernel's answer.
ROOM = 4096
NODE = "/dev/amd-ctk-probe"
CGROUPS = "/sys/fs/cgroup"


def main(foreign: list[int]) -> None:
    """Query the kernel and print its answers."""
    listed = try_open(KFD, list_gpus)
    for gpu_id in listed or ():
        print("listed", gpu_id, 0)
    for name in sorted(os.listdir(DRI)) if os.path.isdir(DRI) else ():
        if name.startswith("renderD"):
            device = try_open(f"{DRI}/{name}", read_device_id)
            if device is not None:
                print("device", f"{DRI}/{name}", device)
    for minor in foreign:
        try_foreign(minor)
    show_limits()


def try_open(path: str, ask: Callable[[int], Answer]) -> Answer | None:
    """Open a node and query it; print errors of both, and return the answer, None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError as error:
        print("open", path, error.errno)
        return None
    print("open", path, 0)
    try:
        return ask(descriptor)
    except OSError as error:
        print("ask", path, error.errno)
        return None
    finally:
        os.close(descriptor)


def list_gpus(descriptor: int) -> list[int]:
    """Return the ids of the GPUs on which KFD lets this process compute; OSError."""
    room = array.array("B", bytes(ARGUMENT_BYTES + MOST_PROBED_GPUS * ENTRY_BYTES))
    address = room.buffer_info()[0] + ARGUMENT_BYTES
    count = 0
    # With a count of 0, KFD returns the number of GPUs. With a count beyond that, Linux 6.12 fails with EINVAL.
    for _ in ("how many", "which"):
        room[:ARGUMENT_BYTES] = array.array("B", address.to_bytes(8, "little") + count.to_bytes(8, "little"))
        fcntl.ioctl(descriptor, GET_APERTURES, room, True)
        count = min(int.from_bytes(room[8:12].tobytes(), "little"), MOST_PROBED_GPUS)
        if not count:
            break
    places = [ARGUMENT_BYTES + each * ENTRY_BYTES + ID_AT for each in range(count)]
    return [int.from_bytes(room[place : place + 4].tobytes(), "little") for place in places]


def read_device_id(descriptor: int) -> int:
    """Return the PCI device id of the GPU behind a render node; OSError."""
    room = array.array("B", bytes(ROOM))
    answer = room.buffer_info()[0] + INFO_BYTES
    question = answer.to_bytes(8, "little") + (4).to_bytes(4, "little") + DEVICE_INFO.to_bytes(4, "little")
    room[: len(question)] = array.array("B", question)
    fcntl.ioctl(descriptor, GET_INFO, room, True)
    return int.from_bytes(room[INFO_BYTES : INFO_BYTES + 4].tobytes(), "little")


def try_foreign(minor: int) -> None:
    """Make the node of a GPU that this container was not given, and open it; print the errors of both."""
    try:
        os.mknod(NODE, 0o020666, os.makedev(DRM_MAJOR, minor))
    except OSError as error:
        print("make", minor, error.errno)
        return
    print("make", minor, 0)
    try:
        os.close(os.open(NODE, os.O_RDWR))
    except OSError as error:
        print("foreign", minor, error.errno)
    else:
        print("foreign", minor, 0)
    finally:
        os.unlink(NODE)


def show_limits() -> None:
    """Print the limits on the memory of GPUs that the kernel has for this process's cgroup; older kernels have none."""
    try:
        with open("/proc/self/cgroup") as file:
            cgroup = file.read().rpartition("0::/")[2].strip()
        with open(f"{CGROUPS}/{cgroup}/dmem.max") as file:
            for line in file:
                print("limit", line.strip())
    except OSError:
        return


if __name__ == "__main__":
    main([int(minor) for minor in sys.argv[1].split(",") if minor])
