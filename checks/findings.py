"""Run the findings and print which of them still hold. Example: python checks/findings.py toil-amd-smi

Each is a script in findings/, which ends with 0 if it holds, 1 if the program behaves differently, and 77 if it could
not run. A finding that changed fails the run; one that could not run does not.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent.parent / "findings"
STATES = {0: "holds", 77: "could not run"}
# The last line of the comment on top of a script: programs with their versions, and a date.
VERSIONS = re.compile(r"^# (.+), (\d{4}-\d\d-\d\d)\.", re.MULTILINE)


def main(names: list[str]) -> int:
    """Run these findings, or all; print a table, and what each printed that does not hold."""
    scripts = [DIRECTORY / f"{name}.sh" for name in names] or find_scripts()
    width = max(len(script.stem) for script in scripts)
    is_changed = False
    for script in scripts:
        done = subprocess.run([script], capture_output=True, text=True, check=False)
        state = STATES.get(done.returncode, "changed")
        is_changed = is_changed or state == "changed"
        print(f"{script.stem:<{width}}  {state:<13}  {read_versions(script)}")
        if state != "holds":
            print(done.stdout + done.stderr)
    return 1 if is_changed else 0


def find_scripts() -> list[Path]:
    """Return the scripts of all findings by name."""
    return sorted(path for path in DIRECTORY.glob("*.sh") if path.stem != "common")


def read_versions(script: Path) -> str:
    """Return the programs with their versions, and the date, from the comment on top of a script."""
    found = VERSIONS.search(script.read_text(encoding="utf-8"))
    return f"{found[1]}, {found[2]}" if found else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
