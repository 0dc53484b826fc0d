"""Formats metrics in the text format of Prometheus."""

from __future__ import annotations

from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    # A metric's name, its labels, and its value; None if unknown.
    Sample = tuple[str, Mapping[str, str], float | None]

# All others are gauges, even `gpu_nodes_total`, which has the name that ROCm's exporter uses.
COUNTERS = ("amd_gpu_errors_total", "amd_gpu_starts_total", "amd_gpu_refusals_total", "amd_gpu_repairs_total")


def format_metrics(samples: Iterable[Sample], help_by_name: Mapping[str, str]) -> str:
    """Return samples in a collector's format, those of a metric together, in the order of `help_by_name`.

    Samples whose labels differ only in control characters become one, because the collector refuses duplicates.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in help_by_name}
    for name, labels, value in samples:
        if value is not None:
            text = ",".join(f'{label}="{_escaped(content)}"' for label, content in labels.items())
            found[name][text] = found[name].get(text, 0) + value
    return "\n".join(line for name, values in found.items() if values for line in _metric(name, help_by_name, values))


def _metric(name: str, help_by_name: Mapping[str, str], values: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP {name} {help_by_name[name]}"
    yield f"# TYPE {name} {'counter' if name in COUNTERS else 'gauge'}"
    for labels, value in values.items():
        number = f"{value:g}" if type(value) is float else f"{value}"
        yield f"{name}{{{labels}}} {number}" if labels else f"{name} {number}"


def _escaped(text: str) -> str:
    """Escape a label for the format; names of containers may hold anything."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
