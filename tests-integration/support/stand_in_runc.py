#!/usr/bin/env python3
"""A runc for tests with real processes, state directories, pid files and hooks, but no namespaces, cgroups or root.

Start it as `stand_in_runc.py RECORDS ARGUMENTS...`. It appends one JSON line for each call to the file RECORDS: argv,
cwd, environment, pid and, if the call starts a container, its config.json. `install` puts it on a PATH as `runc`.

A container's init is a `sleep` in its own session that lives until it is killed. Order and content of everything
visible from outside are those of runc 1.1 to 1.3: createRuntime and createContainer hooks with an existing init, then
poststart, then the pid file. A create that fails leaves nothing but a call of the poststop hooks. The annotation
`stand-in-runc/fail` makes create fail before the init exists. Commands that tests only need to see recorded, such as
`exec` and `update`, do nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

GLOBAL_VALUES = ("--criu", "--log", "--log-format", "--root", "--rootless")
COMMAND_VALUES = ("--bundle", "-b", "--console-socket", "--format", "-f", "--pid-file", "--preserve-fds", "--process")
VERSION = "runc version 1.3.0+stand-in\nspec: 1.2.0\n"
FEATURES = {"ociVersionMin": "1.0.0", "ociVersionMax": "1.2.0", "hooks": ["createRuntime", "createContainer"]}


class Refusal(Exception):
    """The message of a runc that exits with 1."""


def install(directory: Path, records: Path) -> Path:
    """Put an executable `runc` into `directory` that records its calls in `records`; return its path."""
    program = directory / "runc"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{Path(__file__).resolve()}" "{records}" "$@"\n')
    program.chmod(0o755)
    return program


class Container:
    """A container below the state directory; it exists as long as its directory."""

    def __init__(self, root: str, container_id: str) -> None:
        self.id = container_id
        self.directory = Path(root, container_id)

    @property
    def exists(self) -> bool:
        return self.directory.is_dir()

    def make(self, bundle: Path, pid: int) -> None:
        """Write the state of an init that waits to be started, in runc's files."""
        (self.directory / "exec.fifo").touch()
        state = {
            "id": self.id,
            "init_process_pid": pid,
            "init_process_start": int(start_time(pid)),
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "bundle": os.fspath(bundle),
        }
        temporary = self.directory / "state.json.tmp"
        temporary.write_text(json.dumps(state))
        temporary.replace(self.directory / "state.json")

    def read(self) -> dict[str, Any]:
        if not self.exists:
            raise Refusal("container does not exist")
        kept: dict[str, Any] = json.loads((self.directory / "state.json").read_text())
        return kept

    def status(self) -> str:
        kept = self.read()
        if start_time(kept["init_process_pid"]) != str(kept["init_process_start"]):
            return "stopped"
        return "created" if (self.directory / "exec.fifo").exists() else "running"

    def state(self, status: str = "") -> dict[str, Any]:
        """Return the state that `runc state` prints and hooks read."""
        kept = self.read()
        status = status or self.status()
        spec = read_spec(Path(kept["bundle"]))
        return {
            "ociVersion": "1.2.0",
            "id": self.id,
            "pid": 0 if status == "stopped" else kept["init_process_pid"],
            "status": status,
            "bundle": kept["bundle"],
            "annotations": spec.get("annotations") or {},
        }


def create(container: Container, options: dict[str, str]) -> int:
    """Make a container and return the pid of its init."""
    bundle = Path(options.get("--bundle") or options.get("-b") or ".").resolve()
    spec = read_spec(bundle)
    try:
        container.directory.mkdir(parents=True)
    except FileExistsError:
        raise Refusal("container with given ID already exists") from None
    pid = 0
    try:
        pid = start_init(spec)
        container.make(bundle, pid)
        run_creation_hooks(container, spec, bundle)
        if "--pid-file" in options:
            write_pid_file(Path(options["--pid-file"]), pid)
    except Refusal:
        destroy(container, spec, bundle, pid)
        raise
    return pid


def run_creation_hooks(container: Container, spec: dict[str, Any], bundle: Path) -> None:
    creating = container.state("creating")
    for kind in ("prestart", "createRuntime"):
        run_hooks(kind, spec, creating, cwd=bundle, environment={})
    # In the container's pid namespace, the init is process 1.
    rootfs = bundle / (spec.get("root") or {}).get("path", "rootfs")
    run_hooks("createContainer", spec, creating | {"pid": 1}, cwd=rootfs, environment={})
    run_hooks("poststart", spec, container.state("created"), cwd=bundle, environment=dict(os.environ))


def start_init(spec: dict[str, Any]) -> int:
    """Start a process in its own session that sleeps until it is killed, and keeps no pipe of a test open."""
    if "stand-in-runc/fail" in (spec.get("annotations") or {}):
        raise Refusal("unable to start container process: as the bundle asked")
    pid = os.fork()
    if pid == 0:
        os.setsid()
        nowhere = os.open("/dev/null", os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nowhere, descriptor)
        os.execvp("sleep", ["sleep", "infinity"])
    return pid


def start(container: Container) -> None:
    status = container.status()
    if status != "created":
        raise Refusal(f"cannot start a container that is {status}")
    (container.directory / "exec.fifo").unlink()


def kill(container: Container, name: str) -> None:
    if container.status() == "stopped":
        raise Refusal("container not running")
    number = int(name) if name.isdigit() else signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    os.kill(container.read()["init_process_pid"], number)


