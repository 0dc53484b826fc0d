"""Set up what benchmarks measure: the installed programs of packages, called like by engines and users."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from installation import PYTHON, install, install_with_pip
from large_host import build_large_host
from measure import Program

from amd_gpu_tracker.claims.hook_entries import requirements_hook
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host

EIGHT, PARTITIONED, TRACKED, ENABLED, LARGE = "eight", "partitioned", "tracked", "enabled", "large"

HOLD = (
    "import os; from amd_gpu_tracker import Tracker; from amdgpu_discovery.host import host_from_environment as host;"
    " Tracker(host(os.environ)).reserve('0', name='bench').release()"
)
# As on a real host, where /sys is in memory, and /run, which has the engines' bundles.
IN_MEMORY = "/dev/shm"

SPEC = (
    '{"ociVersion":"1.2.0","process":{"user":{"uid":0,"gid":0},"args":["x"],"env":["PATH=/bin"%s],"cwd":"/"},'
    '"linux":{"resources":{"devices":[{"allow":false,"access":"rwm"}]}}}'
)
# As long as Docker's; most of it are names of system calls.
SPEC_OF_DOCKER = {
    "ociVersion": "1.2.0",
    "process": {"args": ["x"], "env": [f"VARIABLE_{number}=value" for number in range(20)]},
    "linux": {"seccomp": {"syscalls": [{"names": [f"system_call_{number}" for number in range(1000)]}]}},
}


class Bench:
    """An installation on the disk, where python is too, and simulated hosts and bundles in memory."""

    def __init__(self, directory: Path, on_disk: Path, rounds: int) -> None:
        self.directory = directory
        self.rounds = rounds
        self.installed = install(on_disk)
        self.pip = install_with_pip(on_disk)
        # Otherwise the kernel would write the new files to disk during the measurements.
        os.sync()
        self.nothing = directory / "bin"
        self.nothing.mkdir()
        shutil.copy("/bin/true", self.nothing / "runc")
        profiles = {EIGHT: "mi300x-8", PARTITIONED: "mi300x-8-cpx", TRACKED: "mi300x-8", ENABLED: "mi300x-8"}
        self.hosts = {name: build_host(directory / name, profile) for name, profile in profiles.items()}
        self.hosts[LARGE] = build_large_host(directory / LARGE, 512)
        for name in (TRACKED, ENABLED, LARGE):
            Tracker(self.hosts[name]).enable()
        self.bare = Program([str(PYTHON), "-I", "-S", "-c", "pass"], {"PATH": "/usr/bin:/bin"})

    def environment(self, host: str) -> dict[str, str]:
        """Return an engine's environment on a host, with a runc that does nothing."""
        return {"PATH": f"{self.nothing}:/usr/bin:/bin", "AMD_CTK_HOST_ROOT": self.hosts[host].root}

    def program(self, name: str) -> str:
        """Return the path of an installed program."""
        return f"{self.installed}/usr/bin/{name}"

    def create(self, host: str, *request: str, container: str = "c1", program: str = "") -> Program:
        """Return a `create` of a container with this environment; its bundle is written again before each run.

        `program` is a runtime other than amd-container-runtime.
        """
        bundle = self.directory / f"bundle-{container}"
        bundle.mkdir(exist_ok=True)
        spec = SPEC % "".join(f',"{variable}"' for variable in request)

        def prepare() -> None:
            (bundle / "config.json").write_text(spec)
            forget(self.hosts[host])

        # This process is the container's init, so that containers live although their runc does nothing.
        (bundle / "pid").write_text(str(os.getpid()))
        options = ["--bundle", str(bundle), "--pid-file", str(bundle / "pid")]
        words = [program or self.program("amd-container-runtime"), "create", *options, container]
        return Program(words, self.environment(host), prepare)

    def command(self, host: str, *words: str) -> Program:
        """Return a run of an installed program, or of the program at a path."""
        program = words[0] if words[0].startswith("/") else self.program(words[0])
        return Program([program, *words[1:]], self.environment(host))

    def pip_program(self, name: str) -> str:
        """Return the path of a program that pip installed."""
        return f"{self.pip}/bin/{name}"

    def hold(self) -> Program:
        """Return a program that reserves a GPU with the packages' library and releases it at once."""
        library = f"{self.installed}/usr/lib/amd-container-toolkit/current/python"
        code = f"import sys; sys.path.insert(0, {library!r}); {HOLD}"
        return Program([str(PYTHON), "-I", "-S", "-c", code], self.environment(ENABLED))

    def shell(self, script: str) -> Program:
        """Return a shell that runs a script with the runc that does nothing in its PATH.

        What sh does is compared with this: how much longer Python takes to start than sh differs between machines.
        """
        return Program(["/bin/sh", "-c", script], {"PATH": f"{self.nothing}:/usr/bin:/bin"})

    def nothing_but_state(self) -> Program:
        """Return a call of the runc that does nothing."""
        return Program([str(self.nothing / "runc"), "state", "c1"], {"PATH": "/usr/bin:/bin"})

    def completion(self, words: str) -> Program:
        """Return bash's call for the completion of an amd-ctk command line with these words."""
        command = self.command(ENABLED, "amd-ctk")
        asked = {"_AMD_CTK_COMPLETE": "complete_bash", "COMP_WORDS": f"amd-ctk {words}"}
        environment = {**command.environment, **asked, "COMP_CWORD": str(len(words.split(" ")))}
        return Program(command.words, environment)

    def claim_hook(self) -> Program:
        """Return a run of the claim hook for a container that was given one GPU as a device."""
        # This process is the container's init, so that the container lives.
        state = self._state_of_container(os.getpid())
        return Program(self._hook_words("claim"), {}, lambda: forget(self.hosts[TRACKED]), standard_input=state)

    def release_hook(self) -> Program:
        """Return a run of the release hook for the same container, which has ended but still has its lease."""
        state = self._state_of_container(0)
        ended = subprocess.Popen(["/bin/true"])
        ended.wait()
        leases = self.hosts[TRACKED].path("/run/amd-container-toolkit/leases")
        self.claim_hook().run()
        (lease,) = Path(leases).glob("c9@*.json")
        content = lease.read_text(encoding="utf-8").replace(f'"pid":{os.getpid()},', f'"pid":{ended.pid},')
        library = f"{self.installed}/usr/lib/amd-container-toolkit/python"
        words = ["/bin/sh", f"{library}/amd_gpu_tracker/release.sh", leases, *self._hook_words("release")]
        return Program(words, {}, lambda: lease.write_text(content, encoding="utf-8"), standard_input=state)

    def requirements_hook(self) -> Program:
        """Return a run of the hook that checks an image's requirements, for an image without any."""
        bundle = self.directory / "started"
        bundle.mkdir(exist_ok=True)
        (bundle / "config.json").write_text(json.dumps(SPEC_OF_DOCKER))
        words = requirements_hook(self.hosts[EIGHT])["args"]
        # Runtimes run hooks in the bundle.
        return Program(words, {}, lambda: os.chdir(bundle))

    def _state_of_container(self, pid: int) -> str:
        """Write the state that a runtime passes to hooks; return its path."""
        bundle = self.directory / "given"
        bundle.mkdir(exist_ok=True)
        devices = [{"path": "/dev/dri/renderD128", "type": "c", "major": 226, "minor": 128}]
        namespaces = [{"type": "pid"}]
        (bundle / "config.json").write_text(json.dumps({"linux": {"devices": devices, "namespaces": namespaces}}))
        state = bundle / f"state-{pid}.json"
        state.write_text(json.dumps({"ociVersion": "1.2.0", "id": "c9", "pid": pid, "bundle": str(bundle)}))
        return str(state)

    def _hook_words(self, command: str) -> list[str]:
        library = f"{self.installed}/usr/lib/amd-container-toolkit"
        words = [f"{library}/python3", "-I", "-S", "-B", f"{library}/python/amd_gpu_tracker/hook.py", command]
        return [*words, "--import-from", f"{library}/python", "--host-root", self.hosts[TRACKED].root]


def forget(host: Host) -> None:
    """Remove what earlier runs left with the tracker; all their containers have ended."""
    for directory in ("/run/amd-container-toolkit/leases", "/var/lib/amd-container-toolkit/history/open"):
        for file in Path(host.path(directory)).glob("*"):
            file.unlink()
