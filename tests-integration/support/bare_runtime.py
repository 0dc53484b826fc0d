"""Make containers without an engine, from a bundle, with amd-container-runtime in front of runc or crun."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

# crun refuses machines that mount both cgroup versions. A separate mount namespace hides version 2.
HIDE_UNIFIED = 'umount -l /sys/fs/cgroup/unified; exec "$@"'


class BareRuntime:
    """A low-level runtime behind amd-container-runtime; `run` makes a container from its own bundle and waits."""

    def __init__(self, program: Path, directory: Path, rootfs: Path, host_root: str | Path, low_level: Path) -> None:
        self.directory = directory
        self.log = directory / "log.json"
        self._rootfs = rootfs
        self._environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "AMD_CTK_HOST_ROOT": host_root}
        self._words = [*private_cgroups(low_level), program, "--root", directory / "state", "--log", self.log]
        self._low_level = low_level

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Call the runtime like an engine, and return its output."""
        command = [*map(str, self._words), "--log-format=json", *map(str, words)]
        # Files instead of pipes: the init of a created container keeps its streams open, so a pipe would never end.
        with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            ended = subprocess.run(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=180,
                check=False,
            )
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, ended.returncode, out.read(), err.read())

    def bundle(self, name: str, gpus: str, command: Sequence[str], *, user: int = 0, **linux: Any) -> Path:
        """Write a bundle that requests GPUs and runs a command; `linux` is added to that part of the spec."""
        bundle = self.directory / name
        bundle.mkdir()
        subprocess.run([self._low_level, "spec"], cwd=bundle, check=True)
        spec = json.loads((bundle / "config.json").read_text())
        spec["root"] = {"path": str(self._rootfs), "readonly": True}
        spec["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"})
        process = spec["process"]
        process |= {"terminal": False, "args": list(command), "user": {"uid": user, "gid": user}}
        process["env"].append(f"AMD_VISIBLE_DEVICES={gpus}")
        for capabilities in process["capabilities"].values():
            capabilities.append("CAP_MKNOD")
        spec["linux"] |= {"cgroupsPath": f"/amd-test-{self.directory.name}-{name}", **linux}
        (bundle / "config.json").write_text(json.dumps(spec))
        return bundle

    def run(self, gpus: str, *command: str, name: str = "c1", **options: Any) -> str:
        """Run a command in a container that requests these GPUs; return its output."""
        ended = self("run", "--bundle", self.bundle(name, gpus, command, **options), name)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


def private_cgroups(low_level: Path) -> list[str]:
    """Return the words in front of a runtime that hide cgroups from crun."""
    if low_level.name != "crun" or not Path("/sys/fs/cgroup/unified").is_mount():
        return []
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", HIDE_UNIFIED, "sh"]
