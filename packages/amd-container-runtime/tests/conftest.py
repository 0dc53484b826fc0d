"""A simulated host, a bundle, and a runc that only says what it was told."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from amd_device_spec.settings import COMPILED_FILE, CONFIG_FILE, format_compiled, stamp
from amdgpu_simulator import build_host

RUNC = """#!/bin/sh
printf '%s\\n' "$0" "$@" > "$RUNC_CALLS"
exit "${RUNC_EXIT:-0}"
"""


# Of the sources: an editable installation has a copy of some earlier day.
SCRIPT = os.path.join(os.path.dirname(__file__), "../src/scripts/amd-container-runtime")
SAYS_WHO = "#!/bin/sh\nprintf '%s\\0' {name} \"$@\"\n"


class Runtime:
    """Runs amd-container-runtime as engines do: a process, a command line, an environment, files."""

    def __init__(self, directory, host):
        self.host = host
        self.bundle = directory / "bundle"
        self.bundle.mkdir()
        self.root = directory / "state"
        self.calls = directory / "runc-calls"
        self.log = directory / "log.json"
        programs = directory / "bin"
        programs.mkdir()
        self.runc = programs / "runc"
        self.runc.write_text(RUNC)
        self.runc.chmod(0o755)
        self.environment = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "AMD_CTK_HOST_ROOT": host.root,
            "RUNC_CALLS": str(self.calls),
            "HOME": str(directory),
        }

    def write_config(self, *variables, **spec):
        self.write_spec({"ociVersion": "1.2.0", "process": {"args": ["sh"], "env": ["PATH=/bin", *variables]}, **spec})

    def write_spec(self, spec):
        (self.bundle / "config.json").write_text(json.dumps(spec, indent=1))

    def configure(self, **values):
        """Set what an administrator sets, in both of its forms; the keys of the file have dashes."""
        keys = {name.replace("_", "-"): value for name, value in values.items()}
        os.makedirs(os.path.dirname(self.host.path(CONFIG_FILE)), exist_ok=True)
        with open(self.host.path(CONFIG_FILE), "w", encoding="utf-8") as file:
            file.writelines(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        compiled = format_compiled(keys, stamp(os.stat(self.host.path(CONFIG_FILE))))
        with open(self.host.path(COMPILED_FILE), "wb") as file:
            file.write(compiled)

    @property
    def config(self):
        return json.loads((self.bundle / "config.json").read_bytes())

    def run(self, *words, cwd=None, under=(), **environment):
        return subprocess.run(
            [
                *under,
                sys.executable,
                "-I",
                "-c",
                "from amd_container_runtime.shim import main; main()",
                *map(str, words),
            ],
            cwd=cwd,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def create(self, **environment):
        return self.run(
            "--log", self.log, "--log-format", "json", "create", "--bundle", self.bundle, "c1", **environment
        )

    def create_by_systemd(self):
        """Create the container as an engine does that has systemd make its cgroup."""
        return self.run(
            *("--log", self.log, "--log-format", "json", "--systemd-cgroup"), "create", "--bundle", self.bundle, "c1"
        )

    def create_below(self, **environment):
        """Create the container as an engine does that keeps its runtime's state in a directory of its own."""
        return self.run("--root", self.root, "create", "--bundle", self.bundle, "c1", **environment)

    def leases(self):
        return sorted(Path(self.host.path("/run/amd-container-toolkit/leases")).glob("*.json"))

    @property
    def runc_words(self):
        """What runc was told, None where it was not called."""
        return self.calls.read_text().splitlines()[1:] if self.calls.exists() else None

    @property
    def reported(self):
        """What the engine finds in its --log file."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def own_log(self):
        """The lines of the administrator's log without their times and ends, which all name the simulated host."""
        path = self.host.path("/var/log/amd-container-runtime.log")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            lines = [line.split(" ", 1)[1] for line in file]
        end = f" host_root={self.host.root}\n"
        assert all(line.endswith(end) for line in lines)
        return [line.removesuffix(end) for line in lines]

    def paths(self):
        """The device nodes the container would get."""
        return [device["path"] for device in self.config.get("linux", {}).get("devices", [])]

    def files(self):
        return sorted(entry.name for entry in self.bundle.iterdir())


class Launcher:
    """An installation as pip makes it, with programs that only say who they are and what they were told."""

    def __init__(self, root):
        self.root = root
        self.bin = root / "venv/bin"
        self.bin.mkdir(parents=True)
        shutil.copy(SCRIPT, self.bin)
        self.path = self.bin / "amd-container-runtime"
        self.entry = root / "venv/lib/python3.11/site-packages/amd_container_runtime/shim.py"
        self.entry.parent.mkdir(parents=True)
        self.entry.touch()
        self.programs = root / "programs"
        self.programs.mkdir()
        for program, name in ((self.bin / "python3.11", "python"), (self.programs / "runc", "runc")):
            self.add_program(program, name)
        self.host = root / "host"
        (self.host / "etc/amd-container-toolkit").mkdir(parents=True)
        self.bundle = root / "bundle"
        self.bundle.mkdir()
        self.environment = {"PATH": f"{self.programs}:/usr/bin:/bin", "AMD_CTK_HOST_ROOT": str(self.host)}

    def add_program(self, path, name):
        path.write_text(SAYS_WHO.format(name=name))
        path.chmod(0o755)

    def config(self, text):
        (self.bundle / "config.json").write_text(text)

    def settings(self, text):
        (self.host / "etc/amd-container-toolkit/config.toml").write_text(text)

    def run(self, *words, shell=None, **environment):
        """Return who got the call and what it was told."""
        answer = subprocess.run(
            [*([shell, *(["sh"] if shell.endswith("busybox") else [])] if shell else []), str(self.path), *words],
            cwd=self.bundle,
            env={**self.environment, **environment},
            capture_output=True,
            check=True,
        )
        assert answer.stderr == b""
        # Not as text, in which a carriage return becomes a newline.
        who, *told = answer.stdout.decode("utf-8").split("\0")[:-1]
        if who == "python":
            library = str(self.entry).removesuffix("/amd_container_runtime/shim.py")
            own = told.index(str(self.path))
            assert {"-I", "-S", "-B", library} <= set(told[:own])
            return who, told[own + 1 :]
        return who, told


@pytest.fixture
def launcher(tmp_path):
    return Launcher(tmp_path)


@pytest.fixture
def runtime(tmp_path):
    """Return a runtime on four MI210."""
    return Runtime(tmp_path, build_host(tmp_path / "host", "mi210-4", bare=True))


@pytest.fixture
def runtime_on(tmp_path):
    """Return a function that makes a runtime on a host of any profile; its GPUs have no counters if it is `bare`."""
    return lambda profile, bare=True: Runtime(tmp_path, build_host(tmp_path / "host", profile, bare=bare))


@pytest.fixture
def mode_of():
    """Return a function that gives a file's permission bits."""
    return lambda path: stat.S_IMODE(os.stat(path).st_mode)