def delete(container: Container, *, force: bool) -> None:
    if force and not container.exists:
        return
    kept = container.read()
    status = container.status()
    if status != "stopped" and not force:
        raise Refusal(f"cannot delete container {container.id} that is not stopped: {status}")
    bundle = Path(kept["bundle"])
    try:
        spec = read_spec(bundle)
    except Refusal:
        spec = {}
    destroy(container, spec, bundle, 0 if status == "stopped" else kept["init_process_pid"])


def destroy(container: Container, spec: dict[str, Any], bundle: Path, pid: int) -> None:
    """Kill the init, delete the container and run the poststop hooks, whose failure has no effect."""
    if pid:
        kill_and_wait(pid)
    shutil.rmtree(container.directory)
    stopped = {"ociVersion": "1.2.0", "id": container.id, "pid": 0, "status": "stopped", "bundle": os.fspath(bundle)}
    try:
        run_hooks("poststop", spec, stopped, cwd=bundle, environment=dict(os.environ))
    except Refusal as refusal:
        print(f"level=warning msg={json.dumps(str(refusal))}", file=sys.stderr)


def kill_and_wait(pid: int) -> None:
    born = start_time(pid)
    os.kill(pid, signal.SIGKILL)
    while start_time(pid) == born:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            time.sleep(0.005)


def run_hooks(
    kind: str, spec: dict[str, Any], state: dict[str, Any], *, cwd: Path, environment: dict[str, str]
) -> None:
    """Run the hooks of one kind. Like in runc, a hook without `env` gets `environment`."""
    for number, hook in enumerate((spec.get("hooks") or {}).get(kind) or []):
        given = dict(entry.split("=", 1) for entry in hook["env"]) if "env" in hook else environment
        ended = subprocess.run(
            hook.get("args") or [hook["path"]],
            executable=hook["path"],
            input=json.dumps(state).encode(),
            env=given,
            cwd=cwd if cwd.is_dir() else "/",
            timeout=hook.get("timeout"),
            capture_output=True,
            check=False,
        )
        if ended.returncode:
            said = f"stdout: {ended.stdout.decode()}, stderr: {ended.stderr.decode()}"
            raise Refusal(f"error running {kind} hook #{number}: exit status {ended.returncode}, {said}")


def write_pid_file(path: Path, pid: int) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(str(pid))
    temporary.replace(path)


def read_spec(bundle: Path) -> dict[str, Any]:
    try:
        spec: dict[str, Any] = json.loads((bundle / "config.json").read_bytes())
    except FileNotFoundError:
        raise Refusal("JSON specification file config.json not found") from None
    return spec


def start_time(pid: int) -> str:
    """Return field 22 of /proc/PID/stat, which together with the pid identifies a process; "" for a dead one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def read_options(words: list[str], with_value: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Return the options before the first operand, and the rest."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        options[name] = value if equals else rest.pop(0) if name in with_value else "true"
    return options, rest


def default_root() -> str:
    return "/run/runc" if os.geteuid() == 0 else f"{os.environ.get('XDG_RUNTIME_DIR', '/tmp')}/runc"


def record(records: str, arguments: list[str], command: str, options: dict[str, str]) -> None:
    call = {"argv": arguments, "cwd": os.getcwd(), "environment": dict(os.environ), "pid": os.getpid()}
    if command in ("create", "run"):
        bundle = Path(options.get("--bundle") or options.get("-b") or ".")
        call["config"] = json.loads((bundle / "config.json").read_bytes())
    descriptor = os.open(records, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, json.dumps(call).encode() + b"\n")
    os.close(descriptor)


def run_in_foreground(container: Container, options: dict[str, str]) -> int:
    """Perform `runc run`: without `--detach`, until the init ends."""
    pid = create(container, options)
    start(container)
    if "--detach" in options or "-d" in options:
        return 0
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    delete(container, force=False)
    return status if status >= 0 else 128 - status


def serve(root: str, command: str, options: dict[str, str], operands: list[str]) -> int:
    container = Container(root, operands[0] if operands else "")
    if command == "create":
        create(container, options)
    elif command == "run":
        return run_in_foreground(container, options)
    elif command == "start":
        start(container)
    elif command == "state":
        print(json.dumps(container.state(), indent=2))
    elif command == "kill":
        kill(container, (*operands, "TERM")[1])
    elif command == "delete":
        delete(container, force="--force" in options or "-f" in options)
    elif command == "list":
        known = sorted(path.name for path in Path(root).iterdir()) if Path(root).is_dir() else []
        print("\n".join(known) if "-q" in options else json.dumps([Container(root, name).state() for name in known]))
    elif command == "features":
        print(json.dumps(FEATURES))
    return 0


def main() -> NoReturn:
    records, *arguments = sys.argv[1:]
    settings, rest = read_options(arguments, GLOBAL_VALUES)
    command = rest[0] if rest else ""
    flags = ("-f",) if command == "delete" else ()
    options, operands = read_options(rest[1:], tuple(name for name in COMMAND_VALUES if name not in flags))
    try:
        record(records, arguments, command, options)
        if "--version" in settings or "-v" in settings:
            print(VERSION, end="")
            sys.exit(0)
        sys.exit(serve(settings.get("--root") or default_root(), command, options, operands))
    except Refusal as refusal:
        report(settings, str(refusal))
        sys.exit(1)


def report(settings: dict[str, str], message: str) -> None:
    """Write an error to stderr, and to the log that engines read."""
    if "--log" in settings:
        line = {"level": "error", "msg": message, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        with open(settings["--log"], "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
    print(f"runc: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
