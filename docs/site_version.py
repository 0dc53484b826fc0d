"""What every page of the site says of its version and of whose it is, and where search finds it. mkdocs calls this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

VERSION = Path(__file__).parents[1] / "VERSION"
INDEPENDENCE = (
    "This is an independent implementation. It is not made, supported or endorsed by AMD. AMD, ROCm and Instinct are "
    "trademarks of Advanced Micro Devices, Inc."
)
# Readers search for something to do, or for a message to get rid of. How and why it is built comes after that.
FIRST = ("how-to/troubleshoot.md", "how-to/doctor.md")
SECOND = ("how-to/", "tutorial/", "reference/messages.md", "reference/no-gpu-causes.md")
LAST = ("decisions/", "maintain/", "reference/python/", "reference/engines.md")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Give a page its rank in searches (Material's `search.boost`)."""
    path = page.file.src_uri
    boosts = ((FIRST, 12), (SECOND, 4), (LAST, 0.2))
    page.meta["search"] = {"boost": next((boost for places, boost in boosts if path.startswith(places)), 1)}
    return markdown


def on_config(config: Any) -> Any:
    """Fill in the footer; without a forge no page has a pencil, because there is nowhere to edit it."""
    version = VERSION.read_text(encoding="utf-8").strip()
    releases = f"Version {version}. Each release has its own documentation: in <code>docs/</code> of its tag."
    config.copyright = f"{releases}<br>{INDEPENDENCE}"
    if not config.repo_url:
        config.edit_uri = ""
    return config
