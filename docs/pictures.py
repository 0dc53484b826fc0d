"""Make the pictures of the documentation: `python docs/pictures.py`, or `--check` to compare them.

docs/pictures/*.txt are diagrams as text. The terminal shows the commands of README.md, and the screen shows amd-ctk top
on a simulated host with load.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from busy_host import shown_screen
from diagram import draw_diagram, draw_screen, draw_terminal

PICTURES = Path(__file__).parent / "pictures"
README = Path(__file__).parents[1] / "README.md"
# The first example with output in README.md; tests run it.
SHOWN = re.compile(r"```console\n(\$ sudo docker run .*?)\.\.\.\n```", re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write the pictures, or with --check print those that differ from their sources."""
    pictures = {path.with_suffix(".svg"): draw_diagram(path.read_text(encoding="utf-8")) for path in _sources()}
    pictures[PICTURES / "terminal.svg"] = draw_terminal("A terminal with Docker", shown_commands())
    pictures[PICTURES / "top.svg"] = draw_screen("amd-ctk top", shown_screen())
    if arguments == ["--check"]:
        stale = [path for path, text in pictures.items() if not path.exists() or path.read_text("utf-8") != text]
        for path in stale:
            print(f"docs/pictures/{path.name} is out of date (run 'nox -s pictures')", file=sys.stderr)
        return 1 if stale else 0
    for path, text in pictures.items():
        path.write_text(text, encoding="utf-8")
    return 0


def shown_commands() -> list[str]:
    """Return the Docker commands and output in README.md as lines of a terminal."""
    shown = SHOWN.search(README.read_text(encoding="utf-8"))
    assert shown, "README.md shows no docker run with its output"
    return shown[1].rstrip(".\n").splitlines()


def _sources() -> list[Path]:
    return sorted(PICTURES.glob("*.txt"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
