"""Shows the latest refusals, as text and as JSON."""

from __future__ import annotations

from amd_gpu_tracker.times import format_time
from amdgpu_discovery.untrusted.plain_text import printable
from amdgpu_discovery.usage.people import title_of_person

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_gpu_tracker.book.refusal_log import Refusal


def format_refusals(refusals: Sequence[Refusal]) -> str:
    """Return the refusals, oldest first, each with its container and the message that it got; people by name."""
    blocks = []
    for refusal in refusals:
        indented = "\n    ".join(map(printable, refusal.told(title_of_person).split("\n")))
        container = printable(refusal.container_id) or "-"
        by = printable(", ".join(refusal.ways))
        blocks.append(f"{format_time(refusal.time)} container {container} by {by}\n    {indented}")
    return "\n".join(blocks) or "No container has been refused since the last boot"


def format_refusals_as_json(refusals: Sequence[Refusal]) -> str:
    """Return the refusals as JSON, with people by name."""
    import json

    fields = [
        {
            "time": refusal.time,
            "container_id": refusal.container_id,
            "ways": list(refusal.ways),
            "message": refusal.told(title_of_person),
        }
        for refusal in refusals
    ]
    return json.dumps(fields, indent=2)
