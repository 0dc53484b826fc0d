"""Hosts with the GPU Tracker's state of AMD's toolkit 1.x, and a script that sees what installed programs make of it.

A cell is a state of the file, a driver that is there, absent, or loaded later, and what is the first event.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

from amdgpu_simulator import build_host

UUIDS = ("0xEA35F57CC80DEB35", "0x89CAA15875FF5A43", "0x6E32F10EFC982B4C", "0x12FE4F7FDAF06B9")
# GPU 1 is exclusive.
WHOLE = json.dumps(
    {
        "enabled": True,
        "gpusStatus": {
            str(number): {"uuid": uuid, "partitionType": "", "accessibility": int(number == 1), "containerIds": []}
            for number, uuid in enumerate(UUIDS)
        },
        "gpusInfo": {},
    }
)
STATES = {"whole": WHOLE, "cut": WHOLE[: len(WHOLE) // 2], "empty": "", "absent": None}
DRIVERS = ("there", "absent", "later")
# `boot` is what packages call when they are installed and when the host starts.
EVENTS = ("boot", "start", "command")

# $1: a directory of hosts by cell, $2: one for bundles. Prints of each cell what became of two containers that asked
# for GPU 1 one after the other, and what doctor finds.
SCRIPT = r"""
cells=$1 bundles=$2
for gpu in 0 1; do
    mkdir -p "$bundles/$gpu/rootfs/bin"
    cp "$(command -v busybox)" "$bundles/$gpu/rootfs/bin/"
    (cd "$bundles/$gpu" && runc spec && jq --arg gpu "$gpu" '.process.env += ["AMD_VISIBLE_DEVICES=" + $gpu]
        | .process.args = ["/bin/busybox", "sleep", "100"] | .process.terminal = false' config.json >new)
done
start() {
    cp "$bundles/$1/new" "$bundles/$1/config.json"
    if amd-container-runtime run --detach --bundle "$bundles/$1" "$2" >/dev/null 2>&1; then printf ' given'; else
        printf ' refused'; fi
}
for host in "$cells"/*; do
    cell=${host##*/} event=${host##*-}
    export AMD_CTK_HOST_ROOT="$host"
    case $cell in *-there-*) ;; *) mv "$host/sys" "$host/sys.away" ;; esac
    case $event in
        boot) amd-gpu-tracker init ;;
        start) start 0 "other-$cell" ;;
        command) amd-gpu-tracker status ;;
    esac >/dev/null 2>&1
    case $cell in *-later-*) mv "$host/sys.away" "$host/sys" ;; esac
    printf '%s' "$cell"
    start 1 "first-$cell"
    start 1 "second-$cell"
    printf ' %s\n' "$(amd-ctk doctor --only=tracker --json 2>/dev/null | jq --raw-output '.checks[].state')"
    for container in "other-$cell" "first-$cell" "second-$cell"; do
        amd-container-runtime delete --force "$container" >/dev/null 2>&1
    done
done
"""

OUTCOMES = {
    ("whole", "there"): "given refused ok",
    ("whole", "later"): "given refused ok",
    ("cut", "there"): "refused refused bad",
    ("cut", "later"): "refused refused bad",
    ("empty", "there"): "refused refused bad",
    ("empty", "later"): "refused refused bad",
    ("absent", "there"): "given given ok",
    ("absent", "later"): "given given ok",
    # No container gets a GPU, and the state is taken over when there are some.
    ("whole", "absent"): "refused refused note",
    ("cut", "absent"): "refused refused not checked",
    ("empty", "absent"): "refused refused not checked",
    ("absent", "absent"): "refused refused ok",
}
# A start ends before it asks the tracker, so nothing has read the state.
UNREAD = {f"{state}-absent-start": "refused refused note" for state in ("cut", "empty")}


def look(build_in: Path, seen_as: str, run: Callable[[str], str]) -> dict[str, str]:
    """Build a host for each cell, run the script where the toolkit is installed, and return what became of each."""
    _build_cells(build_in)
    return _parse(run(f"sh -s {seen_as} $(mktemp -d) <<'END'\n{SCRIPT}\nEND"))


def _build_cells(directory: Path) -> None:
    for state, driver, event in product(STATES, DRIVERS, EVENTS):
        host = directory / f"{state}-{driver}-{event}"
        build_host(host, "mi210-4")
        content = STATES[state]
        if content is not None:
            (host / "var/log").mkdir(parents=True, exist_ok=True)
            (host / "var/log/gpu-tracker.json").write_text(content, encoding="utf-8")


def expected() -> dict[str, str]:
    """Return what has to become of each cell."""
    cells = {f"{s}-{d}-{event}": OUTCOMES[s, d] for s, d, event in product(STATES, DRIVERS, EVENTS)}
    return {**cells, **UNREAD}


def _parse(printed: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in printed.splitlines() if line.count(" ") >= 3)
