"""A power cut: everything dies at once, /run is empty, and what is on the disk is all that the next boot knows."""

from __future__ import annotations

import pytest

from support.cdi_engines import DockerInBox

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

# Below what outlives a box.
SETTINGS = {"data-root": "/box/docker", "runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}}}
RESTARTING = ("--restart=always",)
ASKING = ("--runtime=amd", "--env=AMD_VISIBLE_DEVICES=1", "--restart=always")


@pytest.mark.parametrize(
    ("suite", "restarts_cdi"),
    # Docker 26 starts them before it has looked for CDI: could not select device driver "cdi" with capabilities: [].
    [("forky", True), ("trixie", False)],
    ids=["Docker 28", "Docker 26"],
)
def test_exclusive_gpus_stay_so_and_only_restarted_containers_have_gpus(make_box, tmp_path, suite, restarts_cdi):
    with make_box(suite, tmp_path) as box:
        docker = DockerInBox(box, **SETTINGS)
        box.tracker("0-2", "exclusive")
        by_cdi = docker.start("amd.com/gpu=0", options=RESTARTING)
        asking = docker.start("/dev/null", options=ASKING)
        gone = docker.start("amd.com/gpu=2")
        assert box.users() == {0: [(by_cdi, ["cdi"])], 1: [(asking, ["env"])], 2: [(gone, ["cdi"])], 3: []}

    with make_box(suite, tmp_path) as box:
        assert box.users() == {0: [], 1: [], 2: [], 3: []}

        docker = DockerInBox(box, **SETTINGS)
        running = {by_cdi, asking} if restarts_cdi else {asking}
        box.wait_until("sh", "-c", f'test "$(docker ps -q | wc -l)" = {len(running)}')
        assert set(box.leases()) == running
        if not restarts_cdi:
            assert docker.start_again(by_cdi).returncode == 0

        assert box.users() == {0: [(by_cdi, ["cdi"])], 1: [(asking, ["env"])], 2: [], 3: []}
        refused = docker.run("amd.com/gpu=0", "true", options=("--device=amd.com/gpu=2",))
        assert "GPUs [2] allocated\nGPUs [0] are exclusive and already in use" in refused.stderr.replace("\\n", "\n")
        assert docker.start_again(gone).returncode == 0
        assert box.users()[2] == [(gone, ["cdi"])]
