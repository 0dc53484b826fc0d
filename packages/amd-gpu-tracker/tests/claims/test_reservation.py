"""A container gets all the GPUs it asks for, or none and the guide's words."""

from __future__ import annotations

import os

import pytest

from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.decision import refusal
from amd_gpu_tracker.claims.reservation import withdraw
from amd_gpu_tracker.errors import GpusChanged, GpusRefused, Message, StateError


def test_shared_gpus_are_given_to_all_who_ask(machine):
    machine.create("first", [0, 1, 2])
    machine.create("second", [1, 3])

    assert machine.users() == {0: ["first"], 1: ["first", "second"], 2: ["first"], 3: ["second"]}


def test_an_exclusive_gpu_in_use_is_refused_with_everything_else(machine):
    machine.tracker.set_accessibility("1-3", exclusive=True)
    machine.create("90cb29e11e83", [1, 3])

    with pytest.raises(GpusRefused) as refused:
        machine.create("d23ff3dce183", [0, 1, 2])

    assert refused.value.message == (
        "GPUs [0 2] allocated\n"
        "GPUs [1] are exclusive and already in use\n"
        "Released GPUs [0 2] used by container d23ff3dce183\n"
        "GPU 1 is in use by container 90cb29e11e83"
    )
    assert machine.users() == {0: [], 1: ["90cb29e11e83"], 2: [], 3: ["90cb29e11e83"]}
    assert machine.lease_files() == ["90cb29e11e83@%2Frun%2Frunc.json"]


@pytest.mark.parametrize("gpu", [0, 1])
def test_a_claim_removes_what_a_killed_one_had_not_put_in_place(machine, gpu):
    machine.tracker.set_accessibility("1", exclusive=True)
    left = f"{machine.state.leases_directory}/killed@%2Frun%2Frunc.json.77.tmp"
    with open(left, "wb") as file:
        file.write(b'{"container_id"')
    os.mkdir(f"{machine.state.leases_directory}/somebodys.tmp")

    machine.create("first", [gpu])

    assert sorted(os.listdir(machine.state.leases_directory)) == ["first@%2Frun%2Frunc.json", "somebodys.tmp"]


def test_a_refusal_without_free_gpus_names_no_released_ones():
    assert refusal("c", [], [("container a", [0, 2]), ("container b", [0])]) == (
        "GPUs [0 2] are exclusive and already in use\n"
        "GPUs [0 2] are in use by container a\n"
        "GPU 0 is in use by container b"
    )


def test_a_refusal_on_many_partitions_has_a_line_for_each_container_and_its_name(machine_of, tmp_path):
    machine = machine_of("mi300x-8-cpx")
    machine.tracker.enable()
    machine.tracker.set_accessibility("all", exclusive=True)
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "config.json").write_text('{"annotations": {"nerdctl/name": "train\\ner"}}')
    machine.claim("first", list(range(40)), creator=machine.start_process(), bundle=str(bundle))
    machine.create("second", list(range(40, 62)))

    with pytest.raises(GpusRefused) as refused:
        machine.create("third", list(range(63)))

    numbers = " ".join(map(str, range(62)))
    assert refused.value.message == (
        "GPUs [62] allocated\n"
        f"GPUs [{numbers}] are exclusive and already in use\n"
        "Released GPUs [62] used by container third\n"
        f"GPUs [{' '.join(map(str, range(40)))}] are in use by container first (train?er)\n"
        f"GPUs [{' '.join(map(str, range(40, 62)))}] are in use by container second"
    )


def test_a_free_exclusive_gpu_is_given_to_one(machine):
    machine.tracker.set_accessibility("2", exclusive=True)

    machine.create("first", [2])

    with pytest.raises(GpusRefused):
        machine.create("second", [2])


def test_nothing_is_written_while_the_tracker_is_disabled(untracked):
    before = sorted(os.walk(untracked.host.root))

    assert untracked.claim("c1", [0], creator=os.getpid()) is True

    assert sorted(os.walk(untracked.host.root)) == before


def test_nothing_is_written_after_the_tracker_was_disabled(machine):
    machine.tracker.disable()
    before = os.stat(machine.state.lock_path).st_mtime_ns, machine.lease_files()

    assert machine.claim("c1", [0], creator=os.getpid()) is True

    assert (os.stat(machine.state.lock_path).st_mtime_ns, machine.lease_files()) == before


def test_a_container_without_gpus_is_not_tracked(machine):
    assert machine.claim("c1", [], creator=os.getpid()) is True

    assert machine.lease_files() == []


