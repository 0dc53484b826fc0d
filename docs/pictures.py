"""Make the pictures of the documentation: `python docs/pictures.py`, or `--check` whether they are made.

docs/pictures/*.txt are diagrams as text; the terminal shows what README.md does, the screen what amd-ctk top does on a
simulated host at work.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from busy_host import shown_screen
from diagram import draw_diagram, draw_screen, draw_terminal

PICTURES = Path(__file__).parent / "pictures"
README = Path(__file__).parents[1] / "README.md"
# The first fence with output of the first page, which tests run.
SHOWN = re.compile(r"```console\n(\$ sudo docker run .*?)\.\.\.\n```", re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write the pictures, or with --check name those that are not what their text says."""
    pictures = {path.with_suffix(".svg"): draw_diagram(path.read_text(encoding="utf-8")) for path in _sources()}
    pictures[PICTURES / "terminal.svg"] = draw_terminal("A terminal with Docker", shown_commands())
    pictures[PICTURES / "top.svg"] = draw_screen("amd-ctk top", shown_screen())
    if arguments == ["--check"]:
        stale = [path for path, text in pictures.items() if not path.exists() or path.read_text("utf-8") != text]
        for path in stale:
            print(f"docs/pictures/{path.name} is not made of what is there (run 'nox -s pictures')", file=sys.stderr)
        return 1 if stale else 0
    for path, text in pictures.items():
        path.write_text(text, encoding="utf-8")
    return 0


def shown_commands() -> list[str]:
    """Return what the first page shows of Docker, as a terminal has it."""
    shown = SHOWN.search(README.read_text(encoding="utf-8"))
    assert shown, "README.md shows no docker run with its output"
    return shown[1].rstrip(".\n").splitlines()


def _sources() -> list[Path]:
    return sorted(PICTURES.glob("*.txt"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
