"""What every page of the site says of its version and of whose it is. mkdocs calls `on_config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

VERSION = Path(__file__).parents[1] / "VERSION"
INDEPENDENCE = (
    "This is an independent implementation. It is not made, supported or endorsed by AMD. AMD, ROCm and Instinct are "
    "trademarks of Advanced Micro Devices, Inc."
)


def on_config(config: Any) -> Any:
    """Fill in the footer; without a forge no page has a pencil, because there is nowhere to edit it."""
    version = VERSION.read_text(encoding="utf-8").strip()
    releases = f"Version {version}. Each release has its own documentation: in <code>docs/</code> of its tag."
    config.copyright = f"{releases}<br>{INDEPENDENCE}"
    if not config.repo_url:
        config.edit_uri = ""
    return config
