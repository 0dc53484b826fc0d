"""What `amd-ctk explain` says of a container and the GPU Tracker's state is what the runtime then does, as a process.

200 states, each with no token, with that of the container's own reservation, with one that is over, and with that of
another reservation. AMD_EXPLAIN_STATES=1000 tries as many.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from amd_ctk.explain.plan import preview_start
from amd_device_spec.settings import Settings
from amd_gpu_tracker.book.lease import TOKEN, Lease, ProcessId
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host

STATES = int(os.environ.get("AMD_EXPLAIN_STATES", "200"))
AT_ONCE = 10
TOKENS = ("", "own", "stale", "another's")
CREATE = "from amd_container_runtime.shim import main; main()"
REQUESTS = (
    *("0", "1", "2,0", "0-1", "0-3", "all", "3", "1,2", "GPU-XX", "9"),
    *("auto:1", "auto:2", "auto:4", "free:1", "free:2", "all+discrete"),
)


class Machine:
    """Four MI210 that are tracked, a bundle, and a runc that only ends."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.host = build_host(directory / "host", "mi210-4", bare=True)
        self.state = State(self.host)
        self.keys = [gpu.key for gpu in locate_gpus(self.host)]
        self.bundle = directory / "bundle"
        self.bundle.mkdir()
        runc = directory / "bin" / "runc"
        runc.parent.mkdir()
        runc.write_text("#!/bin/sh\nexit 0\n")
        runc.chmod(0o755)
        self.environment = {"PATH": f"{runc.parent}:/usr/bin:/bin", "AMD_CTK_HOST_ROOT": self.host.root}
        self.tokens = {"": ""}
        self.tracker.enable()

    @property
    def tracker(self) -> Tracker:
        return Tracker(self.host)

    def hold(self, name: str, request: str, *, token: str = "") -> None:
        """Reserve GPUs as this process; `token` is what a test calls the token."""
        self.tokens[token or name] = self.tracker.reserve(request, name=name).environment[TOKEN]

    def let_go(self, name: str, request: str) -> None:
        """Reserve GPUs and give them back, so that the token is over."""
        self.hold(name, request, token="stale")
        self.tracker.release(name)

    def run_container(self, container_id: str, numbers: list[int], **fields: object) -> None:
        """Write the lease of a container whose process is this one."""
        processes = Processes()
        lease = Lease(
            container_id=container_id,
            creator=processes.myself(),
            gpus=tuple(self.keys[number] for number in numbers),
            ways=("env",),
            since=1.0,
            boot_offset=0.0,
            boot_id=processes.boot_id,
            namespace=processes.namespace,
        )
        self.state.prepare()
        self.state.write_lease(lease.replace(**fields))

    def break_lease(self, name: str) -> None:
        self.state.prepare()
        Path(self.state.lease_path(("", name))).write_text("{", encoding="utf-8")

    def explain(self, spec: dict[str, object]) -> object:
        plan = preview_start(spec, self.host, Settings(), container_id="c1")
        return str(plan.refusals[0]) if plan.refusals else plan.spec

    def create(self, spec: dict[str, object]) -> object:
        """Return what config.json holds in the end, or why the container does not start."""
        (self.bundle / "config.json").write_text(json.dumps(spec), encoding="utf-8")
        words = [sys.executable, "-I", "-c", CREATE, "create", "--bundle", str(self.bundle), "c1"]
        answer = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
        Path(self.state.lease_path(("", "c1"))).unlink(missing_ok=True)
        if answer.returncode:
            return answer.stderr.removeprefix("amd-container-runtime: ").rstrip("\n")
        return json.loads((self.bundle / "config.json").read_bytes())

    def spec_of(self, request: str, token: str, **linux: object) -> dict[str, object]:
        given = [f"{TOKEN}={self.tokens[token]}"] if token else []
        return {"process": {"args": ["sh"], "env": [f"AMD_VISIBLE_DEVICES={request}", *given]}, "linux": linux}


