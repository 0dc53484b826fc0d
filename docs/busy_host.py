"""A simulated host with load, for the picture of `amd-ctk top`."""

from __future__ import annotations

import os
import re
import time
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from amd_gpu_tracker import Tracker
from amd_gpu_tracker.book.drains import Drain, write_drains
from amd_gpu_tracker.book.lease import Lease, boot_offset
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.state_table import Screen
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.watch.show.watch_screen import draw_page
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_simulator import build_host, load_profile

HOUR, GIBIBYTE = 3600.0, 1 << 30
PEOPLE = {"carol": 1000, "alice": 1001, "bob": 1002}
# By GPU: degrees Celsius, watts, and the busy percentage in eight samples.
MEASURED = (
    (71, 612, (12, 40, 88, 97, 99, 96, 98, 97)),
    (66, 540, (71, 75, 70, 68, 74, 77, 73, 72)),
    (62, 480, (95, 96, 40, 5, 10, 62, 90, 63)),
    (44, 140, (0, 0, 0, 0, 0, 0, 0, 0)),
    (41, 131, (0, 0, 0, 0, 0, 0, 0, 0)),
    (40, 130, (30, 22, 8, 0, 0, 0, 0, 0)),
    (58, 190, (0, 0, 0, 0, 0, 0, 0, 0)),
    (39, 128, (0, 0, 0, 0, 0, 0, 0, 0)),
)
# GPU number, program, uid and GiB of each process; and GPU number, name, uid and hours of each job.
PROCESSES = ((0, "python3", 1000, 176), (1, "python3", 1001, 121), (2, "vllm", 1002, 160))
JOBS = ((1, "nightly-sweep", 1001, 3.5), (2, "chat", 1002, 60.0), (3, "debug", 1000, 0.7))
CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def shown_screen() -> list[str]:
    """Return the lines of the screen, with colours."""
    with TemporaryDirectory() as directory:
        host = _build(directory)
        screen = Screen(Tracker(host))
        output = StringIO()
        console = Console(
            file=output,
            width=100,
            height=20,
            force_terminal=True,
            color_system="standard",
            _environ={},
            highlight=False,
        )
        for sample in range(8):
            _set_busy(host, sample)
            page = screen.next_page(console, "")
        assert page
        console.print(draw_page(page.title, page, console))
    return [CLOCK.sub("2026-11-23 09:15:02", line) for line in output.getvalue().rstrip().split("\n")]


def _build(directory: str) -> Host:
    profile = load_profile("mi300x-8")
    gpus = tuple(gpu.replace(**_measured(number)) for number, gpu in enumerate(profile.gpus))
    host = build_host(directory, profile.replace(gpus=gpus, processes=tuple(map(_process, PROCESSES))), bare=True)
    passwd = "".join(f"{name}:x:{uid}:{uid}::/:/bin/sh\n" for name, uid in PEOPLE.items())
    Path(host.path("/etc/passwd")).write_text(passwd, encoding="utf-8")
    Tracker(host).enable()
    keys, now = [gpu.key for gpu in locate_gpus(host)], time.time()
    for number, name, person, hours in JOBS:
        _reserve(host, keys[number], f"{person}/{name}", person, now - hours * HOUR)
    write_drains(host, [Drain(key=keys[5], reason="fan swap on Monday", since=now - 26 * HOUR)])
    return host


def _measured(number: int) -> dict[str, object]:
    temperature, watts, _ = MEASURED[number]
    health = {
        "hwmon/hwmon0/temp2_label": "junction",
        "hwmon/hwmon0/temp2_input": f"{temperature}000",
        "hwmon/hwmon0/power1_average": f"{watts}000000",
        **({"ras/umc_err_count": "ue: 3\nce: 17"} if number == 6 else {}),
    }
    return {"health": health, "busy_percent": 0}


def _process(described: tuple[int, str, int, int]) -> SimulatedProcess:
    number, name, uid, gibibytes = described
    use = SimulatedUse(gpu=number, vram_bytes=gibibytes * GIBIBYTE, client_id=number + 1)
    return SimulatedProcess(pid=4000 + number, name=name, uid=uid, uses=(use,))


def _set_busy(host: Host, sample: int) -> None:
    for gpu, (_, _, busy) in zip(locate_gpus(host), MEASURED, strict=True):
        function = host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{gpu.pci_address}")
        Path(function, "gpu_busy_percent").write_text(f"{busy[sample]}\n", encoding="utf-8")


def _reserve(host: Host, key: str, name: str, person: int, since: float) -> None:
    processes = Processes()
    this_process = processes.find(os.getpid())
    assert this_process is not None
    lease = Lease(
        container_id=name,
        bundle="",
        creator=this_process,
        gpus=(key,),
        boot_offset=boot_offset(),
        boot_id=processes.boot_id,
        namespace=processes.namespace,
        ways=("api",),
        since=since,
        person=person,
    )
    State(host).write_lease(lease)
