"""Show the main job where no container can be started: all but runc is real, on a simulated server.

An engine gives amd-container-runtime a bundle, the runtime edits its config.json, and runc makes the container. Here a
stand-in takes runc's place: it makes no container, only a process that sleeps.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from amdgpu_discovery.choices.selection import select_gpus
from amdgpu_discovery.discover import find_gpus
from amdgpu_simulator import build_host
from support.installed import our_program
from support.interrupts import Interrupts
from support.stand_in_runc import install

PROFILE = "mi300x-8"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The rows of the table, and where config.json has what they count.
ROWS = (
    ("device nodes", ("linux", "devices")),
    ("rules of the device cgroup", ("linux", "resources", "devices")),
    ("groups", ("process", "user", "additionalGids")),
    ("hooks", ("hooks", "poststop")),
)
# Lines: the request, and a table with three GPUs.
SHOWN_EXPLANATION = 5


class BundleDemo:
    """One run below a directory, on a simulated host of its own."""

    def __init__(self, directory: Path, interrupts: Interrupts) -> None:
        self._directory = directory
        self._interrupts = interrupts
        self._print = interrupts.print
        self._made: list[str] = []
        programs = directory / "programs"
        programs.mkdir()
        install(programs, directory / "calls-of-runc")
        self._host = build_host(directory / "server", PROFILE)
        own = our_program("amd-ctk").parent
        self._environment = {"PATH": f"{own}:{programs}:{SYSTEM_PATH}", "AMD_CTK_HOST_ROOT": self._host.root}

    def run(self, requests: list[str]) -> int:
        """Show the edits for these requests, or for a few GPUs and all else; 0 if all was right. RequestError."""
        for request in requests:
            select_gpus(find_gpus(self._host), request)
        self._print(
            "Shown instead: all but runc, for real, on a SIMULATED server with eight MI300X. In the place of runc\n"
            "stands a script that makes a process that sleeps, and no container:\n"
            "tests-integration/support/stand_in_runc.py."
        )
        try:
            shown = [self._show_edit(f"demo-{number}", text) for number, text in enumerate(requests)]
            return 0 if all(shown or self._show_all()) else 1
        finally:
            self._remove_containers()

    def _show_all(self) -> list[bool]:
        """Show everything; return for each part whether it was right."""
        return [
            self._show_edit("demo", "0-2"),
            not self._show_edit("beyond", "8"),
            self._show_explanation(),
            self._show_cdi(),
            self._show_exclusive(),
            self._show_doctor(),
        ]

    def _show_edit(self, name: str, request: str) -> bool:
        """Let the runtime create a container that asks for these GPUs; return whether it did."""
        self._interrupts.check()
        self._print(f"\nThe engine starts a container with AMD_VISIBLE_DEVICES={request}, and calls the runtime:")
        bundle = self._make_bundle(name, request)
        before = _read(bundle)
        created = self._create(name, bundle)
        if created:
            self._print(format_edit(before, _read(bundle)))
        return created

    def _show_explanation(self) -> bool:
        self._print("\nThe same, asked before anything starts:")
        self._run("runtime", "configure", "--no-validate", is_shown=False)
        words = ("docker", "run", "--runtime=amd", "-e", "AMD_VISIBLE_DEVICES=0-2", "ubuntu")
        return self._run("explain", *words, most=SHOWN_EXPLANATION)

    def _show_cdi(self) -> bool:
        self._print("\nFor Podman, and for Docker with --device amd.com/gpu=0, a CDI spec:")
        return self._run("cdi", "generate") and self._run("cdi", "validate")

    def _show_exclusive(self) -> bool:
        """Let a container have GPU 0 alone, and another one ask for it; return whether that one was refused."""
        self._print("\nA GPU for one container at a time:")
        self._run("gpu-tracker", "enable", is_shown=False)
        if not self._run("gpu-tracker", "0", "exclusive"):
            return False
        first = self._create("train", self._make_bundle("train", "0"))
        return first and not self._create("eval", self._make_bundle("eval", "0"))

    def _show_doctor(self) -> bool:
        self._print("\nWhat is wrong with this server?")
        ended = self._call("amd-ctk", "doctor")
        self._print(f"$ amd-ctk doctor | tail -n 1\n{ended.stdout.rstrip().splitlines()[-1]}")
        return "Traceback" not in ended.stderr

    def _make_bundle(self, name: str, request: str) -> Path:
        bundle = self._directory / name
        (bundle / "rootfs").mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps(spec_of_engine(request)), encoding="utf-8")
        return bundle

    def _create(self, name: str, bundle: Path) -> bool:
        """Call the runtime as engines do, with a log that they read; return whether it made a container."""
        log = bundle / "log.json"
        self._made.append(name)
        words = (
            "--root",
            "state",
            "--log",
            f"{name}/log.json",
            "--log-format",
            "json",
            "create",
            "--bundle",
            name,
            name,
        )
        self._print(f"$ amd-container-runtime create --bundle {name} {name}")
        ended = self._call("amd-container-runtime", *words)
        if ended.returncode:
            lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            self._print(f"refused, in the log that the engine shows: {lines[-1]['msg']}")
        return ended.returncode == 0

    def _run(self, *words: str, is_shown: bool = True, most: int | None = None) -> bool:
        """Run amd-ctk, print its command line and output, and return whether it succeeded."""
        self._interrupts.check()
        ended = self._call("amd-ctk", *words)
        if is_shown:
            lines = ended.stdout.rstrip().splitlines()[:most]
            self._print("\n".join((f"$ amd-ctk {shlex.join(words)}", *lines)))
        return ended.returncode == 0

    def _call(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [our_program(program), *words],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _remove_containers(self) -> None:
        for name in self._made:
            self._call("amd-container-runtime", "--root", "state", "delete", "--force", name)


def spec_of_engine(request: str) -> dict[str, Any]:
    """Return what an engine writes into config.json, as far as the runtime reads it."""
    rules = [{"allow": False, "access": "rwm"}]
    return {
        "ociVersion": "1.1.0",
        "process": {
            "args": ["rocm-smi"],
            "cwd": "/",
            "env": [f"PATH={os.defpath}", f"AMD_VISIBLE_DEVICES={request}"],
            "user": {"uid": 1000, "gid": 1000},
        },
        "root": {"path": "rootfs"},
        "linux": {"devices": [], "resources": {"devices": rules}, "namespaces": [{"type": "mount"}]},
    }


def format_edit(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Format a table of what the runtime added to config.json, and the nodes."""
    rows = [("config.json", "before", "after")]
    rows += [(name, str(len(_part(before, path))), str(len(_part(after, path)))) for name, path in ROWS]
    width = max(len(name) for name, _, _ in rows)
    lines = [f"  {name:{width}}  {old:>6}  {new:>6}".rstrip() for name, old, new in rows]
    nodes = [node["path"] for node in _part(after, ROWS[0][1])]
    return "\n".join((*lines, "  " + " ".join(nodes)))


def _part(spec: dict[str, Any], path: tuple[str, ...]) -> list[Any]:
    part: Any = spec
    for key in path:
        part = part.get(key) or {}
    return part or []


def _read(bundle: Path) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads((bundle / "config.json").read_text(encoding="utf-8"))
    return spec
