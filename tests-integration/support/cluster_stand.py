"""A stand with Ray, JupyterHub and HTCondor, and who has which of its GPUs."""

from __future__ import annotations

import json

from support.stand import Stand, wait_until

# The last one is an account for programs.
PEOPLE = ("alice", "bob", "carol", "worker")
FIRST_UID = 1000
# GPUs 0 to 3, as in ROCR_VISIBLE_DEVICES.
IDS = ("GPU-ea35f57cc80deb35", "GPU-89caa15875ff5a43", "GPU-6e32f10efc982b4c", "GPU-012fe4f7fdaf06b9")
# AMD's own module needs a driver behind the nodes. Like it, this counts the machine's GPUs and ignores variables.
AMDSMI = """\
import glob


class AmdSmiInitFlags:
    INIT_AMD_GPUS = 2


class AmdSmiMemoryType:
    VRAM = 0


class AmdSmiLibraryException(Exception):
    pass


def amdsmi_init(flags):
    pass


def amdsmi_shut_down():
    pass


def amdsmi_get_processor_handles():
    return glob.glob("/sys/class/drm/renderD*")


def amdsmi_get_gpu_id(handle):
    return 0x740F
"""
SITE = "/usr/local/lib/python3.13/dist-packages"
READ_IDS = """\
import glob, json

found = {}
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        with open(path, "rb") as file:
            variables = dict(word.split(b"=", 1) for word in file.read().split(b"\\0") if b"=" in word)
    except OSError:
        continue
    if b"AMD_CTK_RESERVATION" in variables:
        found[path.split("/")[2]] = variables.get(b"ROCR_VISIBLE_DEVICES", b"").decode()
print(json.dumps(found))
"""


class ClusterStand(Stand):
    """Prepare it once, and end everything after each test."""

    def prepare(self) -> None:
        """Let all users have exclusive GPUs, as on the page."""
        for person in ("carol", "worker"):
            self.run(f"useradd --create-home --groups render --shell /bin/sh {person}")
        self.run("amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive; amd-ctk users allow everyone")
        self.write(f"{SITE}/amdsmi.py", AMDSMI)
        self.write("/usr/local/bin/read-ids", f"#!/usr/bin/python3\n{READ_IDS}")
        self.run("chmod 755 /usr/local/bin/read-ids; amd-ctk runtime configure --restart")

    def start(self, user: str, command: str, log: str) -> None:
        """Run a user's command in the background, with its output in a log in the user's home."""
        self.as_user(user, f"setsid sh -c '{command}' >/home/{user}/{log} 2>&1 </dev/null &")

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return self.run(f"cat {path}", check=False)

    def gpus_by_person(self) -> dict[str, list[int]]:
        """Return the GPUs of each person in the tracker's leases."""
        jobs = json.loads(self.run("amd-ctk queue list --json"))["running"]
        found: dict[str, list[int]] = {}
        for job in jobs:
            found.setdefault(PEOPLE[job["person"] - FIRST_UID], []).extend(job["gpus"])
        return {person: sorted(gpus) for person, gpus in found.items()}

    def ids_in_processes(self) -> dict[str, str]:
        """Return the ROCR_VISIBLE_DEVICES of every process with a reservation, by process id."""
        found: dict[str, str] = json.loads(self.run("read-ids"))
        return found

    def end_everything(self) -> None:
        """End the jobs of people and programs, and wait until no GPU is reserved."""
        self.run(
            "systemctl stop hub condor 'ray-worker@*' 2>/dev/null; docker ps -aq | xargs -r docker rm -f", check=False
        )
        for person in PEOPLE:
            self.run(f"pkill -KILL -U {person}", check=False)
        wait_until(lambda: not self.gpus_by_person() and not self.ids_in_processes())
