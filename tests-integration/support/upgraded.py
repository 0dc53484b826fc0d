"""A GPU server whose packages are upgraded while containers start, hooks run, and people wait for GPUs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from amdgpu_simulator import build_host

TRAFFIC = Path(__file__).with_name("traffic.py")
# Two orders for dpkg: dependencies first, and by name, which puts some packages before their dependencies.
NEEDED_FIRST = (
    *("amdgpu-discovery", "amd-device-spec", "amd-gpu-tracker"),
    *(
        "amd-gpu-images",
        "amd-gpu-sharing",
        "amdgpu-simulator",
        "amd-container-runtime",
        "amd-ctk",
        "amd-container-toolkit",
    ),
)
BY_NAME = tuple(sorted(NEEDED_FIRST))
# The GPU of a job, for which other jobs wait.
TAKEN = 7
# Started before the first upgrade, and alive through all upgrades.
BEFORE = """
export AMD_CTK_HOST_ROOT={share}/host
amd-gpu-tracker enable
amd-gpu-tracker {taken} exclusive
amd-ctk cdi generate
cp {share}/host/etc/cdi/amd.json {share}
python3 {share}/traffic.py {share} bundle kept sleep 100000
amd-container-runtime run --bundle /root/kept --detach kept >/dev/null 2>&1 </dev/null
setsid amd-ctk run --gpus={taken} -- \\
    sh -c 'until [ -e {share}/over ]; do sleep 0.1; done' >{share}/job 2>&1 </dev/null &
until amd-ctk gpu-tracker status | grep -q sh-; do sleep 0.1; done
for waiter in 1 2 3; do
    setsid sh -c "amd-ctk run --gpus={taken} --wait -- true; echo \\$?" >{share}/waiter-$waiter 2>&1 </dev/null &
done
until [ "$(amd-ctk queue list | grep -c true)" = 3 ]; do sleep 0.1; done
setsid python3 {share}/traffic.py {share} traffic >{share}/traffic.log 2>&1 </dev/null &
"""
# Waits until this many further containers were started.
WAIT = """
wanted=$(($(cat {share}/starts 2>/dev/null || echo 0) + {number}))
until [ "$(cat {share}/starts 2>/dev/null || echo 0)" -ge "$wanted" ]; do sleep 0.1; done
"""
END = """
touch {share}/stop
until [ -e {share}/seen.json ]; do sleep 0.1; done
cat {share}/seen.json
"""
# The current toolkit ends what was started before.
AFTER = """
export AMD_CTK_HOST_ROOT={share}/host
touch {share}/over
until [ "$(cat {share}/waiter-* | grep -c '^0$')" = 3 ] || ! sleep 0.1; do :; done
amd-container-runtime delete --force kept
amd-ctk gpu-tracker status
"""


def prepare(share: Path) -> None:
    """Put a simulated host and the traffic program into a directory that the system sees."""
    shutil.copy(TRAFFIC, share)
    if not (share / "host").exists():
        build_host(share / "host", "mi300x-8")


class Server:
    """A system that sees `share`, a directory of this machine, at the path `inside`; `run` runs a script there."""

    def __init__(self, run: Callable[[str], str], share: Path, inside: str) -> None:
        self.run = run
        self._share = share
        self._inside = inside
        prepare(share)

    def offer(self, debs: Iterable[Path], version: str) -> None:
        """Make the packages of a version visible in the system."""
        (self._share / version).mkdir()
        for deb in debs:
            shutil.copy(deb, self._share / version)

    def files(self, version: str, order: Iterable[str] = BY_NAME) -> str:
        """Return the packages of a version as arguments of a command."""
        return " ".join(f"{self._inside}/{version}/{name}_{version}_all.deb" for name in order)

    def dpkg(self, version: str, order: Iterable[str] = BY_NAME) -> None:
        """Install packages of a version in this order, with one call of dpkg."""
        self.run(f"dpkg --force-unsafe-io --install {self.files(version, order)}")

    def begin(self) -> None:
        """Start everything that exists before an upgrade, and the traffic during it."""
        self.run(BEFORE.format(share=self._inside, taken=TAKEN))

    @property
    def starts(self) -> int:
        """Return the number of containers started so far."""
        count = self._share / "starts"
        return int(count.read_text() or 0) if count.exists() else 0

    def wait_for_starts(self, number: int) -> None:
        """Wait until `number` further containers were started."""
        self.run(WAIT.format(share=self._inside, number=number))

    def end(self) -> dict[str, Any]:
        """End the traffic; return the actions and failures."""
        seen: dict[str, Any] = json.loads(self.run(END.format(share=self._inside)))
        return seen

    def end_what_was_before(self) -> str:
        """End the container, the job and the waiting jobs of the beginning; return the tracker's status."""
        return self.run(AFTER.format(share=self._inside))
