"""Make real processes appear to use the GPUs of a simulated host in KFD, DRM and /proc."""

from __future__ import annotations

from pathlib import Path

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.host import Host

FDINFO = """\
pos:\t0
flags:\t02100002
mnt_id:\t26
ino:\t566
drm-driver:\tamdgpu
drm-client-id:\t{client}
drm-pdev:\t{address}
drm-memory-vram:\t{kib} KiB
drm-memory-gtt: \t0 KiB
"""


def use_gpu(host: Host, pid: int, number: int, *, mib: int, in_kfd: bool = True) -> None:
    """Give a process a descriptor of a GPU and memory on it. The process keeps its own name and cgroup.

    The host gets a /proc with this process and those of earlier calls.
    """
    gpus = find_gpus(host)
    gpu = gpus[number]
    process = Path(host.path(f"/proc/{pid}"))
    for directory in ("fd", "fdinfo"):
        (process / directory).mkdir(parents=True, exist_ok=True)
    for file in ("cgroup", "comm", "stat"):
        if not (process / file).is_symlink():
            (process / file).symlink_to(f"/proc/{pid}/{file}")
    (process / f"fd/{10 + number}").symlink_to(gpu.render_path)
    text = FDINFO.format(client=pid, address=gpu.pci_address, kib=mib * 1024)
    (process / f"fdinfo/{10 + number}").write_text(text)
    for other in gpus if in_kfd else ():
        kfd = Path(host.path(f"/sys/class/kfd/kfd/proc/{pid}"))
        (kfd / f"stats_{other.gpu_id}").mkdir(parents=True, exist_ok=True)
        (kfd / f"vram_{other.gpu_id}").write_text(f"{mib * 2**20 if other == gpu else 0}\n")
        (kfd / f"sdma_{other.gpu_id}").write_text("0\n")
        (kfd / f"stats_{other.gpu_id}/cu_occupancy").write_text("0\n")