def test_a_second_create_of_a_living_id_changes_nothing(machine):
    machine.create("c1", [0])
    before = machine.users()

    assert machine.claim("c1", [1, 2], creator=machine.start_process()) is False

    assert machine.users() == before == {0: ["c1"], 1: [], 2: [], 3: []}


def replaced_engine(machine, container_id, root):
    """Make a container, then let the pid namespace of its engine be another; return the new one's creator."""
    creator = machine.start_process()
    machine.claim(container_id, [0], creator=creator, root=root)
    machine.kill(creator)
    namespace = machine.proc / "self" / "ns" / "pid"
    namespace.unlink()
    namespace.symlink_to("pid:[4026532999]")
    return machine.start_process()


def test_a_container_started_again_in_another_pid_namespace_takes_its_old_lease_over(machine):
    machine.tracker.set_accessibility("0", exclusive=True)
    root = str(machine.directory / "runc")
    creator = replaced_engine(machine, "c1", root)

    assert machine.claim("c1", [0, 1], creator=creator, root=root) is True

    assert machine.users() == {0: ["c1"], 1: ["c1"], 2: [], 3: []}
    machine.kill(creator)
    assert machine.users() == {0: [], 1: [], 2: [], 3: []}


def test_a_container_that_the_runtime_has_keeps_a_lease_that_nobody_can_judge(machine):
    root = machine.directory / "runc"
    creator = replaced_engine(machine, "c1", str(root))
    (root / "c1").mkdir(parents=True)

    assert machine.claim("c1", [1], creator=creator, root=str(root)) is False

    assert machine.users() == {0: ["c1"], 1: [], 2: [], 3: []}


def test_a_hook_of_a_container_that_is_made_takes_its_old_lease_over(machine):
    root = machine.directory / "runc"
    creator = replaced_engine(machine, "c1", str(root))
    (root / "c1").mkdir(parents=True)
    runtime = machine.processes.find(creator)

    assert machine.claim("c1", [1], creator=creator, root=str(root), creators=(runtime,)) is True

    assert machine.users() == {0: [], 1: ["c1"], 2: [], 3: []}


def test_a_reservation_by_the_api_that_nobody_can_judge_stays(machine):
    creator = machine.start_process()
    machine.claim("job", [0], creator=creator, root="", ways=("api",))
    namespace = machine.proc / "self" / "ns" / "pid"
    namespace.unlink()
    namespace.symlink_to("pid:[4026532999]")

    assert machine.claim("job", [1], creator=machine.start_process(), root="") is False


def test_the_same_id_under_another_runtime_root_is_another_container(machine):
    machine.create("c1", [0])

    machine.claim("c1", [0], creator=machine.start_process(), root="/run/other")

    assert machine.users()[0] == ["c1", "c1"]


def test_a_restarted_container_claims_again(machine):
    machine.tracker.set_accessibility("0", exclusive=True)
    machine.kill(machine.create("c1", [0]))

    machine.create("c1", [0])

    assert machine.users()[0] == ["c1"]


def test_a_restarted_container_is_refused_if_somebody_took_its_gpu_meanwhile(machine):
    machine.tracker.set_accessibility("0", exclusive=True)
    machine.kill(machine.create("c1", [0]))
    machine.create("c2", [0])

    with pytest.raises(GpusRefused, match=r"GPUs \[0\] are exclusive and already in use"):
        machine.create("c1", [0])


def test_the_maker_of_a_container_may_extend_its_lease(machine):
    creator = machine.start_process()
    machine.claim("c1", [0], creator=creator)
    init = machine.processes.find(machine.start_process())

    machine.claim("c1", [0, 2], creator=creator, ways=("cdi",), init=init)

    lease = machine.state.read_lease(machine.state.lease_path(("/run/runc", "c1")))
    assert (lease.ways, lease.init) == (("env", "cdi"), init)
    assert machine.users() == {0: ["c1"], 1: [], 2: ["c1"], 3: []}


def test_a_child_of_the_maker_may_extend_the_lease(machine):
    creator = machine.start_process()
    machine.claim("c1", [0], creator=creator)
    child = machine.start_process(parent=creator)

    granted = machine.claim("c1", [1], creator=child, creators=machine.processes.ancestors(child, 3))

    assert granted
    assert machine.users() == {0: ["c1"], 1: ["c1"], 2: [], 3: []}


def test_an_extension_is_refused_like_a_claim(machine):
    machine.tracker.set_accessibility("1", exclusive=True)
    machine.create("other", [1])
    creator = machine.start_process()
    machine.claim("c1", [0], creator=creator)

    with pytest.raises(GpusRefused):
        machine.claim("c1", [0, 1], creator=creator)

    assert machine.users() == {0: ["c1"], 1: ["other"], 2: [], 3: []}


