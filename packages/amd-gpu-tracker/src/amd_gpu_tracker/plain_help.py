"""Keep rich out of help texts, in `amd-gpu-tracker` and `amd-ctk`; importing this module is enough."""

from __future__ import annotations

import typer.core

# Typer 0.20 asks rich to escape help that is plain; packages have rich without the libraries it would need for that.
typer.core.HAS_RICH = False