def put_into_a_state(machine: Machine, draw: random.Random) -> None:
    """Do a few things that administrators, programs and containers do, at random."""
    some = sorted(draw.sample(range(4), draw.randrange(5)))
    if some:
        machine.tracker.set_accessibility(",".join(map(str, some)), exclusive=True)
    machine.let_go("over", str(draw.randrange(4)))
    machine.hold("job", draw.choice(["0", "0,1", "2", "1-3"]), token="own")
    unused = [gpu.number for gpu in machine.tracker.status().gpus if not gpu.containers]
    machine.hold("other", str(draw.choice(unused)), token="another's")
    steps = [
        lambda: machine.run_container("web", [draw.randrange(4)]),
        lambda: machine.run_container("db", draw.sample(range(4), 2)),
        lambda: machine.run_container("gone", [draw.randrange(4)], creator=ProcessId(pid=4194304, start=1)),
        lambda: machine.tracker.drain(str(draw.randrange(4)), reason="fan swap"),
        machine.tracker.settings.require_reservation,
        lambda: machine.break_lease("torn"),
        lambda: machine.run_container("task", [draw.randrange(4)], ways=("swarm",), kinds=("AMD_GPU",)),
    ]
    for step in draw.sample(steps, draw.choice([0, 1, 1, 2, 2, 3])):
        step()
    if draw.randrange(12) == 0:
        machine.tracker.disable()


