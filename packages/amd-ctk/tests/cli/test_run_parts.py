"""amd-ctk run --vram on GPUs that jobs share: each has a part, and the parts fit."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker
from support.enabled_tracker import enable

NO_CONTAINER = "the command is not 'docker run' or 'podman run', and only containers have limits"
NOT_ENFORCED = f"is not enforced: {NO_CONTAINER}\n"
JOBS = 24


@pytest.fixture
def shared(host):
    """Return four MI210, of 65520 MiB each, all shared."""
    built = host()
    enable(built)
    return built


def reserve(host, name, gpus, mib):
    return Tracker(host).reserve(gpus, name=name, vram_mb=mib)


def parts(host):
    return {
        gpu.number: {use.container_id: use.vram_mb for use in gpu.containers}
        for gpu in Tracker(host).status().gpus
        if gpu.containers
    }


def test_a_job_has_a_part_of_a_shared_gpu_and_the_next_goes_beside_it(shared, amd_ctk, program):
    reserve(shared, "first", "auto:1", 40000)

    answer = amd_ctk("run", "--name=job", "--vram=16GiB", "--", program, "gpu-tracker", "status", "--json")

    assert answer.stderr == f"--vram=16GiB {NOT_ENFORCED}GPU 0\n"
    uses = json.loads(answer.stdout)["gpus"][0]["containers"]
    assert [(use["container_id"], use["vram_mb"]) for use in uses] == [("first", 40000), ("job", 16384)]
    assert parts(shared) == {0: {"first": 40000}}


def test_a_job_whose_part_does_not_fit_goes_to_another_gpu_or_is_refused(shared, amd_ctk):
    reserve(shared, "first", "0-2", 60000)

    assert amd_ctk("run", "--vram=16GiB", "--", "true").stderr == f"--vram=16GiB {NOT_ENFORCED}GPU 3\n"
    reserve(shared, "last", "3", 60000)
    answer = amd_ctk("run", "--vram=16GiB", "--", "true")

    assert (answer.returncode, answer.stderr) == (
        1,
        (
            f"--vram=16GiB {NOT_ENFORCED}"
            "auto:1: 0 of 4 GPUs have 16384 MiB left (0-3 with 5520 MiB left);"
            " 'amd-ctk run --gpus=auto:1 --vram=16384MiB --wait -- COMMAND' waits for one\n"
        ),
    )


def test_a_job_that_names_a_gpu_without_room_is_refused(shared, amd_ctk):
    reserve(shared, "first", "0", 60000)

    answer = amd_ctk("run", "--gpus=0", "--vram=8GiB", "--", "true")

    assert (answer.returncode, answer.stderr.splitlines()[-1]) == (
        1,
        "GPU 0 has 5520 MiB of memory left, not 8192 (--wait waits for them)",
    )


def test_the_administrators_maximum_is_the_most_that_a_part_takes(shared, amd_ctk, program):
    amd_ctk("config", "set", "vram-maximum", "4096")
    reserve(shared, "first", "0", 60000)

    answer = amd_ctk("run", "--gpus=0", "--vram=8GiB", "--", program, "gpu-tracker", "status", "--wide")

    assert answer.returncode == 0
    assert "api, 4096 MiB" in answer.stdout


def test_where_limits_are_off_a_job_has_the_whole_gpu(shared, amd_ctk):
    amd_ctk("config", "set", "vram-limit", "off")
    reserve(shared, "first", "0-3", 60000)

    assert amd_ctk("run", "--vram=16GiB", "--", "true").returncode == 0


def test_an_exclusive_gpu_is_shared_by_parts_only_with_the_setting(tracked, amd_ctk):
    first = reserve(tracked, "first", "0", 40000)

    refused = amd_ctk("run", "--gpus=0", "--vram=16GiB", "--", "true")
    amd_ctk("config", "set", "share-by-vram", "yes")
    given = amd_ctk("run", "--gpus=0", "--vram=16GiB", "--", "true")
    whole = amd_ctk("run", "--gpus=0", "--", "true")

    said = "GPUs [0] are exclusive and already in use\nGPU 0 is in use by job first (--wait waits for them)\n"
    assert refused.stderr == f"--vram=16GiB {NOT_ENFORCED}{said}"
    assert given.stderr == f"--vram=16GiB {NOT_ENFORCED}GPU 0\n"
    assert whole.stderr == said
    first.release()


def test_explain_shows_the_gpu_of_the_part_and_why_there_is_none(shared, amd_ctk):
    reserve(shared, "first", "0", 40000)
    words = ("explain", "--", "amd-ctk", "run", "--vram")

    assert amd_ctk(*words, "16GiB", "--", "true").stdout.splitlines()[0] == "The command starts now, with GPU 0"
    reserve(shared, "second", "1-3", 40000)
    assert amd_ctk(*words, "32GiB", "--wait", "--", "true").stdout.splitlines()[:2] == [
        "The command does not start yet:",
        (
            "  auto:1: 0 of 4 GPUs have 32768 MiB left (0-3 with 25520 MiB left);"
            " 'amd-ctk run --gpus=auto:1 --vram=32768MiB --wait -- COMMAND' waits for one"
        ),
    ]


def test_the_list_of_gpus_shows_the_part(shared, amd_ctk):
    reserve(shared, "first", "0", 40000)
    reserve(shared, "second", "0", 8192)

    assert "first (40000 MiB) +1" in amd_ctk("status").stdout


@pytest.fixture
def start(program, shared):
    """Return a function that starts a job for a part of GPU 0."""
    environment, started = {**os.environ, "AMD_CTK_HOST_ROOT": shared.root}, []

    def run(name, *words):
        command = [program, "run", "--gpus=0", "--vram=20GiB", f"--name={name}", *words]
        started.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield run
    for job in started:
        job.kill()
        job.wait()
        job.stderr.close()


def test_of_many_at_once_only_as_many_start_as_fit_on_the_gpu(shared, start, tmp_path):
    until = f"touch {tmp_path}/began-$$; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"

    jobs = [start(f"job{number}", "--", "sh", "-c", until) for number in range(JOBS)]
    while (running := [job for job in jobs if job.poll() is None]) and len(began(tmp_path)) < len(running):
        time.sleep(0.05)
    held = parts(shared)
    (tmp_path / "go").touch()

    assert [list(held), sorted(held[0].values())] == [[0], [20480] * 3]
    refused = [job for job in jobs if job.wait()]
    assert len(refused) == JOBS - 3
    assert {job.stderr.read().splitlines()[-1] for job in refused} == {
        "GPU 0 has 4080 MiB of memory left, not 20480 (--wait waits for them)"
    }
    assert parts(shared) == {}


def test_many_that_wait_have_their_parts_one_after_the_other(shared, start, tmp_path):
    # Each says how many run beside it, in a directory that only those have that run.
    beside = f"mkdir {tmp_path}/at-$$; ls -d {tmp_path}/at-* | wc -l >> {tmp_path}/counts; rmdir {tmp_path}/at-$$"

    jobs = [start(f"job{number}", "--wait", "--", "sh", "-c", beside) for number in range(JOBS)]

    assert [job.wait() for job in jobs] == [0] * JOBS
    counts = [int(line) for line in Path(tmp_path, "counts").read_text().splitlines()]
    assert len(counts) == JOBS
    assert max(counts) <= 3
    assert parts(shared) == {}


def began(directory):
    return list(directory.glob("began-*"))
