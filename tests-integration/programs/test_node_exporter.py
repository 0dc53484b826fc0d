"""Prometheus's node exporter, as Debian has it, takes what `gpu metrics` prints."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_simulator import build_host, load_profile
from support.installed import SEARCH_PATH, our_program

EXPORTER = shutil.which("prometheus-node-exporter", path=SEARCH_PATH)
SECONDS = 120


@pytest.mark.skipif(EXPORTER is None, reason="prometheus-node-exporter is not installed")
def test_the_node_exporter_serves_the_usage(tmp_path):
    name = 'a"b\\c'
    process = SimulatedProcess(
        pid=70,
        cgroup=f"/lxc.payload.{name}",
        uses=(SimulatedUse(gpu=2, vram_bytes=2**30, gtt_bytes=2**20, client_id=3),),
    )
    profile = load_profile("mi210-4").replace(processes=(process,)).with_gpu(2, busy_percent=93)
    host = build_host(tmp_path / "host", profile, bare=True)
    text = subprocess.run(
        [our_program("amd-ctk"), "gpu", "metrics"],
        env={**os.environ, "AMD_CTK_HOST_ROOT": host.root},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    collected = tmp_path / "collected"
    collected.mkdir()
    (collected / "amd_gpu.prom").write_text(text)

    with exporter(collected) as read_metrics:
        lines = read_metrics().splitlines()

    # It orders labels by name.
    gpu = 'gpu_id="0",gpu_partition_id="0",model="MI210",pci_address="0000:03:00.0",uuid="0xEA35F57CC80DEB35"'
    container = 'container="",container_id="a\\"b\\\\c",engine="lxc",gpu_id="0",gpu_partition_id="0",user=""'
    assert "node_textfile_scrape_error 0" in lines
    assert f"gpu_used_vram{{{gpu}}} 1024" in lines
    assert f"gpu_gfx_activity{{{gpu}}} 93" in lines
    assert f"amd_gpu_container_vram_bytes{{{container}}} 1.073741824e+09" in lines
    assert "# HELP gpu_used_vram Video memory in use in MiB." in lines


class Metrics:
    """Reads what is served at an address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __call__(self) -> str:
        """Return the metrics."""
        return fetch(f"http://{self.address}/metrics")


def free_address() -> str:
    """Return an address of this machine at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


@contextmanager
def exporter(directory: Path) -> Iterator[Metrics]:
    """Serve the files in a directory, and yield what reads the metrics."""
    address = free_address()
    words = (
        "--collector.disable-defaults",
        "--collector.textfile",
        f"--collector.textfile.directory={directory}",
        f"--web.listen-address={address}",
    )
    running = subprocess.Popen([str(EXPORTER), *words], stderr=subprocess.DEVNULL)
    try:
        yield Metrics(address)
    finally:
        running.kill()
        running.wait()


def fetch(url: str) -> str:
    end = time.monotonic() + SECONDS
    # Whatever the environment says of proxies.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            with opener.open(url, timeout=SECONDS) as answer:
                return answer.read().decode()
        except urllib.error.URLError:
            assert time.monotonic() < end, "the exporter does not answer"
            time.sleep(0.1)
