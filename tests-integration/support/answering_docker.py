"""A node of Docker Swarm whose docker command answers what a test has written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amdgpu_discovery.host import Host

DEFAULT_IS_AMD = {"default-runtime": "amd", "runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}}}
DOCKER = """#!/bin/sh
# Write down what it is asked, and answer what stands in the file of that name.
printf '%s\\n' "$*" >> calls
answer=$(printf '%s' "$*" | tr -c 'a-zA-Z0-9_-' '_')
cat "$answer" 2>/dev/null || { echo "no answer for $*" >&2; exit 1; }
"""


class Node:
    """A node whose docker command is a stand-in."""

    def __init__(self, host: Host, directory: Path, run: Callable[..., Any]) -> None:
        self.host = host
        self.directory = directory
        self._run = run
        directory.mkdir()
        (directory / "docker").write_text(
            DOCKER.replace("calls", f"{directory}/calls").replace('"$answer"', f'"{directory}/$answer"')
        )
        (directory / "docker").chmod(0o755)
        for name in ("printf", "tr", "cat", "sh"):
            (directory / name).symlink_to(shutil.which(name) or name)
        Path(host.path("/etc/hostname")).write_text("gpu-node\n")
        self.daemon_json = Path(host.path("/etc/docker/daemon.json"))

    def __call__(self, *words: str) -> Any:
        return self._run("swarm", *words, PATH=str(self.directory), DOCKER_HOST="unix:///nowhere")

    def configure(self, **settings: object) -> None:
        self.daemon_json.parent.mkdir(parents=True, exist_ok=True)
        self.daemon_json.write_text(json.dumps({key.replace("_", "-"): value for key, value in settings.items()}))

    def answer(self, words: str, text: object) -> None:
        name = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in words)
        (self.directory / name).write_text(text if isinstance(text, str) else json.dumps(text))

    @property
    def offered(self) -> list[str]:
        resources: list[str] = json.loads(self.daemon_json.read_text()).get("node-generic-resources", [])
        return resources

    @property
    def calls(self) -> list[str]:
        path = self.directory / "calls"
        return path.read_text().splitlines() if path.exists() else []
