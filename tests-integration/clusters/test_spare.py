"""Ray works with GPUs that nobody uses, as an account of its own, and gives them up to people who ask.

AMD_RAY_CYCLES=50 lets people ask as often, at moments and for numbers of GPUs that AMD_RAY_SEED chooses. AMD_SPARE_PAGE
is the page into which the figures are written.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import statistics
import time
from typing import Any

import pytest

from support.cluster_stand import ClusterStand
from support.clusters_page import IDLE_PAGE, blocks_of, commands_in
from support.marked_table import write_table
from support.stand import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.clusters]

CYCLES = int(os.environ.get("AMD_RAY_CYCLES", "4"))
SEED = int(os.environ.get("AMD_RAY_SEED", "1"))
PAGE = os.environ.get("AMD_SPARE_PAGE", "")
# A job that is ended has so long between TERM and KILL. A command starts in less than the second, also when two
# processors are busy with the end of Ray.
GRACE_SECONDS, START_SECONDS = 30, 10
# Tasks of five seconds, as many at once as wait for a GPU, until there is a file. Each writes down that it begins.
TASKS = """\
import json, os, time
import ray

ray.init(address="127.0.0.1:6379", log_to_driver=False)


@ray.remote(num_gpus=1, num_cpus=0, max_retries=-1)
def task(number):
    with open("/srv/begun", "a") as file:
        file.write(f"{number}\\n")
    time.sleep(5)
    return number


asked, pending, finished = 0, [], []
while pending or not os.path.exists("/srv/enough"):
    while len(pending) < 4 and not os.path.exists("/srv/enough"):
        pending.append(task.remote(asked))
        asked += 1
    ready, pending = ray.wait(pending, timeout=1)
    finished += ray.get(ready)
print(json.dumps({"asked": asked, "finished": len(set(finished))}), flush=True)
"""
# Looks who has which GPU: by the variables of processes, and by the leases. What changed during a look is looked at
# again.
WATCH = """\
#!/usr/bin/python3
import glob, json, os, subprocess, time


def processes():
    found = {}
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(f"{path}/environ", "rb") as file:
                words = dict(word.split(b"=", 1) for word in file.read().split(b"\\0") if b"=" in word)
            with open(f"{path}/stat", "rb") as file:
                start = file.read().rpartition(b")")[2].split()[19]
        except OSError:
            continue
        job = words.get(b"AMD_CTK_RESERVATION", b"").rpartition(b".")[0].decode()
        for gpu in words.get(b"ROCR_VISIBLE_DEVICES", b"").decode().split(",") if job else ():
            found.setdefault(gpu, {}).setdefault(job, set()).add((path, start))
    return found


def leases():
    listed = subprocess.run(["amd-ctk", "queue", "list", "--json"], capture_output=True, check=True).stdout
    found = {}
    for job in json.loads(listed)["running"]:
        for gpu in job["gpus"]:
            # While a job ends, its end has a lease of its own.
            found.setdefault(gpu, set()).add((job["person"], job["name"].removesuffix(".ending")))
    return found


def in_two_hands(first, second):
    # Of processes, the same ones; of leases, the same jobs.
    for gpu in first:
        lasting = [job for job in first[gpu] if job in second.get(gpu, ())]
        if isinstance(first[gpu], dict):
            lasting = [job for job in lasting if first[gpu][job] & second[gpu][job]]
        if len(lasting) > 1:
            yield gpu, sorted(map(str, lasting))


looks, seen = 0, []
while not os.path.exists("/srv/watched"):
    for look in (processes, leases):
        found = look()
        if any(len(jobs) > 1 for jobs in found.values()):
            seen += in_two_hands(found, look())
    looks += 1
    time.sleep(0.1)
print(json.dumps({"looks": looks, "in_two_hands": seen}), flush=True)
"""
ASK = 'cut -d" " -f1 /proc/uptime; exec amd-ctk run --gpus=free:{count} --wait -- sh /srv/hold {seconds}'
HOLD = 'echo "$AMD_VISIBLE_DEVICES"; cut -d" " -f1 /proc/uptime; exec sleep "$1"'
HEAD = "ray start --head --port=6379 --num-gpus=0 --num-cpus=0 --block"


@pytest.fixture
def workers(stand: ClusterStand) -> ClusterStand:
    """Return the server with a head of Ray's and two workers, as the page says."""
    unit, commands = blocks_of("With Ray", IDLE_PAGE)[:2]
    stand.write("/etc/systemd/system/ray-worker@.service", unit.replace("HOST", "127.0.0.1"))
    stand.run("rm -f /srv/begun /srv/enough /srv/watched; touch /srv/begun; chmod 666 /srv/begun")
    stand.write("/srv/hold", HOLD)
    stand.write("/home/worker/tasks.py", TASKS)
    stand.write("/usr/local/bin/watch-hands", WATCH)
    stand.run("chmod 755 /srv /usr/local/bin/watch-hands")
    _, token, *_ = commands_in(blocks_of("I use Ray")[1])
    stand.as_user("worker", f"env RAY_AUTH_MODE=token {token}")
    stand.start("worker", f"RAY_AUTH_MODE=token exec {HEAD}", "head.log")
    wait_until(lambda: "Ray runtime started" in stand.read("/home/worker/head.log"))
    # The account is there.
    _, *others = [command.removeprefix("sudo ") for command in commands_in(commands)]
    stand.run("; ".join(others))
    wait_until(lambda: len(stand.gpus_by_person().get("worker", ())) == 2)
    return stand


