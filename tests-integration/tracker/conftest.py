"""An engine that calls the runtime as containerd does, on four simulated MI210, with containers that live."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from support.installed import our_program
from support.simulated import run_amd_ctk
from support.stand_in_runc import install


class Engine:
    """Makes containers by way of `amd-container-runtime`, or of the stand-in runc alone."""

    def __init__(self, directory: Path, host_root: str) -> None:
        self.directory = directory
        self.root = directory / "state"
        self.bundles = directory / "bundles"
        (directory / "bin").mkdir(parents=True)
        self.runc = install(directory / "bin", directory / "calls.jsonl")
        self.amd = our_program("amd-container-runtime")
        self.environment = {
            "PATH": f"{directory / 'bin'}:/usr/bin:/bin",
            "AMD_CTK_HOST_ROOT": host_root,
            "HOME": str(directory),
            "COLUMNS": "120",
        }

    def ctk(self, *words: str) -> str:
        """Run amd-ctk and return all it prints."""
        return run_amd_ctk(self.environment["AMD_CTK_HOST_ROOT"], *words, environment=self.environment)

    def prepare(self, container_id: str, gpus: str | None, **spec: object) -> Path:
        """Write the bundle of a container that asks for these GPUs by environment."""
        bundle = self.bundles / container_id
        bundle.mkdir(parents=True, exist_ok=True)
        environment = [] if gpus is None else [f"AMD_VISIBLE_DEVICES={gpus}"]
        config = {
            "ociVersion": "1.2.0",
            "process": {"args": ["bash"], "env": environment},
            "linux": {"namespaces": [{"type": "pid"}]},
            **spec,
        }
        (bundle / "config.json").write_text(json.dumps(config))
        return bundle

    def call(self, *words: object, runtime: Path | None = None, log: Path | None = None) -> subprocess.Popen[bytes]:
        """Start the runtime as containerd's shim does."""
        options = ["--root", self.root, *(["--log", log, "--log-format", "json"] if log else [])]
        return subprocess.Popen(
            [str(word) for word in (runtime or self.amd, *options, *words)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def create(self, container_id: str, runtime: Path | None = None) -> subprocess.Popen[bytes]:
        bundle = self.bundles / container_id
        return self.call(
            *("create", "--bundle", bundle, "--pid-file", bundle / "init.pid", container_id),
            runtime=runtime,
            log=bundle / "log.json",
        )

    def run(self, container_id: str, gpus: str | None, *, runtime: Path | None = None, **spec: object) -> str:
        """Create and start a container; return "" or what the engine is told when that fails."""
        self.prepare(container_id, gpus, **spec)
        return self.start(container_id, runtime)

    def start(self, container_id: str, runtime: Path | None = None) -> str:
        bundle = self.bundles / container_id
        (bundle / "log.json").unlink(missing_ok=True)
        if self.create(container_id, runtime).wait() != 0:
            told = [json.loads(line)["msg"] for line in (bundle / "log.json").read_text().splitlines()]
            self.call("delete", "--force", container_id, runtime=runtime).wait()
            return told[-1]
        assert self.call("start", container_id, runtime=runtime).wait() == 0
        return ""

    def remove(self, container_id: str, runtime: Path | None = None) -> None:
        """End a container as `docker rm -f` does."""
        for words in (("kill", container_id, "9"), ("delete", "--force", container_id)):
            self.call(*words, runtime=runtime).wait()

    def init_of(self, container_id: str) -> int:
        return int((self.bundles / container_id / "init.pid").read_text())

    def leases(self) -> list[str]:
        directory = Path(self.environment["AMD_CTK_HOST_ROOT"], "run/amd-container-toolkit/leases")
        return sorted(path.name.partition("@")[0] for path in directory.iterdir()) if directory.is_dir() else []

    def users(self) -> dict[int, list[str]]:
        status = json.loads(self.ctk("gpu-tracker", "status", "--json"))
        return {gpu["number"]: [use["container_id"] for use in gpu["containers"]] for gpu in status["gpus"]}

    def kill_all(self) -> None:
        for pid_file in self.bundles.glob("*/init.pid"):
            pid = int(pid_file.read_text() or 0)
            words = Path(f"/proc/{pid}/cmdline")
            if pid > 1 and words.exists() and words.read_bytes().startswith(b"sleep\0"):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def engine_on(tmp_path):
    """Return a function that makes an engine on a host of any profile."""
    made = []

    def make(profile: str) -> Engine:
        engine = Engine(tmp_path / "engine", build_host(tmp_path / "host", profile, bare=True).root)
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.kill_all()


@pytest.fixture
def engine(engine_on) -> Engine:
    """Return an engine on four MI210."""
    return engine_on("mi210-4")
