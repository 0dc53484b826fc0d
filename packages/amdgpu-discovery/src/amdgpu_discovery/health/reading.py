"""Reads the health of GPUs in bounded time, and judges whether a GPU can be given out."""

from __future__ import annotations

import errno

from amdgpu_discovery.health.attributes import (
    ASLEEP,
    BAD_PAGE_THRESHOLD,
    RUNTIME_STATUS,
    Measured,
    function_path,
    list_attributes,
    parse_attributes,
)
from amdgpu_discovery.health.limits import NO_LIMITS, HealthLimits
from amdgpu_discovery.untrusted.bounded_files import FileAnswer, read_in_child
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from amdgpu_discovery.host import Host

# For all GPUs together; a GPU answers in milliseconds.
HEALTH_SECONDS = 2.0
SICK = "sick"
SUSPECT = "suspect"
# Errors by which a driver reports that it has lost its hardware.
FATAL_ERRORS = {errno.EIO: "an I/O error", errno.ENODEV: "no device", errno.ETIMEDOUT: "no answer"}


class Health(Value):
    """The health of a GPU.

    Attributes:
        verdict: SICK if the driver fails or too many pages are retired, SUSPECT for other problems, "" for none.
        reasons: What is wrong with it, a clause each.
        measured: What the driver reports.
        is_asleep: Whether it sleeps, so that the driver was not asked.
        is_hanging: Whether the driver did not answer.
        is_unknown: Whether there was no time to ask, because other GPUs did not answer.
    """

    verdict: str = ""
    reasons: tuple[str, ...] = ()
    measured: Measured = Measured()
    is_asleep: bool = False
    is_hanging: bool = False
    is_unknown: bool = False

    @property
    def is_known(self) -> bool:
        """Return whether the driver was asked."""
        return not (self.is_asleep or self.is_unknown)


NOTHING = Health()


def read_health(
    host: Host,
    addresses: Iterable[str],
    *,
    with_errors: bool = True,
    earlier: Mapping[str, Health] | None = None,
    limits: HealthLimits = NO_LIMITS,
    seconds: float = HEALTH_SECONDS,
) -> dict[str, Health]:
    """Return the health of the PCI functions with these addresses, by the `limits` of the administrator.

    Reading error counters accesses the hardware, and some chips then restart at 0. So a screen that refreshes reads
    without them (`with_errors`), and passes its `earlier` results, whose counters stay valid. A driver that did not
    answer earlier is then not asked again, because each attempt would leave a process behind. A GPU that sleeps is not
    woken.
    """
    addresses = list(dict.fromkeys(addresses))
    before = earlier or {}
    hanging = {each for each in addresses if not with_errors and before.get(each, NOTHING).is_hanging}
    read = [each for each in addresses if each not in hanging]
    asleep = {each for each in read if host.read_attribute(f"{function_path(each)}/{RUNTIME_STATUS}") == ASLEEP}
    paths_by_name = {
        each: {
            name: host.path(f"{function_path(each)}/{name}")
            for name in list_attributes(host, each, with_errors=with_errors)
        }
        for each in read
        if each not in asleep
    }
    answers = read_in_child([list(paths.values()) for paths in paths_by_name.values()], seconds=seconds)
    threshold = host.read_attribute(BAD_PAGE_THRESHOLD)
    found = {each: Health(is_asleep=True) for each in asleep}
    for each, paths in paths_by_name.items():
        known = {name: answers[path] for name, path in paths.items() if path in answers}
        found[each] = _health(known, threshold, limits)
    merged = {each: _with_earlier(health, before.get(each, NOTHING)) for each, health in found.items()}
    return {each: before[each] if each in hanging else merged[each] for each in addresses}


def judge(measured: Measured) -> tuple[str, list[str]]:
    """Return the verdict on the values of a driver that answers, and the reasons."""
    errors, pages, limit = dict(measured.errors), measured.bad_pages or 0, measured.bad_page_limit
    if limit and pages > limit:
        return SICK, [f"{pages} pages of its memory are retired, and the limit is {limit}"]
    reasons = []
    if uncorrectable := errors.get("uncorrectable", 0):
        count = f"{uncorrectable} uncorrectable error{'' if uncorrectable == 1 else 's'}"
        reasons.append(f"{count} since the driver was loaded")
    if pages:
        reasons.append(f"{pages} page{' of its memory is' if pages == 1 else 's of its memory are'} retired")
    if measured.temperature and measured.temperature_limit and measured.temperature >= measured.temperature_limit:
        reasons.append(f"{measured.temperature:.0f} C, and its limit is {measured.temperature_limit:.0f} C")
    width, possible = measured.link_width, measured.link_width_limit
    if width and possible and width < possible:
        reasons.append(f"its link has {width} of {possible} lanes")
    return (SUSPECT if reasons else ""), reasons


def _health(known: Mapping[str, FileAnswer], bad_page_threshold: str, limits: HealthLimits) -> Health:
    if not known:
        return Health(is_unknown=True)
    texts = {name: answer.text for name, answer in known.items() if not answer.error}
    measured = parse_attributes(texts, bad_page_threshold, limits)
    broken = next((name for name, answer in known.items() if answer.error in FATAL_ERRORS), "")
    if broken:
        reason = f"reading {broken} ends with {FATAL_ERRORS[known[broken].error]}"
        is_hanging = known[broken].error == errno.ETIMEDOUT
        return Health(verdict=SICK, reasons=(reason,), measured=measured, is_hanging=is_hanging)
    verdict, reasons = judge(measured)
    return Health(verdict=verdict, reasons=tuple(reasons), measured=measured)


def _with_earlier(health: Health, earlier: Health) -> Health:
    """Return the health with the errors that were counted earlier: some chips restart at 0 when they are read."""
    now, before = health.measured, earlier.measured
    errors, counted = dict(now.errors), dict(before.errors)
    most = {kind: max(errors.get(kind, 0), counted.get(kind, 0)) for kind in sorted({*errors, *counted})}
    measured = now.replace(errors=tuple(most.items()))
    if now.bad_pages is None:
        measured = measured.replace(bad_pages=before.bad_pages, bad_page_limit=before.bad_page_limit)
    if health.verdict == SICK:
        return health.replace(measured=measured)
    verdict, reasons = judge(measured)
    return health.replace(verdict=verdict, reasons=tuple(reasons), measured=measured)
