"""What goes on on a GPU server while its packages are upgraded.

`python3 traffic.py DIRECTORY traffic` starts containers and calls programs there until DIRECTORY has `stop`, and runs
the hooks that DIRECTORY/amd.json names. `starts` has how many containers it started so far; at the end `seen.json` has
how often everything was done, and what went wrong. `traffic.py DIRECTORY bundle NAME WORDS...` makes a bundle only.
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

# Of the toolkit's own programs; each is right for as long as it ends with 0 and says nothing of a trace.
COMMANDS = {
    "status": ("amd-ctk", "gpu-tracker", "status", "--wide"),
    "list": ("amd-ctk", "gpu", "list", "--json"),
    "help": ("amd-gpu-tracker", "--help"),
}
# Where bundles are made; busybox is all that is in their root file system.
BUNDLES = Path("/root")
NODE = {"path": "/dev/dri/renderD136", "type": "c", "major": 226, "minor": 136}


def main(directory: Path) -> None:
    """Do everything again and again; tell what came of it."""
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
    """Make a bundle whose container asks for GPU 0 and runs these words of busybox; return its directory."""
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
    """Counts what was done, and keeps what failed."""

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
        # What a runtime gives to hooks, of a container that lives.
        self._state = json.dumps({"ociVersion": "1.2.0", "id": "given", "pid": os.getpid(), "bundle": f"{given}"})

    def start_containers(self) -> None:
        """Start a container that ends at once, with the runtime, and run the hooks of a CDI spec, in turn."""
        while not (self._directory / "stop").exists():
            self._do("start", "amd-container-runtime", "run", "--bundle", f"{self._bundle}", "traffic")
            (self._directory / "starts").write_text(f"{self.done['start']}")
            for words in self._hooks:
                self._do("hook", *words, standard_input=self._state)

    def call_programs(self) -> None:
        """Call commands in turn."""
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
