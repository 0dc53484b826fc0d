"""Does the compute driver know the GPUs?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.doctor.facts.all import Facts
    from amdgpu_discovery.gpu import Gpu, UnnumberedGpu

WHY = "a GPU that KFD does not list draws pictures and cannot compute, and no container can ask for it"
PLACE = "explanation/numbering.md#gpus-without-a-number"
ASK_KERNEL = "sudo dmesg | grep -iE 'kfd|atomic'"


def check(facts: Facts) -> Finding | None:
    """Judge what discovery found."""
    if not facts.kernel.is_driver_loaded:
        return None
    if facts.gpus.hidden:
        return note("the device cgroup of this process hides GPUs", fix="run it outside of containers")
    if facts.gpus.problem:
        return bad(facts.gpus.problem, fix="sudo dmesg | grep -iE 'kfd|amdgpu', then load the driver again or reboot")
    lost = [str(gpu.pci_address) for gpu in facts.gpus.unnumbered if _is_lost(gpu, facts.gpus.gpus)]
    if lost and facts.gpus.gpus:
        return bad(f"KFD does not list the GPU at {', '.join(lost)}", fix=ASK_KERNEL)
    return _judge(len(facts.gpus.gpus), [str(gpu.pci_address) for gpu in facts.gpus.unnumbered])


def _is_lost(unlisted: UnnumberedGpu, listed: Sequence[Gpu]) -> bool:
    """Return whether a GPU is one that KFD should list: one like those it lists, or a card beside an integrated GPU."""
    is_alike = unlisted.device_id in [gpu.device_id for gpu in listed]
    return (unlisted.device_id != 0 and is_alike) or all(gpu.is_apu for gpu in listed)


def _judge(listed: int, unlisted: list[str]) -> Finding:
    if unlisted and not listed:
        # The slot lacks PCIe atomics, or ROCm does not know the card: the kernel's log says which.
        words = f"KFD lists no GPU, and the driver has {', '.join(unlisted)}"
        return bad(words, fix=ASK_KERNEL)
    if unlisted:
        return note(f"KFD does not list the GPU at {', '.join(unlisted)}")
    if not listed:
        return note("amdgpu is loaded, and this host has no GPU of AMD")
    return ok(f"KFD lists {listed} GPU{'' if listed == 1 else 's'}")
