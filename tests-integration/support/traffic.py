"""Activity on a GPU server while its packages are upgraded.

`python3 traffic.py DIRECTORY traffic` starts containers, calls programs, and runs the hooks in DIRECTORY/amd.json until
DIRECTORY contains `stop`. The file `starts` has the number of containers started so far. At the end, `seen.json` has
the number of actions of each kind, and the failures. `traffic.py DIRECTORY bundle NAME WORDS...` only makes a bundle.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

# Calls of the toolkit's programs. Each succeeds if it exits with 0 and prints no traceback.
COMMANDS = {
    "status": ("amd-ctk", "gpu-tracker", "status", "--wide"),
    "list": ("amd-ctk", "gpu", "list", "--json"),
    "help": ("amd-gpu-tracker", "--help"),
}
# The directory of bundles; their root file systems contain only busybox.
BUNDLES = Path("/root")
NODE = {"path": "/dev/dri/renderD136", "type": "c", "major": 226, "minor": 136}


def main(directory: Path) -> None:
    """Repeat all actions until stopped, and write the results."""
    traffic = Traffic(directory)
    doers = [threading.Thread(target=does) for does in (traffic.start_containers, traffic.call_programs)]
    for doer in doers:
        doer.start()
    for doer in doers:
        doer.join()
    seen = {"done": traffic.done, "failures": traffic.failures}
    (directory / "seen.json.new").write_text(f"{json.dumps(seen)}\n")
    (directory / "seen.json.new").rename(directory / "seen.json")


def make_bundle(name: str, *words: str) -> Path:
    """Make a bundle whose container requests GPU 0 and runs these words of busybox; return its directory."""
    bundle = BUNDLES / name
    (bundle / "rootfs/bin").mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/busybox", bundle / "rootfs/bin/busybox")
    (bundle / "config.json").unlink(missing_ok=True)
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    config = json.loads((bundle / "config.json").read_text())
    config["process"] |= {"terminal": False, "args": ["/bin/busybox", *words]}
    config["process"]["env"].append("AMD_VISIBLE_DEVICES=0")
    (bundle / "config.json").write_text(json.dumps(config))
    return bundle


class Traffic:
    """Counts the actions, and keeps the failures."""

    def __init__(self, directory: Path) -> None:
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self._directory = directory
        self._bundle = make_bundle("traffic", "true")
        edits = json.loads((directory / "amd.json").read_text())["containerEdits"]
        self._hooks = [hook["args"] for hook in edits["hooks"]]
        given = make_bundle("given", "true")
        config = json.loads((given / "config.json").read_text())
        config["linux"]["devices"] = [NODE]
        (given / "config.json").write_text(json.dumps(config))
        # The state that a runtime passes to hooks, for a living container.
        self._state = json.dumps({"ociVersion": "1.2.0", "id": "given", "pid": os.getpid(), "bundle": f"{given}"})

    def start_containers(self) -> None:
        """In turn, start a container that ends at once with the runtime, and run the hooks of a CDI spec."""
        while not (self._directory / "stop").exists():
            self._do("start", "amd-container-runtime", "run", "--bundle", f"{self._bundle}", "traffic")
            (self._directory / "starts").write_text(f"{self.done['start']}")
            for words in self._hooks:
                self._do("hook", *words, standard_input=self._state)

    def call_programs(self) -> None:
        """Call the commands in turn."""
        while not (self._directory / "stop").exists():
            for name, words in COMMANDS.items():
                self._do(name, *words)

    def _do(self, kind: str, *words: str, standard_input: str = "") -> None:
        try:
            ended = subprocess.run(words, input=standard_input, capture_output=True, text=True, check=False)
            said = ended.stdout[-300:] + ended.stderr[-1500:]
            failed = ended.returncode != 0 or "Traceback" in said or "MIXED" in said
        except OSError as error:
            failed, said = True, f"{error}"
        self.done[kind] += 1
        if failed:
            self.failures.append(f"{kind}: {said[-600:]}")


if __name__ == "__main__":
    if sys.argv[2] == "bundle":
        make_bundle(*sys.argv[3:])
    else:
        main(Path(sys.argv[1]))