def test_withdrawing_undoes_only_ones_own_claim(machine):
    machine.create("c1", [0])
    newcomer = machine.holder("c1", creator=machine.start_process())

    withdraw(machine.state, newcomer)
    assert machine.users()[0] == ["c1"]

    machine.claim("c2", [0], creator=newcomer.creator.pid)
    withdraw(machine.state, newcomer.replace(container_id="c2"))
    assert machine.users()[0] == ["c1"]


def test_leases_that_are_over_are_dropped_by_the_next_claim(machine):
    machine.kill(machine.create("gone", [0]))
    machine.create("alive", [0])

    assert machine.lease_files() == ["alive@%2Frun%2Frunc.json"]


@pytest.mark.parametrize(("pid", "left"), [(8000, 40 - 16), (8001, 40), (8007, 40), (8008, 40 - 16)])
def test_one_claim_of_shared_gpus_in_eight_checks_sixteen_leases(machine, monkeypatch, pid, left):
    inits = [machine.create(f"c{number}", [0]) for number in range(40)]
    for init in inits:
        machine.kill(init)
    monkeypatch.setattr("posix.getpid", lambda: pid)

    machine.create("alive", [0])

    assert len(machine.lease_files()) == left + 1


def test_a_claim_of_exclusive_gpus_checks_all_leases_of_them(machine):
    inits = [machine.create(f"c{number}", [0]) for number in range(20)]
    policy = machine.state.read_policy()
    machine.state.write_policy(policy.with_accessibility([policy.gpus[0].key], exclusive=True))
    for init in inits:
        machine.kill(init)

    machine.create("alive", [0])

    assert machine.lease_files() == ["alive@%2Frun%2Frunc.json"]


def test_other_gpus_than_those_tracked_are_refused(machine_of, tmp_path):
    machine = machine_of("mi210-4", tmp_path / "a")
    machine.tracker.enable()
    bigger = machine_of("mi210-8", tmp_path / "b")
    policy = machine.state.read_policy()
    bigger.state.write_policy(policy)

    with pytest.raises(GpusChanged) as refused:
        bigger.create("c1", [0])

    assert str(refused.value) == "GPUs info is invalid. Please reset GPU Tracker."


def test_a_broken_policy_refuses_every_gpu(machine):
    with open(machine.state.policy_path, "w") as file:
        file.write('{"version":1,"ena')

    hint = r"\(repair it with 'sudo amd-ctk gpu-tracker reset'\)"
    with pytest.raises(StateError, match=rf"cannot be understood: .* {hint}"):
        machine.create("c1", [0])


def test_a_broken_lease_refuses_exclusive_gpus_and_no_others(machine):
    machine.tracker.set_accessibility("1", exclusive=True)
    path = machine.state.lease_path(("/run/runc", "broken"))
    with open(path, "w") as file:
        file.write("{}")

    machine.create("shared", [0])
    with pytest.raises(StateError, match=f"the lease {path} cannot be understood"):
        machine.create("exclusive", [1])


def test_rootless_containers_get_no_exclusive_gpu(machine, tmp_path):
    machine.tracker.set_accessibility("1", exclusive=True)
    machine.state = State(machine.host, str(tmp_path / "user"))

    machine.create("shared", [0])
    with pytest.raises(GpusRefused) as refused:
        machine.create("exclusive", [0, 1])

    assert str(refused.value) == (
        "GPUs [1] are exclusive, which users get only with a reservation"
        " ('sudo amd-ctk users allow NAME' lets a user reserve them with 'amd-ctk run')"
    )


def test_refusals_are_remembered(machine):
    machine.tracker.set_accessibility("1", exclusive=True)
    machine.create("first", [1])

    with pytest.raises(GpusRefused):
        machine.create("second", [1])

    (remembered,) = machine.tracker.refusals()
    assert (remembered.container_id, remembered.ways) == ("second", ("env",))
    assert remembered.message == ("GPUs [1] are exclusive and already in use\nGPU 1 is in use by container first")


def test_a_refusal_names_people_where_names_are_looked_up_and_else_their_numbers():
    message = Message(text="GPU 0 is in use by job user 1 of {1} and {2} of {10}", people=(1, 10))
    refused = GpusRefused(message, hint="wait")

    assert str(refused) == "GPU 0 is in use by job user 1 of user 1 and {2} of user 10 (wait)"
    assert str(refused.told({1: "daemon", 10: "uucp"}.__getitem__)) == (
        "GPU 0 is in use by job user 1 of daemon and {2} of uucp (wait)"
    )
