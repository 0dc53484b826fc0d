"""The files that show the health of a GPU, and what they contain.

Sources: drivers/gpu/drm/amd/amdgpu/amdgpu_ras.c (`ras/`), pm/amdgpu_pm.c (hwmon, `gpu_busy_percent`) and
amdgpu_vram_mgr.c; drivers/pci/pci-sysfs.c (the link); Documentation/ABI/testing/sysfs-devices-power (`runtime_status`).
"""

from __future__ import annotations

import os

from amdgpu_discovery.driver.drm import AMDGPU_PCI_DEVICES
from amdgpu_discovery.usage.amounts import parse_count, parse_optional
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from amdgpu_discovery.health.limits import HealthLimits
    from amdgpu_discovery.host import Host

# Reading these wakes no GPU and does not access the hardware.
LINK = ("current_link_width", "max_link_width", "../max_link_width")
MEMORY = ("mem_info_vram_total", "mem_info_vram_used", "gpu_busy_percent")
# The driver keeps this list in memory.
BAD_PAGES = "ras/gpu_vram_bad_pages"
SENSORS = tuple(f"temp{each}_{what}" for each in (1, 2, 3) for what in ("label", "input", "crit"))
POWER = ("power1_average", "power1_input", "power1_cap")
RUNTIME_STATUS = "power/runtime_status"
ASLEEP = "suspended"
ERROR_COUNTS = "_err_count"
BAD_PAGE_THRESHOLD = "/sys/module/amdgpu/parameters/bad_page_threshold"
# The driver's own limit: one page for this many bytes of memory (RAS_BAD_PAGE_COVER of amdgpu_ras.c).
BYTES_PER_BAD_PAGE = 100 << 20
# The hottest place first: the driver throttles by it.
TEMPERATURES = ("junction", "edge")
# Blocks of a GPU with error counters; there are some twenty.
MOST_BLOCKS = 64


class Measured(Value):
    """The attributes of one PCI function; None for those that the driver does not report.

    Attributes:
        errors: By kind, such as `uncorrectable`, how many errors were counted since the driver was loaded.
        bad_pages: How many pages of its memory are retired.
        bad_page_limit: How many may be retired before the GPU is sick.
        temperature: In degrees Celsius, at its hottest place.
        temperature_limit: The temperature from which it is too hot.
        watts: The power it draws.
        watts_limit: The power it may draw.
        busy_percent: How busy it was in the last moments, in percent.
        vram_used: Bytes of its memory in use.
        vram_total: Bytes of its memory.
        link_width: Lanes of its PCI link.
        link_width_limit: How many lanes it and its slot support.
    """

    errors: tuple[tuple[str, int], ...] = ()
    bad_pages: int | None = None
    bad_page_limit: int | None = None
    temperature: float | None = None
    temperature_limit: float | None = None
    watts: float | None = None
    watts_limit: float | None = None
    busy_percent: int | None = None
    vram_used: int | None = None
    vram_total: int | None = None
    link_width: int | None = None
    link_width_limit: int | None = None


def function_path(address: str) -> str:
    """Return the directory of a PCI function's attributes."""
    return f"{AMDGPU_PCI_DEVICES}/{address}"


def list_attributes(host: Host, address: str, *, with_errors: bool) -> list[str]:
    """Return the names of the attributes to read; error counters only `with_errors`."""
    function = function_path(address)
    names = [*MEMORY, *LINK, BAD_PAGES]
    for sensor in host.names(f"{function}/hwmon")[:1]:
        there = set(host.names(f"{function}/hwmon/{sensor}"))
        names += [f"hwmon/{sensor}/{name}" for name in (*SENSORS, *POWER) if name in there]
    if with_errors:
        counters = sorted(name for name in host.names(f"{function}/ras") if name.endswith(ERROR_COUNTS))
        names += [f"ras/{name}" for name in counters[:MOST_BLOCKS]]
    return names


def parse_attributes(texts: Mapping[str, str], bad_page_threshold: str, limits: HealthLimits) -> Measured:
    """Parse attributes, by their names below the function; the administrator's limits replace the driver's."""
    flat = {os.path.basename(name): text for name, text in texts.items() if "/" not in name or "hwmon/" in name}
    total = parse_optional(flat.get("mem_info_vram_total", ""))
    busy = parse_optional(flat.get("gpu_busy_percent", ""))
    temperature, limit = _temperature(flat)
    own_limit = parse_count(bad_page_threshold) or (total // BYTES_PER_BAD_PAGE if total else None)
    widths = [parse_optional(texts.get(name, "")) for name in LINK[1:]]
    return Measured(
        errors=_sum_errors(text for name, text in texts.items() if name.endswith(ERROR_COUNTS)),
        bad_pages=_count_pages(texts[BAD_PAGES]) if BAD_PAGES in texts else None,
        bad_page_limit=limits.bad_pages or own_limit if BAD_PAGES in texts else None,
        temperature=temperature,
        temperature_limit=float(limits.temperature) if limits.temperature else limit,
        watts=_scaled(flat.get("power1_average") or flat.get("power1_input", ""), 1_000_000),
        watts_limit=_scaled(flat.get("power1_cap", ""), 1_000_000),
        busy_percent=None if busy is None else min(busy, 100),
        vram_used=parse_optional(flat.get("mem_info_vram_used", "")),
        vram_total=total,
        link_width=parse_optional(flat.get("current_link_width", "")),
        # The kernel prints 255 if the device does not report it.
        link_width_limit=min((width for width in widths if width and width < 255), default=None),
    )


def _sum_errors(texts: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Return the sums over all blocks; `de` are errors whose use is deferred, since Linux 6.9."""
    sums: dict[str, int] = {}
    for text in texts:
        for line in text.splitlines():
            word, _, number = line.partition(":")
            kind = {"ue": "uncorrectable", "ce": "correctable", "de": "deferred"}.get(word.strip())
            if kind:
                sums[kind] = sums.get(kind, 0) + parse_count(number.strip())
    return tuple(sorted(sums.items()))


def _count_pages(text: str) -> int:
    """Count the pages listed as `address : size : R`, where R, P or F is what happened to the page."""
    return sum(line.count(":") == 2 and line.strip().startswith("0x") for line in text.splitlines())


def _temperature(flat: Mapping[str, str]) -> tuple[float | None, float | None]:
    numbers = {flat.get(f"temp{each}_label", ""): each for each in (3, 2, 1) if f"temp{each}_input" in flat}
    number = next((numbers[label] for label in TEMPERATURES if label in numbers), None)
    if number is None:
        return None, None
    return _scaled(flat[f"temp{number}_input"], 1000), _scaled(flat.get(f"temp{number}_crit", ""), 1000)


def _scaled(text: str, divisor: int) -> float | None:
    number = parse_optional(text)
    return None if number is None else number / divisor
