"""Draw diagrams and terminals as SVG from text. The pictures load nothing, and look the same in light and dark mode.

A diagram of lanes:                              A diagram of rows:

    lanes: you | Docker | runc                       row: amd-ctk=the command line | ...
    you > Docker: docker run ...                     amd-ctk > amd-device-spec
    Docker: a note in its own lane
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from textwrap import wrap
from unicodedata import east_asian_width

LANE, STEP, MARGIN = 190, 46, 16
BOX_WIDTH, BOX_HEIGHT, ROW = 210, 52, 100
# Size of the font in pixels; textLength makes browsers with other fonts keep it.
CHARACTER, LINE = 8.4, 19
COLUMNS = 66
BUTTONS = ((20, "#ff5f56"), (40, "#ffbd2e"), (60, "#27c93f"))
STYLE = (
    "text{font:13px 'DejaVu Sans','Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}"
    ".name{font-weight:bold}.small{font-size:12px}.box{fill:#f6f8fa;stroke:#656d76}"
    ".line{stroke:#afb8c1;stroke-dasharray:4 4}.arrow{stroke:#b3261e;stroke-width:1.5;fill:none}"
    ".head{fill:#b3261e}.paper{fill:#fff;stroke:#d0d7de}"
)
TERMINAL_STYLE = (
    "text{font:14px 'DejaVu Sans Mono',Consolas,Menlo,'Liberation Mono',monospace;fill:#d4d4d4;white-space:pre}"
    ".command{fill:#fff;font-weight:bold}.prompt{fill:#7ee787}"
)
# SGR codes (ECMA-48) that rich writes, as classes of the picture.
CLASSES = {1: "bold", 2: "dim", 31: "red", 32: "green", 33: "yellow", 35: "magenta", 36: "cyan"}
SCREEN_STYLE = (
    TERMINAL_STYLE + ".bold{font-weight:bold}.dim{fill:#8b949e}.red{fill:#ff7b72}.green{fill:#7ee787}"
    ".yellow{fill:#e3b341}.magenta{fill:#d2a8ff}.cyan{fill:#79c0ff}"
)
STYLED = re.compile(r"\x1b\[([0-9;]*)m|([^\x1b]+)")


def draw_diagram(source: str) -> str:
    """Return the SVG of a diagram; ValueError for an invalid line."""
    lines = [line for line in source.splitlines() if line.strip() and not line.startswith("#")]
    return _draw_lanes(lines) if lines[0].startswith("lanes:") else _draw_rows(lines)


def draw_terminal(title: str, lines: Iterable[str]) -> str:
    """Return the SVG of a terminal, narrow enough for a phone. Lines of `$ ` and of options show as typed."""
    shown = [part for line in lines for part in _fold(line)]
    width, top = COLUMNS * CHARACTER + 2 * MARGIN, 44
    body = [
        f'<rect width="{width:g}" height="{top + len(shown) * LINE + MARGIN}" rx="8" fill="#1e1e1e"/>',
        *(f'<circle cx="{x}" cy="18" r="6" fill="{colour}"/>' for x, colour in BUTTONS),
    ]
    for number, line in enumerate(shown):
        y = top + (number + 0.7) * LINE
        if line.startswith("$ "):
            body.append(_text(MARGIN, y, "$", "prompt", fixed=True))
            body.append(_text(MARGIN + 2 * CHARACTER, y, line[2:], "command", fixed=True))
        elif line.startswith("    -"):
            body.append(_text(MARGIN + 4 * CHARACTER, y, line.strip(), "command", fixed=True))
        elif line:
            indent = len(line) - len(line.lstrip())
            body.append(_text(MARGIN + indent * CHARACTER, y, line.strip(), "", fixed=True))
    return _svg(width, top + len(shown) * LINE + MARGIN, title, TERMINAL_STYLE, body)


def draw_screen(title: str, lines: Sequence[str]) -> str:
    """Return the SVG of a terminal as wide as its lines, which contain ECMA-48 colours."""
    plain = [STYLED.sub(lambda found: found[2] or "", line) for line in lines]
    width, top = max(map(_columns, plain)) * CHARACTER + 2 * MARGIN, 44
    height = top + len(lines) * LINE + MARGIN
    body = [
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#1e1e1e"/>',
        *(f'<circle cx="{x}" cy="18" r="6" fill="{colour}"/>' for x, colour in BUTTONS),
        *(part for number, line in enumerate(lines) for part in _styled(line, top + (number + 0.7) * LINE)),
    ]
    return _svg(width, height, title, SCREEN_STYLE, body)


def _styled(line: str, y: float) -> Iterator[str]:
    x, classes = float(MARGIN), ""
    for numbers, text in STYLED.findall(line):
        if not text:
            classes = " ".join(CLASSES.get(int(number), "") for number in numbers.split(";") if number).strip()
            continue
        indent = len(text) - len(text.lstrip())
        if text.strip():
            yield _text(x + indent * CHARACTER, y, text.strip(), classes, fixed=True)
        x += _columns(text) * CHARACTER


def _fold(line: str) -> list[str]:
    """Break a line at the width of the terminal."""
    return [line[start : start + COLUMNS] for start in range(0, len(line), COLUMNS)] or [""]


def _draw_lanes(lines: list[str]) -> str:
    names = [name.strip() for name in lines[0].partition(":")[2].split("|")]
    middle = {name: MARGIN + LANE * (i + 0.5) for i, name in enumerate(names)}
    body, y = [], 70.0
    for line in lines[1:]:
        head, _, words = line.partition(": ")
        start, _, end = (part.strip() for part in head.partition(" > "))
        if start not in middle or (end and end not in middle):
            raise ValueError(f"no such lane: {line}")
        texts = wrap(words, 26 if not end else max(26, int(abs(middle[end] - middle[start]) / 7)))
        height = STEP + 16 * (len(texts) - 1)
        body += _arrow_text(middle[start], middle[end], y, texts) if end else _note(middle[start], y, texts)
        y += height
    width = 2 * MARGIN + LANE * len(names)
    lanes = [f'<line class="line" x1="{x:g}" y1="48" x2="{x:g}" y2="{y:g}"/>' for x in middle.values()]
    heads = [_named_box(x, 12, LANE - 16, 36, [name]) for name, x in middle.items()]
    return _svg(width, y + MARGIN, "", STYLE, [_paper(width, y + MARGIN), *lanes, *heads, *body])


def _draw_rows(lines: list[str]) -> str:
    rows = [line.partition(":")[2].split("|") for line in lines if line.startswith("row:")]
    width = 2 * MARGIN + max(map(len, rows)) * (BOX_WIDTH + 24)
    place: dict[str, tuple[float, float]] = {}
    boxes = []
    for number, row in enumerate(rows):
        for i, cell in enumerate(row):
            name, _, words = cell.strip().partition("=")
            x = width * (i + 0.5) / len(row)
            place[name] = (x, 16 + number * ROW)
            boxes.append(_named_box(x, 16 + number * ROW, BOX_WIDTH, BOX_HEIGHT, [name, *([words] if words else [])]))
    arrows = []
    for line in lines:
        if not line.startswith("row:"):
            start, _, end = (part.strip() for part in line.partition(" > "))
            (x1, y1), (x2, y2) = place[start], place[end]
            below = y2 > y1
            arrows.append(_arrow(x1, y1 + (BOX_HEIGHT if below else 0), x2, y2 - 4 + (0 if below else BOX_HEIGHT + 8)))
    height = 32 + (len(rows) - 1) * ROW + BOX_HEIGHT
    return _svg(width, height, "", STYLE, [_paper(width, height), *arrows, *boxes])


def _arrow_text(start: float, end: float, y: float, texts: list[str]) -> list[str]:
    x = (start + end) / 2
    words = [_text(x, y + 16 * i, text, "small", middle=True) for i, text in enumerate(texts)]
    at = y + 16 * (len(texts) - 1) + 8
    return [*words, _arrow(start, at, end + (-4 if end > start else 4), at)]


def _note(x: float, y: float, texts: list[str]) -> list[str]:
    height = 16 * len(texts) + 10
    box = f'<rect class="box" x="{x - LANE / 2 + 4:g}" y="{y - 14:g}" width="{LANE - 8}" height="{height}" rx="4"/>'
    return [box, *(_text(x, y + 2 + 16 * i, text, "small", middle=True) for i, text in enumerate(texts))]


def _named_box(x: float, y: float, width: float, height: float, texts: list[str]) -> str:
    box = f'<rect class="box" x="{x - width / 2:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'
    first = y + height / 2 + 5 - 9 * (len(texts) - 1)
    classes = ["name", *["small"] * len(texts)]
    return box + "".join(_text(x, first + 18 * i, text, classes[i], middle=True) for i, text in enumerate(texts))


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path class="arrow" marker-end="url(#head)" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>'


def _text(x: float, y: float, text: str, name: str, *, middle: bool = False, fixed: bool = False) -> str:
    options = f' class="{name}"' if name else ""
    options += ' text-anchor="middle"' if middle else ""
    options += f' textLength="{_columns(text) * CHARACTER:g}"' if fixed else ""
    return f'<text x="{x:g}" y="{y:g}"{options}>{escape(text, quote=False)}</text>'


def _columns(text: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _paper(width: float, height: float) -> str:
    return f'<rect class="paper" x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="8"/>'


def _svg(width: float, height: float, title: str, style: str, body: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">\n'
        f"<style>{style}</style>\n"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="head" d="M0 0L8 4L0 8Z"/></marker></defs>\n'
    )
    named = f"<title>{escape(title)}</title>\n" if title else ""
    return head + named + "\n".join(body) + "\n</svg>\n"
