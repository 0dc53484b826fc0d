"""What requirements are checked against: the GPUs of a container, and their host."""

from __future__ import annotations

import posix

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import DriverUnavailable, GpusHidden, ToolkitError
from amdgpu_discovery.files import read_file
from amdgpu_discovery.gpu import MEBIBYTE, Gpu
from amdgpu_discovery.tables.driver_versions import DRIVER_VERSION, read_releases
from amdgpu_discovery.tables.targets import OVERRIDE, parse_override
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from amdgpu_discovery.host import Host

# x86-64 psABI, "Micro-Architecture Levels", with the names of arch/x86/include/asm/cpufeatures.h; each level includes
# the lower ones. Linux calls LZCNT abm, and shows FMA and AVX only if it saves their registers (OSXSAVE).
LEVELS = (
    ("cmov", "cx8", "fpu", "fxsr", "mmx", "syscall", "sse", "sse2"),
    ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
    ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"),
    ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
)
HINT = "AMD_DISABLE_REQUIRE=true starts it anyway"


class JudgedGpu(Value):
    """The properties of a GPU that are judged; "" and None for those that the driver does not report."""

    number: int
    target: str = ""
    vram_mib: int | None = None
    # SPX for a GPU that cannot be partitioned.
    compute_partition: str = "SPX"
    memory_partition: str = ""


class ContainerFacts(Value):
    """What a container gets: its GPUs, and the driver, the kernel and the processor of its host."""

    gpus: tuple[JudgedGpu, ...]
    # "" for the kernel's own driver, which has no version.
    driver: str = ""
    kernel: str = ""
    # The x86-64 level; 0 for another processor.
    cpu_level: int = 0
    # The ROCm releases that AMD tests with the driver; () if unknown.
    rocm: tuple[str, ...] = ()
    # If the driver is newer than the table: the oldest release that the newest driver of the table is tested with.
    oldest_rocm: str = ""
    # The target that HSA_OVERRIDE_GFX_VERSION gives to every GPU, "" if it is not set.
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
    """Return the x86-64 level of the processors, 0 for others."""
    try:
        text = read_file(f"{proc}/cpuinfo").decode("ascii", "replace")
    except OSError:
        return 0
    _, _, rest = text.partition("\nflags")
    return cpu_level(rest.partition("\n")[0].split())


def cpu_level(flags: Sequence[str]) -> int:
    """Return the highest x86-64 level of which a processor has all features, 0 if it lacks some of the first."""
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
    """An image requires something that the GPUs of its container or their host do not have.

    Attributes:
        clause: The fact that contradicts the requirement, without the variable of the requirement.
    """

    exit_code = 10

    def __init__(self, message: str, *, hint: str = "", clause: str = "") -> None:
        super().__init__(message, hint=hint)
        self.clause = clause or message


def not_judged(message: str) -> RequirementError:
    """Return the error for a meaningless requirement: nobody knows whether its image fits."""
    return RequirementError(message, hint=HINT)
