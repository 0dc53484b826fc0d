"""Make the pictures of the documentation: `python docs/pictures.py`, or `--check` whether they are made.

docs/pictures/*.txt are diagrams as text; the terminal shows what programs print on a simulated host.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from amdgpu_discovery.simulate import build_host
from diagram import draw_diagram, draw_terminal

PICTURES = Path(__file__).parent / "pictures"
# What the first page shows; `sudo` asks nobody on a simulated host.
TYPED = (
    "amd-ctk gpu list",
    "sudo amd-ctk runtime configure",
    "amd-ctk explain -e AMD_VISIBLE_DEVICES=0-2",
    "amd-ctk explain -e AMD_VISIBLE_DEVICES=0,7",
)


def main(arguments: list[str]) -> int:
    """Write the pictures, or with --check name those that are not what text and programs say."""
    pictures = {path.with_suffix(".svg"): draw_diagram(path.read_text(encoding="utf-8")) for path in _sources()}
    pictures[PICTURES / "terminal.svg"] = draw_terminal("A terminal with amd-ctk", run_commands())
    if arguments == ["--check"]:
        stale = [path for path, text in pictures.items() if not path.exists() or path.read_text("utf-8") != text]
        for path in stale:
            print(f"docs/pictures/{path.name} is not made of what is there (run 'nox -s pictures')", file=sys.stderr)
        return 1 if stale else 0
    for path, text in pictures.items():
        path.write_text(text, encoding="utf-8")
    return 0


def run_commands() -> list[str]:
    """Return what a terminal shows of TYPED, on a simulated host with four MI210."""
    with TemporaryDirectory() as directory:
        host = build_host(f"{directory}/host", "mi210-4")
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        environment = {"PATH": path, "HOME": directory, "AMD_CTK_HOST_ROOT": host.root}
        return [line for typed in TYPED for line in (f"$ {typed}", *_run(typed, environment), "")][:-1]


def _run(typed: str, environment: dict[str, str]) -> list[str]:
    words = typed.removeprefix("sudo ").split()
    ended = subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    # That a simulated host is changed is nothing that a reader with GPUs sees.
    host = os.fsencode(environment["AMD_CTK_HOST_ROOT"])
    return [line.decode() for line in ended.stdout.splitlines() if host not in line]


def _sources() -> list[Path]:
    return sorted(PICTURES.glob("*.txt"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
