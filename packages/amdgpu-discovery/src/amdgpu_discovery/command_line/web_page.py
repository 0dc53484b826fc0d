"""The common part of HTML pages: one file without scripts or external links, for small screens and dark mode."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from amdgpu_discovery.untrusted.plain_text import printable

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --paper: #fff; --line: #d0d7de; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #17191c; --line: #3d444d; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 70rem; padding: 1rem; }
h1 { font-size: 1.4rem; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .25rem .6rem; text-align: right; }
tr { border-bottom: 1px solid var(--line); }
"""


def format_web_page(title: str, parts: Iterable[str], *, style: str = "", reload_seconds: int = 0) -> str:
    """Return a page with a title and `parts` in HTML; `style` adds CSS. `reload_seconds` makes browsers reload it."""
    reload = f'<meta http-equiv="refresh" content="{reload_seconds}">' if reload_seconds else ""
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">{reload}<title>{text(title)}</title>'
    )
    return "\n".join(
        [
            f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}{style}</style></head>',
            f"<body>\n<h1>{text(title)}</h1>",
            *parts,
            "</body></html>\n",
        ]
    )


def text(words: str) -> str:
    """Escape untrusted text for a page."""
    return escape(printable(words), quote=True)