@pytest.mark.parametrize("batch", range(STATES // AT_ONCE))
def test_an_explanation_is_what_a_start_does(tmp_path, batch):
    for number in range(batch * AT_ONCE, (batch + 1) * AT_ONCE):
        machine = Machine(tmp_path / str(number))
        draw = random.Random(number)
        put_into_a_state(machine, draw)
        requests = [draw.choice(REQUESTS), *([draw.choice(REQUESTS)] if draw.randrange(3) == 0 else [])]
        for token in TOKENS:
            for request in requests[:1] if token else requests:
                spec = machine.spec_of(request, token)

                explained = machine.explain(spec)

                assert explained == machine.create(spec), (number, token, request)


IN_USE = "GPUs [1] are exclusive and already in use\nGPU 1 is in use by container web"
IN_USE_BY_C1 = "GPUs [1] are exclusive and already in use\nGPU 1 is in use by container c1"
IN_USE_BY_JOB = "GPUs [1] are exclusive and already in use\nGPU 1 is in use by job job"
RESERVED_ONLY = (
    "containers get only reserved GPUs on this host (start it with 'amd-ctk run --gpus=free:1 -- docker run ...')"
)
DRAINED = "GPU 1 is drained: fan swap ('sudo amd-ctk gpu-tracker undrain GPUS' ends it)"
NO_TRACKER = "needs the GPU Tracker; enable it with 'sudo amd-ctk gpu-tracker enable'"


def exclusive(machine: Machine, request: str = "all") -> None:
    machine.tracker.set_accessibility(request, exclusive=True)


def job_on(*requests: str):
    """Exclusive GPUs, and reservations: `job`, of which the container may have the token, and `other`."""

    def do(machine: Machine) -> None:
        exclusive(machine)
        for name, request in zip(("job", "other"), requests, strict=False):
            machine.hold(name, request, token="own" if name == "job" else "another's")

    return do


def web_on(*numbers: int):
    """Exclusive GPUs, some of which the container `web` has."""

    def do(machine: Machine) -> None:
        exclusive(machine)
        machine.run_container("web", list(numbers))

    return do


def drained(machine: Machine) -> None:
    machine.tracker.drain("1", reason="fan swap")


def reserved_only(machine: Machine) -> None:
    machine.tracker.settings.require_reservation()
    machine.hold("job", "1", token="own")


def over(machine: Machine) -> None:
    exclusive(machine)
    machine.let_go("over", "1")
    machine.run_container("web", [1])


def both(*steps):
    return lambda machine: [step(machine) for step in steps]


def nothing(_: Machine) -> None:
    """Four shared GPUs."""


# By docs/reference/gpu-tracker.md ("A reservation for a container", "Rules"), docs/reference/requests.md ("Choices")
# and the guides: what is done before, the request, the token, and the numbers that the container gets, or its refusal.
RELEASED = (
    "GPUs [2 0] allocated\nGPUs [1] are exclusive and already in use\n"
    "Released GPUs [2 0] used by container c1\nGPU 1 is in use by container web"
)
RELEASED_OF_JOB = (
    "GPUs [1] allocated\nGPUs [2] are exclusive and already in use\n"
    "Released GPUs [1] used by container c1\nGPU 2 is in use by job other"
)
TOO_FEW = (
    "auto:2: 1 of 4 GPUs is free (0-2 exclusive and in use);"
    " 'amd-ctk run --gpus=auto:2 --wait -- COMMAND' waits for one"
)
ANSWERS = [
    (nothing, "1", "", [1]),
    (nothing, "all", "", [0, 1, 2, 3]),
    (exclusive, "0-2", "", [0, 1, 2]),
    # An exclusive GPU goes to one container; a shared one to all who ask.
    (web_on(1), "1", "", IN_USE),
    (lambda machine: machine.run_container("web", [1]), "1", "", [1]),
    (web_on(1), "3", "", [3]),
    # All or nothing, in the guide's words, and in the order of the request.
    (web_on(1), "2,1,0", "", RELEASED),
    # A container with the token is not refused the GPUs of the reservation.
    (job_on("1"), "1", "", IN_USE_BY_JOB),
    (job_on("1"), "1", "own", [1]),
    (job_on("1-2"), "2", "own", [2]),
    # The token opens the GPUs of its reservation and no other.
    (job_on("1", "2"), "1-2", "own", RELEASED_OF_JOB),
    (job_on("1", "2"), "1", "another's", IN_USE_BY_JOB),
    (job_on("1", "2"), "3", "another's", [3]),
    # While the process that reserved them lives, ...
    (over, "1", "stale", IN_USE),
    (over, "0", "stale", [0]),
    # ... and not beside a container that shows no token of it.
    (
        both(job_on("1"), lambda machine: machine.run_container("web", [1])),
        "1",
        "own",
        "GPUs [1] are exclusive and already in use\nGPU 1 is in use by container web",
    ),
    # Where containers need a reservation, they get the GPUs of that and no other.
    (reserved_only, "1", "", RESERVED_ONLY),
    (reserved_only, "1", "own", [1]),
    (reserved_only, "1-2", "own", RESERVED_ONLY),
    (both(lambda machine: machine.let_go("over", "1"), reserved_only), "1", "stale", RESERVED_ONLY),
    (reserved_only, "auto:1", "own", RESERVED_ONLY),
    # Who has a drained GPU keeps it, and hands it on; nobody else gets it, and `all` leaves it out.
    (drained, "1", "", DRAINED),
    (drained, "all", "", [0, 2, 3]),
    (both(job_on("1"), drained), "1", "own", [1]),
    # Choices: unreserved GPUs first; free ones and those in use are never mixed; an exclusive GPU in use never.
    (lambda machine: machine.run_container("web", [0]), "auto:1", "", [1]),
    (web_on(0, 1, 2), "auto:2", "", TOO_FEW),
    (
        lambda machine: machine.run_container("web", [0, 1, 2, 3]),
        "free:1",
        "",
        "free:1: 0 of 4 GPUs are free (0-3 in use by web); 'amd-ctk run --gpus=free:1 --wait -- COMMAND' waits for one",
    ),
    (lambda machine: machine.tracker.disable(), "auto:1", "", f"auto {NO_TRACKER}"),
    # Nobody is refused because of a dead reservation.
    (
        both(exclusive, lambda machine: machine.run_container("gone", [1], creator=ProcessId(pid=4194304, start=1))),
        "1",
        "",
        [1],
    ),
    # A broken reservation refuses all exclusive GPUs, and no shared one.
    (both(lambda machine: exclusive(machine, "1"), lambda machine: machine.break_lease("torn")), "0", "", [0]),
    (both(exclusive, lambda machine: machine.break_lease("torn")), "0", "", "torn@.json cannot be understood: "),
]


@pytest.mark.parametrize(("before", "request_", "token", "expected"), ANSWERS)
def test_the_answer_is_that_of_the_documentation(tmp_path, before, request_, token, expected):
    machine = Machine(tmp_path / "machine")
    before(machine)
    spec = machine.spec_of(request_, token)

    explained = machine.explain(spec)

    assert answer_of(machine, explained) == expected or (isinstance(explained, str) and expected in explained)
    assert machine.create(spec) == explained


def answer_of(machine: Machine, told: object) -> object:
    """Return the numbers of the GPUs that a container gets, or why it is refused."""
    if isinstance(told, str):
        return told
    paths = {device["path"] for device in told["linux"].get("devices", ())}
    return [gpu.number for gpu in locate_gpus(machine.host) if f"/dev/dri/renderD{gpu.render_minor}" in paths]


@pytest.mark.parametrize(("root", "refused"), [("/run/docker/runtime-runc/moby", []), ("/run/other", [IN_USE_BY_C1])])
def test_a_container_that_runs_is_not_in_its_own_way(tmp_path, root, refused):
    machine = Machine(tmp_path / "machine")
    exclusive(machine)
    machine.run_container("c1", [1], root="/run/docker/runtime-runc/moby")

    plan = preview_start(machine.spec_of("1", ""), machine.host, Settings(), container_id="c1", root=root)

    assert [str(refusal) for refusal in plan.refusals] == refused
