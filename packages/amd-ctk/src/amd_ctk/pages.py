"""Find the page of the documentation that a message refers to."""

from __future__ import annotations

import os

# Packages install the pages here.
INSTALLED = "/usr/share/doc/amd-ctk/docs"
IN_CHECKOUT = "docs"
CHECKOUT = "../../../.."
# Titles of pages that messages name, because a wheel contains no pages.
TITLES = {
    "explanation/access.md": "Access",
    "explanation/numbering.md": "Numbering",
    "how-to/cdi.md": "Give GPUs to any engine with CDI",
    "how-to/compose.md": "Use Docker Compose",
    "how-to/configure-engines.md": "Configure container engines",
    "how-to/install.md": "Install and upgrade",
    "how-to/limit-gpu-memory.md": "Limit a container's GPU memory",
    "how-to/service-gpus.md": "Drained, sick, lost and exchanged GPUs",
    "how-to/share.md": "Share a GPU server with people",
    "how-to/slurm.md": "Hand out GPUs with Slurm",
    "how-to/troubleshoot.md": "Troubleshoot",
    "maintain/hardware.md": "Proof on hardware",
    "reference/cdi.md": "CDI specs",
    "reference/config.md": "config.toml",
    "reference/engines.md": "Engines and CDI",
    "reference/files.md": "Files",
    "reference/gpu-tracker.md": "GPU Tracker",
    "reference/messages.md": "Messages",
    "reference/runtime.md": "The runtime",
    "reference/support.md": "Requirements and compatibility",
}


def find_page(page: str) -> str:
    """Return the path of a page such as `how-to/cdi.md#start-containers`, or its title if it is not installed."""
    path = page.partition("#")[0]
    here = os.path.dirname(os.path.abspath(__file__))
    if os.path.isfile(os.path.join(here, CHECKOUT, IN_CHECKOUT, path)):
        return f"{IN_CHECKOUT}/{page}"
    if os.path.isfile(f"{INSTALLED}/{path}"):
        return f"{INSTALLED}/{page}"
    return f"'{TITLES[path]}' in the documentation"
