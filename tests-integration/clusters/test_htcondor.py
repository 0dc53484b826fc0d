"""HTCondor gives jobs GPUs by their ids, and the tracker knows whose they are."""

from __future__ import annotations

import pytest

from support.cluster_stand import IDS, ClusterStand
from support.clusters_page import IDLE_PAGE, blocks_of
from support.stand import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.clusters]

# It ends when a test says so.
UNTIL_TOLD = "printenv ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES; until [ -e /srv/end-USER ]; do sleep 0.2; done"
JOB = f"""\
executable = /bin/sh
arguments = "-c '{UNTIL_TOLD}'"
request_gpus = 2
request_memory = 10
request_disk = 10
output = job.out
error = job.err
log = job.log
queue
"""


@pytest.fixture
def pool(stand: ClusterStand) -> ClusterStand:
    """Return the server with the files of the page."""
    ids, job, configuration = blocks_of("I use HTCondor")
    stand.write("/etc/condor/amd-gpus", ids)
    stand.write("/etc/condor/amd-job", job)
    stand.write("/etc/condor/config.d/50-amd-gpus", configuration)
    stand.run("chmod 755 /etc/condor/amd-gpus /etc/condor/amd-job; systemctl restart condor")
    wait_until(lambda: stand.run("condor_status -af TotalGPUs 2>/dev/null", check=False).strip() == "4")
    return stand


def submit(stand: ClusterStand, user: str, line: str = "") -> None:
    stand.write("/tmp/job.sub", JOB.replace("USER", user).replace("queue\n", f"{line}queue\n"))
    stand.as_user(user, "condor_submit /tmp/job.sub")


def states(stand: ClusterStand) -> dict[str, str]:
    """Return the state of each person's job as condor_q shows it: I or R."""
    lines = [line.split() for line in stand.run("condor_q -all -af Owner JobStatus").splitlines()]
    return {owner: {"1": "idle", "2": "running"}.get(state, state) for owner, state in lines}


def test_jobs_have_pairs_of_gpus_and_a_third_one_waits(pool: ClusterStand) -> None:
    for user in ("alice", "bob", "carol"):
        submit(pool, user)
        if user != "carol":
            wait_until(lambda user=user: states(pool).get(user) == "running")
    wait_until(lambda: set(pool.gpus_by_person()) == {"alice", "bob"})

    assert states(pool) == {"alice": "running", "bob": "running", "carol": "idle"}
    given = pool.gpus_by_person()
    assert sorted([given["alice"], given["bob"]]) == [[0, 1], [2, 3]]
    assert set(pool.ids_in_processes().values()) == {",".join(IDS[:2]), ",".join(IDS[2:])}
    assert "TARGET.GPUs >= RequestGPUs" in pool.as_user("carol", "condor_q -better-analyze")
    assert {line.split()[1].rpartition("-")[0] for line in pool.run("amd-ctk queue list").splitlines()[1:3]} == {
        "condor"
    }

    pool.run("touch /srv/end-alice")
    wait_until(lambda: set(pool.gpus_by_person()) == {"bob", "carol"})

    assert pool.gpus_by_person()["carol"] == given["alice"]
    first, second = pool.read("/home/carol/job.out").split()
    assert (first, second) == (",".join(IDS[number] for number in given["alice"]), "0,1")

    pool.run("touch /srv/end-bob /srv/end-carol")
    wait_until(lambda: not states(pool))
    assert pool.gpus_by_person() == {}


def test_a_job_waits_for_a_person_who_uses_its_gpu_without_htcondor(pool: ClusterStand) -> None:
    pool.run("rm -f /srv/end-*")
    pool.start("bob", "exec amd-ctk run --gpus=all -- sleep 600", "own.log")
    wait_until(lambda: pool.gpus_by_person() == {"bob": [0, 1, 2, 3]})

    submit(pool, "alice")
    wait_until(lambda: states(pool).get("alice") == "running")
    wait_until(lambda: "alice" in pool.run("amd-ctk queue list"))
    assert pool.gpus_by_person() == {"bob": [0, 1, 2, 3]}

    pool.run("pkill -U bob sleep")
    wait_until(lambda: set(pool.gpus_by_person()) == {"alice"})
    pool.run("touch /srv/end-alice")
    wait_until(lambda: not states(pool))


def test_a_spare_job_gives_its_gpus_to_a_person_and_is_done_again(pool: ClusterStand) -> None:
    last_line, line_of_job = blocks_of("With HTCondor", IDLE_PAGE)
    _, job, _ = blocks_of("I use HTCondor")
    pool.write("/etc/condor/amd-job", "\n".join([*job.splitlines()[:-1], last_line]))
    pool.run("chmod 755 /etc/condor/amd-job; rm -f /srv/end-*")
    submit(pool, "alice", line_of_job)
    wait_until(lambda: set(pool.gpus_by_person()) == {"alice"})
    given = pool.gpus_by_person()["alice"]

    refused = pool.as_user("bob", "amd-ctk run --gpus=all -- true", check=False)
    pool.start("bob", "exec amd-ctk run --gpus=all --wait -- sleep 600", "own.log")
    wait_until(lambda: pool.gpus_by_person() == {"bob": [0, 1, 2, 3]})

    assert "are in use by job condor-" in refused
    assert set(pool.ids_in_processes().values()) == {",".join(IDS)}
    # HTCondor starts it again, and it waits for its GPUs behind bob.
    wait_until(lambda: "alice" in pool.run("amd-ctk queue list"))
    pool.run("pkill -U bob sleep")
    wait_until(lambda: set(pool.gpus_by_person()) == {"alice"})
    pool.run("touch /srv/end-alice")
    wait_until(lambda: not states(pool))

    starts, code = pool.run("condor_history alice -limit 1 -af NumJobStarts ExitCode").split()
    assert len(given) == 2
    assert (int(starts) >= 2, code) == (True, "0")
