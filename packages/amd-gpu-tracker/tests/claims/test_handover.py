"""A reservation of a program, handed on to the container that the program starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import amd_gpu_tracker
import amdgpu_discovery
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.claims.handover import build_environment, digest_of
from amd_gpu_tracker.errors import ContainerRunning, GpusRefused
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.watch.states.find import find_states
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host

IN_USE = "GPUs [1] are exclusive and already in use\nGPU 1 is in use by job train"


@pytest.fixture
def host(exclusive_host):
    """Return four exclusive MI210."""
    return exclusive_host


def start(host, name, *numbers, **environment):
    """Reserve as a container that starts with this environment."""
    gpus = locate_gpus(host)
    spec = {"process": {"env": [f"{key}={value}" for key, value in environment.items()]}}
    container = StartingContainer(container_id=name, spec=spec, bundle="/", root="/run/runc")
    claim = claim_nodes(host, container, granted=[gpus[number] for number in numbers], located=gpus)
    return claim.reserve()


def users(host):
    return {gpu.number: [use.container_id for use in gpu.containers] for gpu in Tracker(host).status().gpus}


def test_a_reservation_ends_with_its_block(host):
    with Tracker(host).reserve("1-2", name="train") as reservation:
        assert reservation.numbers == (1, 2)
        assert users(host) == {0: [], 1: ["train"], 2: ["train"], 3: []}

    assert users(host) == {0: [], 1: [], 2: [], 3: []}


def test_a_request_alone_is_a_reservation_under_a_name_of_its_own(host):
    tracker = Tracker(host)
    with tracker.reserve("auto:1") as first, tracker.reserve("free:2+xgmi") as second:
        assert (first.numbers, second.numbers) == ((0,), (1, 2))
        assert first.name.startswith(f"python-{os.getpid()}-")
        assert users(host) == {0: [first.name], 1: [second.name], 2: [second.name], 3: []}
        assert start(host, "web", 0, **first.environment)

    assert users(host) == {0: ["web"], 1: [], 2: [], 3: []}


def test_a_request_alone_may_be_for_another_process(host):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as holder:
        reservation = Tracker(host).reserve("1", pid=holder.pid)
        assert users(host)[1] == [reservation.name]
        holder.kill()

    assert users(host)[1] == []


def test_a_request_alone_is_refused_as_any_other(host):
    with pytest.raises(RequestError, match=r"^auto:9: this host has 4 GPUs"):
        Tracker(host).reserve("auto:9")
    with Tracker(host).reserve("all"), pytest.raises(GpusRefused, match=r"^auto:1: 0 of 4 GPUs are free"):
        Tracker(host).reserve("auto:1")


def test_its_environment_names_the_gpus_and_a_secret(host):
    with Tracker(host).reserve("2,1", name="train") as reservation:
        token = reservation.environment.pop("AMD_CTK_RESERVATION")

    assert reservation.environment == {
        "AMD_VISIBLE_DEVICES": "1,2",
        "ROCR_VISIBLE_DEVICES": "GPU-89caa15875ff5a43,GPU-6e32f10efc982b4c",
        "HIP_VISIBLE_DEVICES": "0,1",
    }
    name, dot, secret = token.rpartition(".")
    assert (name, dot, len(secret)) == ("train", ".", 32)


def test_gpus_without_ids_are_named_as_rocm_counts_them(host):
    gpus = [gpu.replace(kfd_unique_id=0) for gpu in locate_gpus(host)]

    assert [gpu.kfd_node for gpu in gpus] == [4, 5, 3, 2]
    assert build_environment(gpus[:2], gpus, "t") == {
        "AMD_VISIBLE_DEVICES": "0,1",
        "ROCR_VISIBLE_DEVICES": "2,3",
        "HIP_VISIBLE_DEVICES": "0,1",
        "AMD_CTK_RESERVATION": "t",
    }


def test_partitions_of_a_card_are_counted_by_hip_as_rocr_leaves_them(tmp_path):
    gpus = locate_gpus(build_host(tmp_path / "host", "mi300x-8-cpx"))

    environment = build_environment(gpus[8:11], gpus, "t")

    assert environment["AMD_VISIBLE_DEVICES"] == "8,9,10"
    assert environment["HIP_VISIBLE_DEVICES"] == "0,1,2"


def test_the_secret_is_in_no_file(host):
    with Tracker(host).reserve("1", name="train") as reservation:
        secret = reservation.environment["AMD_CTK_RESERVATION"].rpartition(".")[2]
        leases = host.path("/run/amd-container-toolkit/leases")

        assert [secret in Path(leases, name).read_text() for name in os.listdir(leases)] == [False]


def test_a_container_with_the_token_gets_the_gpus_of_the_reservation(host):
    with Tracker(host).reserve("1", name="train") as reservation:
        assert start(host, "web", 1, **reservation.environment)
        assert users(host)[1] == ["train", "web"]

    assert users(host)[1] == ["web"]


@pytest.mark.needs("root")
def test_a_container_without_the_token_is_refused(host):
    with Tracker(host).reserve("1", name="train"), pytest.raises(GpusRefused) as refusal:
        start(host, "web", 1)

    assert str(refusal.value) == IN_USE


@pytest.mark.parametrize(
    "token",
    [
        "",
        "train",
        "train.",
        "train.00000000000000000000000000000000",
        f"train.{digest_of('train')}",
        "../leases/train.x",
        "train\0.x",
        "\ud800.x",
        "x" * 1_000_000,
        "." * 512,
    ],
)
@pytest.mark.needs("root")
def test_a_token_that_was_made_up_opens_nothing(host, token):
    with Tracker(host).reserve("1", name="train"), pytest.raises(GpusRefused) as refusal:
        start(host, "web", 1, AMD_CTK_RESERVATION=token)

    assert str(refusal.value) == IN_USE


def test_containers_with_one_token_share_the_gpus_and_others_have_none(host):
    with Tracker(host).reserve("1", name="train") as reservation:
        assert start(host, "server", 1, **reservation.environment)
        assert start(host, "helper", 1, **reservation.environment)

        with pytest.raises(GpusRefused, match="GPU 1 is in use by container helper"):
            start(host, "other", 1)

    assert users(host)[1] == ["server", "helper"]


def test_a_token_holds_as_long_as_a_container_that_was_given_it(host):
    with Tracker(host).reserve("1", name="train") as reservation:
        start(host, "server", 1, **reservation.environment)

    assert start(host, "later", 1, **reservation.environment)
    with pytest.raises(GpusRefused, match="GPU 2 is in use by job other"), Tracker(host).reserve("2", name="other"):
        start(host, "thief", 2, **reservation.environment)
    for container in ("server", "later"):
        Tracker(host).release(container)
    with Tracker(host).reserve("1", name="next"), pytest.raises(GpusRefused, match="GPU 1 is in use by job next"):
        start(host, "late", 1, **reservation.environment)


def test_a_container_that_outlives_its_job_is_called_like_the_job_everywhere(host):
    detached = "4f2a" * 16
    with Tracker(host).reserve("1", name="train") as reservation:
        start(host, detached, 1, **reservation.environment)

    start(host, "other", 2)

    assert [(job.name, job.containers) for job in Tracker(host).jobs()] == [("train", (detached,))]
    assert [gpu.what for gpu in find_states(host)] == ["", "train", "other", ""]


def test_a_token_opens_no_other_gpu(host):
    with (
        Tracker(host).reserve("1", name="train") as reservation,
        Tracker(host).reserve("2", name="other"),
        pytest.raises(GpusRefused, match="GPU 2 is in use by job other"),
    ):
        start(host, "thief", 1, 2, **reservation.environment)


def test_a_token_of_a_reservation_that_is_over_opens_nothing(host):
    with Tracker(host).reserve("1", name="train") as first:
        pass

    with Tracker(host).reserve("1", name="train"), pytest.raises(GpusRefused):
        start(host, "thief", 1, **first.environment)


def test_the_token_of_a_dead_holder_opens_nothing(host):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as holder:
        reservation = Tracker(host).reserve("1", name="train", pid=holder.pid)
        holder.kill()
    start(host, "web", 1)

    with pytest.raises(GpusRefused, match="GPU 1 is in use by container web"):
        start(host, "thief", 1, **reservation.environment)


def test_without_a_gpu_there_is_nothing_to_hand_on(host):
    assert Tracker(host).reserve("none", name="train").environment == {
        "AMD_VISIBLE_DEVICES": "",
        "ROCR_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "",
    }


@pytest.mark.needs("root")
def test_a_job_is_told_of_jobs_and_of_no_gpus_that_it_never_had(host):
    with Tracker(host).reserve("1", name="train"), pytest.raises(GpusRefused) as refusal:
        Tracker(host).reserve("0-2", name="late")

    assert str(refusal.value) == IN_USE


def test_a_reservation_of_a_dead_process_is_over(machine):
    machine.tracker.set_accessibility("1", exclusive=True)
    pid = machine.start_process()
    machine.tracker.reserve("1", name="train", pid=pid)

    machine.kill(pid)

    assert machine.users()[1] == []
    assert machine.tracker.reserve("1", name="next").numbers == (1,)


def test_a_process_id_that_was_given_again_holds_nothing(machine):
    machine.tracker.set_accessibility("1", exclusive=True)
    pid = machine.start_process(seconds_ago=100)
    machine.tracker.reserve("1", name="train", pid=pid)

    machine.kill(pid)
    machine.start_process(pid)

    assert machine.users()[1] == []


def test_a_name_is_given_once(host):
    with Tracker(host).reserve("1", name="train"), pytest.raises(ContainerRunning) as refusal:
        Tracker(host).reserve("2", name="train")

    assert str(refusal.value) == "train already has GPUs (give each reservation its own name)"


def test_a_container_of_an_earlier_reservation_of_the_same_name_is_a_user_of_its_own(host):
    Tracker(host).set_accessibility("1", exclusive=False)
    with Tracker(host).reserve("1", name="train") as first:
        start(host, "web", 1, **first.environment)

    with Tracker(host).reserve("1", name="train"):
        assert Tracker(host).set_accessibility("1", exclusive=True).in_use == (1,)


def test_a_reservation_and_its_container_are_one_user_of_a_shared_gpu(host):
    Tracker(host).set_accessibility("1", exclusive=False)
    with Tracker(host).reserve("1", name="train") as reservation:
        start(host, "web", 1, **reservation.environment)
        assert Tracker(host).set_accessibility("1", exclusive=True).changed == (1,)
        Tracker(host).set_accessibility("1", exclusive=False)

        start(host, "second", 1)
        assert Tracker(host).set_accessibility("1", exclusive=True).in_use == (1,)


def test_a_program_that_holds_gpus_by_number_loads_neither_the_queue_nor_choices(host):
    packages = {os.path.dirname(os.path.dirname(package.__file__)) for package in (amd_gpu_tracker, amdgpu_discovery)}
    code = (
        f"import sys; sys.path[:0] = {sorted(packages)!r}; from amd_gpu_tracker import Tracker;"
        f" from amdgpu_discovery.host import Host; Tracker(Host({host.root!r})).reserve('1', name='train').release();"
        " heavy = {'contextlib', 'enum', 'functools', 'json', 're', 'socket', 'hashlib',"
        " 'amdgpu_discovery.choices.grammar', 'amdgpu_discovery.choices.candidates', 'amd_gpu_tracker.claims.choice',"
        " 'amd_gpu_tracker.claims.choosing'};"
        " print([name for name in sorted(sys.modules) if name in heavy or '.broker' in name])"
    )

    answer = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout == "[]\n"
