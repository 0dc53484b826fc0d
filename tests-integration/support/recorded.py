"""A box whose engine makes no containers but records their config.json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.cdi_engines import DockerInBox, PodmanInBox
from support.odd_env_files import TEXT_BY_PATH
from support.recorder import AMD_RUNTIME, RECORDER
from support.run_lines import CALLER, ENV_FILE_TEXT, IMAGE, IMAGE_VARIABLES, NAME_OF_TWO_FILES

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from support.box import Box

# Each engine's Debian release.
ENGINES = {
    "docker-20": ("bookworm", "docker"),
    "docker-26": ("trixie", "docker"),
    "docker-28": ("forky", "docker"),
    "podman-4.3": ("bookworm", "podman"),
    "podman-5.4": ("trixie", "podman"),
    "podman-5.8": ("forky", "podman"),
}
RUN = ("run", "--rm", "--network=none")
# Docker makes missing directories of volumes, which another engine on the same machine would find.
MADE_BY_DOCKER = ("/dev/nosuch", "/dri")


class Recorded:
    """A box with an engine whose default runtime keeps config.json and makes no container."""

    def __init__(self, box: Box, engine: str) -> None:
        self.box = box
        self.engine = engine
        box.write("/box/recorder", RECORDER.encode())
        box("chmod", "755", "/box/recorder")
        box("rm", "-rf", *MADE_BY_DOCKER)
        box.write("/box/variables", ENV_FILE_TEXT.encode())
        for path, text in TEXT_BY_PATH.items():
            box.write(path, text)
        for name in ("one", "two"):
            box.write(f"/etc/cdi/{name}.json", NAME_OF_TWO_FILES.encode())
        box("amd-ctk", "config", "set", "low-level-runtime", "/box/recorder")
        runtimes = {"amd": {"path": AMD_RUNTIME}, "recorder": {"path": "/box/recorder"}}
        settings: dict[str, Any] = {"runtimes": runtimes, "default-runtime": "recorder"}
        made = DockerInBox(box, **settings) if engine == "docker" else PodmanInBox(box)
        changes = [f"--change=ENV {variable}" for variable in IMAGE_VARIABLES]
        self.words = ["docker"] if isinstance(made, DockerInBox) else made.words[:-1]
        box(*self.words, "import", *changes, '--change=CMD ["sh"]', "/box/image.tar", IMAGE)

    def command(self, words: tuple[str, ...], before: tuple[str, ...] = (), *, with_runtime: bool = True) -> list[str]:
        """Return the whole command that makes the engine create a container."""
        if self.engine == "docker":
            return [*self.words, *before, *RUN, *(["--runtime=amd"] if with_runtime else []), *words]
        runtime = AMD_RUNTIME if with_runtime else "/box/recorder"
        return [*self.words, f"--runtime={runtime}", *before, *RUN, *words]

    def ask_engine(self, command: list[str], *, with_caller: bool) -> tuple[dict[str, Any] | None, str]:
        """Return the config.json that results from a command, None if there is none, and the engine's errors."""
        self.box("rm", "-f", "/box/recorded.json")
        ended = self._call(with_caller, *command)
        spec = self.box("cat", "/box/recorded.json", check=False).stdout
        return (json.loads(spec) if spec else None), ended.stderr

    def ask_explain(self, command: list[str], *, with_caller: bool) -> dict[str, Any]:
        """Return explain's output for a command."""
        explained = self._call(with_caller, "amd-ctk", "explain", "--json", "--", *command)
        assert explained.stdout, explained.stderr
        found: dict[str, Any] = json.loads(explained.stdout)
        return found

    def _call(self, with_caller: bool, *words: str) -> CompletedProcess[str]:
        environment = [f"{name}={value}" for name, value in CALLER.items()] if with_caller else []
        # Docker 28 may wait for a container that did not start.
        return self.box("timeout", "--signal=KILL", "60", "env", *environment, *words, check=False)
