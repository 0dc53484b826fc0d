"""What requirements are held against: the GPUs that a container gets, and their host."""

from __future__ import annotations

import posix

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.driver_versions import DRIVER_VERSION, read_releases
from amdgpu_discovery.errors import DriverUnavailable, GpusHidden, ToolkitError
from amdgpu_discovery.files import read_file
from amdgpu_discovery.gpu import MEBIBYTE, Gpu
from amdgpu_discovery.targets import OVERRIDE, parse_override
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from amdgpu_discovery.host import Host

# x86-64 psABI, "Micro-Architecture Levels", by the names of arch/x86/include/asm/cpufeatures.h; each level has those
# below it. Linux calls LZCNT abm, and shows FMA and AVX only where it saves their registers (OSXSAVE).
LEVELS = (
    ("cmov", "cx8", "fpu", "fxsr", "mmx", "syscall", "sse", "sse2"),
    ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
    ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"),
    ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
)
HINT = "AMD_DISABLE_REQUIRE=true starts it anyway"


class JudgedGpu(Value):
    """What is judged of a GPU; "" and None where the driver does not say."""

    number: int
    target: str = ""
    vram_mib: int | None = None
    # SPX for a GPU that cannot be partitioned.
    compute_partition: str = "SPX"
    memory_partition: str = ""


class ContainerFacts(Value):
    """What a container gets: its GPUs, and of its host the driver, the kernel and the processor."""

    gpus: tuple[JudgedGpu, ...]
    # "" for the kernel's own, which has no number.
    driver: str = ""
    kernel: str = ""
    # The level of x86-64; 0 for another processor.
    cpu_level: int = 0
    # The releases of ROCm that AMD tests with the driver; () if that is unknown.
    rocm: tuple[str, ...] = ()
    # For a driver that is newer than the table: the oldest release that the newest of the table is tested with.
    oldest_rocm: str = ""
    # What HSA_OVERRIDE_GFX_VERSION makes of every GPU, "" where it is not set.
    override: str = ""


def read_facts(host: Host, numbers: Container[int], environment: Mapping[str, str]) -> ContainerFacts:
    """Return the facts about the GPUs of these `numbers` in a container with an `environment`."""
    driver = host.read_attribute(DRIVER_VERSION)
    releases = read_releases(host, driver)
    override = parse_override(environment.get(OVERRIDE, ""))
    return ContainerFacts(
        gpus=tuple(_describe(gpu, override) for gpu in _find_gpus(host) if gpu.number in numbers),
        driver=driver,
        kernel=posix.uname().release,
        cpu_level=read_cpu_level(),
        rocm=releases.tested,
        oldest_rocm=releases.oldest,
        override=override,
    )


def read_cpu_level(proc: str = "/proc") -> int:
    """Return which level of x86-64 the processors have, 0 for others."""
    try:
        text = read_file(f"{proc}/cpuinfo").decode("ascii", "replace")
    except OSError:
        return 0
    _, _, rest = text.partition("\nflags")
    return cpu_level(rest.partition("\n")[0].split())


def cpu_level(flags: Sequence[str]) -> int:
    """Return the highest level of x86-64 of which a processor has all features, 0 where it has not even the first."""
    level = 0
    while level < len(LEVELS) and set(LEVELS[level]) <= set(flags):
        level += 1
    return level


def _find_gpus(host: Host) -> list[Gpu]:
    try:
        return find_gpus(host)
    except (DriverUnavailable, GpusHidden):
        return []


def _describe(gpu: Gpu, override: str) -> JudgedGpu:
    return JudgedGpu(
        number=gpu.number,
        target=override or gpu.gfx_target,
        vram_mib=None if gpu.vram_bytes is None else gpu.vram_bytes // MEBIBYTE,
        compute_partition=gpu.compute_partition or "SPX",
        memory_partition=gpu.memory_partition,
    )


class RequirementError(ToolkitError):
    """An image requires what the GPUs of its container or their host do not have.

    Attributes:
        clause: What is the case, without the variable that requires something else.
    """

    exit_code = 10

    def __init__(self, message: str, *, hint: str = "", clause: str = "") -> None:
        super().__init__(message, hint=hint)
        self.clause = clause or message


def not_judged(message: str) -> RequirementError:
    """Return the error for a requirement that means nothing: such an image is not known to fit."""
    return RequirementError(message, hint=HINT)
