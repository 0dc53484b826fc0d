"""Does the compute driver know the GPUs?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "a GPU that KFD does not list draws pictures and cannot compute, and no container can ask for it"
PLACE = "explanation/numbering.md#gpus-without-a-number"


def check(facts: Facts) -> Finding | None:
    """Judge what discovery found."""
    if not facts.kernel.is_driver_loaded:
        return None
    if facts.gpus.hidden:
        return note("the device cgroup of this process hides GPUs", fix="run it outside of containers")
    if facts.gpus.problem:
        return bad(facts.gpus.problem, fix="amd-ctk gpu list")
    return _judge(len(facts.gpus.gpus), [str(gpu.pci_address) for gpu in facts.gpus.unnumbered])


def _judge(listed: int, unlisted: list[str]) -> Finding:
    if unlisted and not listed:
        # The slot lacks PCIe atomics, or ROCm does not know the card: the kernel's log says which.
        words = f"KFD lists no GPU, and the driver has {', '.join(unlisted)}"
        return bad(words, fix="sudo dmesg | grep -iE 'kfd|atomic'")
    if unlisted:
        return note(f"KFD does not list the GPU at {', '.join(unlisted)}")
    if not listed:
        return note("amdgpu is loaded, and this host has no GPU of AMD")
    return ok(f"KFD lists {listed} GPU{'' if listed == 1 else 's'}")
