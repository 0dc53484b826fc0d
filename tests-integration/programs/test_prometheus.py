"""A real Prometheus scrapes a real node exporter that serves what the timer's look writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.parse
from contextlib import contextmanager
from pathlib import Path

import pytest

from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_simulator import build_host, load_profile
from programs.test_node_exporter import EXPORTER, SECONDS, exporter, fetch, free_address
from support.documentation import CHECKOUT
from support.installed import SEARCH_PATH, our_program

PROMETHEUS = shutil.which("prometheus", path=SEARCH_PATH)
PROMTOOL = shutil.which("promtool", path=SEARCH_PATH)
MONITORING = CHECKOUT / "packaging/monitoring"
RULES = MONITORING / "amd-gpu.rules.yml"
pytestmark = pytest.mark.skipif(
    not (PROMETHEUS and PROMTOOL and EXPORTER), reason="prometheus or prometheus-node-exporter is not installed"
)
HEALTH = {
    "ras/umc_err_count": "ue: 1\nce: 7\n",
    "hwmon/hwmon3/temp2_input": "61000\n",
    "hwmon/hwmon3/temp2_label": "junction\n",
    "hwmon/hwmon3/power1_average": "250000000\n",
}
ALERTS = [
    "AmdGpuLost",
    "AmdGpuSick",
    "AmdGpuDirty",
    "AmdGpuUncorrectableErrors",
    "AmdGpuHot",
    "AmdGpuReservedButIdle",
    "AmdGpuServiceFailed",
    "AmdGpuQueueIsLong",
    "AmdGpuUsageIsOld",
]


@pytest.fixture
def host(tmp_path):
    """Return a host on which a container of LXC computes and a job has GPU 1, with a place for metrics."""
    process = SimulatedProcess(
        pid=70, cgroup="/lxc.payload.c1", uses=(SimulatedUse(gpu=2, vram_bytes=2**30, gtt_bytes=2**20, client_id=3),)
    )
    profile = load_profile("mi210-4").replace(processes=(process,)).with_gpu(2, busy_percent=93)
    built = build_host(tmp_path / "host", profile, bare=True)
    for name, text in HEALTH.items():
        path = Path(built.path(f"/sys/bus/pci/devices/0000:03:00.0/{name}"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    Path(built.path("/var/lib/prometheus/node-exporter")).mkdir(parents=True)
    run(built, "gpu-tracker", "enable")
    return built


def run(host, *words):
    environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root}
    subprocess.run([our_program("amd-ctk"), *words], env=environment, capture_output=True, check=True)


@contextmanager
def prometheus(directory, scraped):
    """Run a Prometheus with our rules; yield what asks it."""
    address = free_address()
    scrape = {"job_name": "node", "scrape_interval": "1s", "static_configs": [{"targets": [scraped]}]}
    settings = {"rule_files": [str(RULES)], "scrape_configs": [scrape]}
    (directory / "prometheus.yml").write_text(json.dumps(settings))
    words = (
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address={address}",
    )
    running = subprocess.Popen([str(PROMETHEUS), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield lambda path: json.loads(fetch(f"http://{address}/api/v1/{path}"))["data"]
    finally:
        running.kill()
        running.wait()


def wait_for_series(ask, expression):
    """Return how many series an expression has, waiting until there is one."""
    end = time.monotonic() + SECONDS
    while not (found := ask(f"query?query={urllib.parse.quote(expression)}")["result"]) and time.monotonic() < end:
        time.sleep(0.2)
    return len(found)


def dashboard_expressions():
    panels = json.loads((MONITORING / "amd-gpu.json").read_text())["panels"]
    return [target["expr"].replace("$instance", ".*") for panel in panels for target in panel["targets"]]


def test_promtool_accepts_the_rules():
    checked = subprocess.run([str(PROMTOOL), "check", "rules", RULES], capture_output=True, text=True, check=False)

    assert (checked.returncode, f"SUCCESS: {len(ALERTS)} rules found" in checked.stdout) == (0, True), checked.stderr


def test_every_query_of_the_dashboard_and_every_metric_of_the_rules_has_a_series(host, tmp_path):
    job = f"{our_program('amd-ctk')} usage sample"
    run(host, "run", "--gpus=1", "--", "sh", "-c", job)

    with (
        exporter(Path(host.path("/var/lib/prometheus/node-exporter"))) as read_metrics,
        prometheus(tmp_path, read_metrics.address) as ask,
    ):
        without = [each for each in dashboard_expressions() if not wait_for_series(ask, each)]
        rules = [rule["name"] for group in ask("rules")["groups"] for rule in group["rules"]]
        reserved = wait_for_series(ask, 'amd_gpu_reserved_seconds{gpu_id="1"}')
        suspect = wait_for_series(ask, 'amd_gpu_state{gpu_id="0",state="suspect"} == 1')

    assert without == []
    assert (rules, reserved, suspect) == (ALERTS, 1, 1)
