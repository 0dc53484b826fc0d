"""A virtual machine that can be saved while it runs, and be continued from there as often as power is to be cut."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel.agent import PORT
from kernel.image import Image
from kernel.machine import KERNEL_WORDS
from support.installed import engine_program

# A processor is emulated, on a machine that may do much else.
TIMEOUT = 1800.0
# Time passes with the instructions, 4 ns each; by the clock of a busy machine, services would start too late.
CLOCK = "shift=2"
# Writes of the disk in a second. Half of an ordinary command's time is then that of its writes.
WRITES = 40
DRIVE = "disk0"


class Machine:
    """A machine whose disk is a raw file, alone in a directory; `state` continues one that was saved."""

    def __init__(self, image: Image, disk: Path, *, state: Path | None = None) -> None:
        self.disk = disk
        self._directory = Path(tempfile.mkdtemp(prefix="vm-"))
        self._console = self._directory / "console"
        # Once the machine has stopped.
        self._said = ""
        with self._console.open("wb") as console:
            self._process = subprocess.Popen(
                self._words(image, state), stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT
            )
        self._agent = self._connect("agent")
        self._monitor = self._connect("monitor")
        _read_line(self._monitor)
        self._command("qmp_capabilities")

    def run(self, script: str) -> str:
        """Run a shell script, which has to succeed; return its output."""
        self.begin(script)
        self._agent.settimeout(TIMEOUT)
        try:
            code, output = json.loads(_read_line(self._agent))
        except OSError as error:
            raise AssertionError(f"{script}\n{error}; the console says:\n{self.console()[-3000:]}") from error
        assert code == 0, f"{script}\nended with {code}:\n{output}"
        return str(output)

    def begin(self, script: str) -> None:
        """Run a shell script, and do not wait for its end."""
        self._agent.sendall(json.dumps(script).encode() + b"\n")

    def console(self) -> str:
        """Return what was printed to the serial console so far."""
        text = self._said or self._console.read_text(encoding="utf-8", errors="replace")
        return text.replace("\r", "")

    def wait_for(self, line: str) -> None:
        """Wait for a line of the console."""
        self._wait(lambda: f"{line}\n" in self.console(), line)

    def wait_for_end(self) -> None:
        """Wait until the machine has stopped by itself."""
        self._process.wait(TIMEOUT)
        self._forget()

    def slow_disk(self, writes: int = WRITES) -> None:
        """Let the disk do only so many writes in a second; 0 for as many as it can."""
        limits = dict.fromkeys(("bps", "bps_rd", "bps_wr", "iops", "iops_rd"), 0)
        self._command("block_set_io_throttle", device=DRIVE, iops_wr=writes, **limits)

    def save(self, state: Path) -> None:
        """Stop the machine for good, with its memory in a file and its disk as it is at that moment."""
        self._command("stop")
        self._command("migrate", uri=f"exec:cat >{state}")
        self._wait(lambda: self._command("query-migrate").get("status") == "completed", "the saved state")
        self.cut_power()

    def go(self) -> None:
        """Let a saved machine go on."""
        self._wait(lambda: self._command("query-status")["status"] != "inmigrate", "its state")
        self._command("cont")

    def cut_power(self) -> None:
        """End the machine as it stands; nothing that it had not written to its disk is written."""
        self._process.kill()
        self._process.wait()
        self._forget()

    def _words(self, image: Image, state: Path | None) -> list[str | Path]:
        at = self._directory
        # What the machine wrote is in the page cache of this one, whose power is not cut; it need not flush anything.
        drive = f"if=virtio,format=raw,cache=unsafe,id={DRIVE},file={self.disk}"
        return [
            *(engine_program("qemu-system-x86_64"), "-accel", "tcg", "-cpu", "max", "-m", "768", "-smp", "1"),
            *("-icount", CLOCK, "-display", "none", "-vga", "none", "-nic", "none", "-no-reboot"),
            *("-kernel", image.kernel, "-initrd", image.initrd, "-append", KERNEL_WORDS, "-drive", drive),
            *("-serial", "stdio", "-qmp", f"unix:{at}/monitor,server=on,wait=off"),
            *("-device", "virtio-serial-pci", "-device", f"virtserialport,chardev=agent,name={PORT}"),
            *("-chardev", f"socket,id=agent,path={at}/agent,server=on,wait=off"),
            *(("-incoming", f"exec:cat {state}") if state else ()),
        ]

    def _command(self, name: str, **arguments: Any) -> dict[str, Any]:
        self._monitor.settimeout(TIMEOUT)
        self._monitor.sendall(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = json.loads(_read_line(self._monitor))
            assert "error" not in answer, f"{name}: {answer}"
            # Events come in between.
            if "return" in answer:
                return dict(answer["return"])

    def _connect(self, name: str) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        self._wait(lambda: _connects(connection, self._directory / name), name)
        return connection

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + TIMEOUT
        while not condition():
            assert self._process.poll() is None, f"{what} did not come; the machine stopped: {self.console()[-3000:]}"
            assert time.monotonic() < until, f"{what} did not come: {self.console()[-3000:]}"
            time.sleep(0.005)

    def _forget(self) -> None:
        for connection in (self._agent, self._monitor):
            connection.close()
        self._said = self.console()
        shutil.rmtree(self._directory)


def _connects(connection: socket.socket, path: Path) -> bool:
    try:
        connection.connect(os.fspath(path))
    except OSError:
        return False
    return True


def _read_line(connection: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        # A byte at a time: what follows belongs to the next call.
        some = connection.recv(1)
        if not some:
            raise OSError("the machine has stopped")
        line += some
    return bytes(line)
