"""A host of eight GPUs on which processes work and GPUs fall ill."""

from __future__ import annotations

import pytest

from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_simulator import build_host, load_profile


@pytest.fixture
def host_of(tmp_path):
    """Return a function that makes a host of MI300X, with processes, health and busy shares by number of the GPU.

    Processes compute if they are `in_kfd`, and draw otherwise.
    """

    def build(*, vram=None, health=None, busy=None, profile="mi300x-8", in_kfd=True):
        plain = load_profile(profile)
        order = sorted(range(len(plain.gpus)), key=lambda at: plain.gpus[at].pci_address)
        gpus = list(plain.gpus)
        for number, position in enumerate(order):
            gpus[position] = gpus[position].replace(
                health=(health or {}).get(number, {}), busy_percent=(busy or {}).get(number, 0)
            )
        processes = tuple(
            SimulatedProcess(
                pid=4000 + number,
                name="python3",
                uid=1000,
                uses=(SimulatedUse(gpu=order[number], vram_bytes=used, client_id=number + 1, in_kfd=in_kfd),),
            )
            for number, used in (vram or {0: 0}).items()
        )
        host = build_host(tmp_path / "host", plain.replace(gpus=tuple(gpus), processes=processes), bare=True)
        with open(host.path("/etc/passwd"), "w", encoding="utf-8") as file:
            file.write("root:x:0:0::/root:/bin/sh\ncarol:x:1000:1000::/home/carol:/bin/sh\n")
        return host

    return build