def last_line(stand: ClusterStand, path: str) -> Any:
    """Return what a program printed at its end, None where it did not end."""
    lines = [line for line in stand.read(path).splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def ask(stand: ClusterStand, person: str, count: int, seconds: int) -> tuple[float, int]:
    """Let a person ask for GPUs and hold them; return how long that took, and how many workers had to end."""
    had = len(stand.gpus_by_person().get("worker", ()))
    stand.run(f"rm -f /home/{person}/asked.log")
    stand.write(f"/home/{person}/ask", ASK.format(count=count, seconds=seconds))
    stand.start(person, f"exec sh /home/{person}/ask", "asked.log")
    wait_until(lambda: not stand.gpus_by_person().get(person) and times(stand, person)[1:])
    asked, began = times(stand, person)
    return began - asked, max(0, count + had - 4)


def times(stand: ClusterStand, person: str) -> list[float]:
    """Return when a person asked, and when the command began."""
    return [float(line) for line in stand.read(f"/home/{person}/asked.log").splitlines() if line.count(".") == 1]


def test_people_get_the_gpus_of_rays_workers_and_no_task_is_lost(workers: ClusterStand) -> None:
    chosen = random.Random(SEED)
    workers.start("worker", "RAY_AUTH_MODE=token exec python3 tasks.py", "tasks.log")
    workers.run("setsid watch-hands >/srv/watch.log 2>&1 </dev/null &")
    wait_until(lambda: len(workers.read("/srv/begun").split()) >= 2)
    # Each worker is at a task.
    waited = [ask(workers, "alice", 4, 1)]
    for _ in range(CYCLES - 1):
        time.sleep(chosen.uniform(0, 20))
        person, count, seconds = chosen.choice(("alice", "bob", "carol")), chosen.randint(2, 4), chosen.randint(1, 6)
        waited.append(ask(workers, person, count, seconds))
    workers.run("touch /srv/enough")
    wait_until(lambda: last_line(workers, "/home/worker/tasks.log"))
    workers.run("touch /srv/watched")
    wait_until(lambda: last_line(workers, "/srv/watch.log"))

    tasks, watched = last_line(workers, "/home/worker/tasks.log"), last_line(workers, "/srv/watch.log")
    begun = len(workers.read("/srv/begun").split())
    ended = workers.journal_of("amd-gpu-tracker").count("preempted: ")
    seconds = [each for each, _ in waited]
    print(f"{waited}, {tasks}, {begun} begun, {ended} workers ended, {watched}")
    if PAGE:
        write_figures(seconds, tasks, begun, ended, watched)

    assert watched["in_two_hands"] == []
    assert tasks["finished"] == tasks["asked"]
    assert begun > tasks["asked"]
    # Somebody asked for more than was free.
    assert ended >= CYCLES // 3
    assert max(seconds) < GRACE_SECONDS + START_SECONDS


def write_figures(seconds: list[float], tasks: Any, begun: int, ended: int, watched: Any) -> None:
    """Write what was measured into the page."""
    rows = [
        ("what", "result"),
        ("date", datetime.datetime.now(datetime.timezone.utc).date().isoformat()),
        ("times that a person asked for 2 to 4 of 4 GPUs", f"{len(seconds)}"),
        ("workers of Ray's that ended for them", f"{ended}"),
        ("GPUs in two hands, in so many looks", f"0 in {watched['looks']}" if not watched["in_two_hands"] else "some"),
        ("tasks, and those that finished", f"{tasks['asked']}, {tasks['finished']}"),
        ("tasks that were started again", f"{begun - tasks['asked']}"),
        ("seconds until the person's command began: median", f"{statistics.median(seconds):.1f}"),
        ("... longest", f"{max(seconds):.1f}"),
    ]
    write_table(PAGE, "spare", rows)
