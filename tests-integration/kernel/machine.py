"""A virtual machine with a real kernel and its amdgpu driver, two render nodes that open, and no AMD GPU."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from kernel.agent import PORT
from kernel.image import Image
from support.installed import engine_program

# There is a minute of work in a boot where nothing else runs, and processors are emulated.
LONGEST_BOOT = 1800
LONGEST_COMMAND = 1800
# Where much else runs, the kernel finds that the emulated timer does not tick, and panics; it must not look.
# radeon would take a minute to find that the emulated function of AMD's computes nothing; tests bind another driver.
KERNEL_WORDS = (
    "console=ttyS0 quiet no_timer_check mitigations=off random.trust_cpu=on panic=-1"
    # Nothing has to be made again after an update: a disk is as it was installed.
    " systemd.show_status=0 systemd.condition-needs-update=0 modprobe.blacklist=radeon"
)
# For a kernel that finds the disk by itself.
ROOT_WORDS = " root=/dev/vda rw init=/lib/systemd/systemd"
# Its clock counts instructions, of 4 ns each. By the clock of a busy host, services would be too late and be killed.
CLOCK = "shift=2"
# Where the files are that the machine was started with.
FILES = "/srv"
UNPACK = f"tar -xf /dev/vdb -C {FILES}"


class Machine:
    """One virtual machine; `run` runs commands in it as root until it is stopped."""

    def __init__(self, image: Image, files: Mapping[str, Path], *, disk: Path | None = None) -> None:
        """Boot an image with `files` in /srv; what is written goes to `disk`, a copy of the image's, or is lost."""
        self._directory = Path(tempfile.mkdtemp(prefix="vm-"))
        self._console = self._directory / "console"
        _pack(files, self._directory / "files.tar")
        with self._console.open("wb") as console:
            self._process = subprocess.Popen(
                self._words(image, disk), stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT
            )
        self._port = socket.socket(socket.AF_UNIX)
        try:
            self._connect()
            self.run(UNPACK, timeout=LONGEST_BOOT)
        except BaseException:
            self.cut_power()
            raise

    def run(self, script: str, *, check: bool = True, timeout: float = LONGEST_COMMAND) -> str:
        """Run a shell script; return its output, with what it said on stderr."""
        code, output = self.ask(script, timeout=timeout)
        assert not check or code == 0, f"{script}\nended with {code}:\n{output}"
        return output

    def ask(self, script: str, *, timeout: float = LONGEST_COMMAND) -> tuple[int, str]:
        """Run a shell script; return its exit code and its output."""
        self._port.settimeout(timeout)
        try:
            self._port.sendall(json.dumps(script).encode() + b"\n")
            code, output = json.loads(self._read_line())
        except OSError as error:
            raise AssertionError(f"{script}\n{error}; the console says:\n{self.console()[-3000:]}") from error
        return int(code), str(output)

    def console(self) -> str:
        """Return what the kernel printed so far."""
        return self._console.read_text(encoding="utf-8", errors="replace")

    def cut_power(self) -> None:
        """End the machine as it stands; nothing that it had not written to its disk is written."""
        self._process.kill()
        self._process.wait()
        self._port.close()
        shutil.rmtree(self._directory)

    def _words(self, image: Image, disk: Path | None) -> list[str | Path]:
        drive = f"if=virtio,format=raw,file={disk}" if disk else f"if=virtio,format=raw,file={image.disk},snapshot=on"
        return [
            *(engine_program("qemu-system-x86_64"), "-accel", "tcg", "-cpu", "max", "-m", "1536", "-smp", "1"),
            *("-icount", CLOCK),
            *("-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot", "-nic", "none", "-vga", "none"),
            *("-kernel", image.kernel, *_start_words(image)),
            *("-drive", drive, "-drive", f"if=virtio,format=raw,readonly=on,file={self._directory}/files.tar"),
            # A second render node beside vgem's, and a function of AMD's that no driver of Linux takes.
            *("-device", "virtio-gpu-pci", "-device", "ati-vga,model=rv100,romfile="),
            *("-device", "virtio-serial-pci", "-device", f"virtserialport,chardev=agent,name={PORT}"),
            *("-chardev", f"socket,id=agent,path={self._directory}/agent,server=on,wait=off"),
        ]

    def _connect(self) -> None:
        for _ in range(300):
            try:
                self._port.connect(f"{self._directory}/agent")
            except OSError:
                assert self._process.poll() is None, self.console()
                time.sleep(0.1)
            else:
                return
        raise AssertionError(f"QEMU does not answer: {self.console()}")

    def _read_line(self) -> bytes:
        line = bytearray()
        while not line.endswith(b"\n"):
            some = self._port.recv(65536)
            if not some:
                raise OSError("the machine has stopped")
            line += some
        return bytes(line)


def _start_words(image: Image) -> tuple[str | Path, ...]:
    if image.initrd is None:
        return ("-append", KERNEL_WORDS + ROOT_WORDS)
    return ("-initrd", image.initrd, "-append", KERNEL_WORDS)


def _pack(files: Mapping[str, Path], archive: Path) -> None:
    with tarfile.open(archive, "w") as tar:
        for name, path in files.items():
            tar.add(path, arcname=name)
