"""amd-ctk version."""

from __future__ import annotations


def version() -> None:
    """Show the version."""
    from importlib.metadata import version as installed_version

    print(f"Version: {installed_version('amd-ctk')}")
