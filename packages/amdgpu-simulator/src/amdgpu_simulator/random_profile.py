"""Generates hosts that could exist, for property tests of code that works on the GPUs of a host."""

from __future__ import annotations

from amdgpu_discovery.driver.compute_modes import MODES_BY_XCC_COUNT
from amdgpu_discovery.gpu import PciAddress
from amdgpu_discovery.recording.profile import Driver, ForeignDrm, GpuModel, Minors, Profile, SimulatedGpu
from amdgpu_simulator.profile_files import gpu_model, gpu_model_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from random import Random

MOST_RANDOM_GPUS = 6
# Domains are 32 bits wide; those above 16 bits change the length of an address.
DOMAINS = (0, 0, 0, 1, 0xFFFF, 0x10000)
FOREIGN = ForeignDrm(pci_address="0000:ff:00.0", driver="ast", vendor_id=0x1A03, device_id=0x2000)


def random_profile(random: Random) -> Profile:
    """Return a host with random GPUs, partitions, order, minors and ids; the same host for the same seed."""
    count = random.randint(0, MOST_RANDOM_GPUS)
    addresses = random.sample(range(1, 0xE0), count)
    gpus = [_random_gpu(random, bus) for bus in addresses]
    if random.random() < 0.5:
        gpus = _scatter_minors(random, gpus)
    return Profile(
        name="random",
        gpus=tuple(gpus),
        driver=Driver(
            kfd_major=random.randint(234, 511),
            xcp_separator=random.choice("_."),
            shared_minors=True,
            peer_to_peer=False,
        ),
        foreign=(FOREIGN,) if random.random() < 0.5 else (),
    )


def _random_gpu(random: Random, bus: int) -> SimulatedGpu:
    model = gpu_model(random.choice(gpu_model_names()))
    modes = MODES_BY_XCC_COUNT.get(model.xcc_count, "").split(", ")
    gpu = SimulatedGpu(
        model=model,
        pci_address=str(PciAddress(domain=random.choice(DOMAINS), bus=bus, device=random.randrange(32), function=0)),
        pci_unique_id=random.choice((None, 0, random.getrandbits(64))),
        compute_partition=random.choice(modes),
        memory_partition="NPS1" if model.xcp_devices else "",
        # Sometimes KFD does not list a GPU.
        partitions=random.choice((None, None, None, 0)),
    )
    return gpu.replace(kfd_unique_ids=_random_ids(random, gpu.wanted_partitions))


def _random_ids(random: Random, count: int) -> tuple[int, ...]:
    """Return the ids that older and newer drivers print: the PCI function's, none, or another for each partition."""
    return random.choice(((), (0,), tuple(random.getrandbits(64) for _ in range(count))))


def _scatter_minors(random: Random, gpus: list[SimulatedGpu]) -> list[SimulatedGpu]:
    """Give the GPUs minors in random order, with gaps, and card minors that are unrelated to render minors."""
    total = sum(_device_count(gpu.model) for gpu in gpus)
    cards = random.sample(range(1024, 2048), total)
    renders = random.sample(range(128, 1024), total)
    scattered = []
    for gpu in gpus:
        count = _device_count(gpu.model)
        minors: list[Minors] = list(zip(cards[:count], sorted(renders[:count]), strict=True))
        scattered.append(gpu.replace(minors=tuple(minors)))
        del cards[:count], renders[:count]
    return scattered


def _device_count(model: GpuModel) -> int:
    return 1 + model.xcp_devices
