"""Say on every page of the site which version it is about, and where the others are. mkdocs calls `on_config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

VERSION = Path(__file__).parents[1] / "VERSION"


def on_config(config: Any) -> Any:
    """Put the version into the footer."""
    version = VERSION.read_text(encoding="utf-8").strip()
    config.copyright = f"Version {version}. Each release has its own documentation: in <code>docs/</code> of its tag."
    return config
