"""One decision about a claim, for a start and for its preview: values in, a claim or a refusal out."""

from __future__ import annotations

from amd_gpu_tracker.book.lease import Holder, Lease, ProcessId
from amd_gpu_tracker.book.policy import Policy, TrackedGpu
from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.decision import Situation, decide
from amd_gpu_tracker.errors import GpusRefused, StateError
from amd_gpu_tracker.leases.lease_scan import LeaseScan
from amdgpu_discovery.gpu import GpuLocation, PciAddress

MAKER = ProcessId(pid=7, start=1)


def gpu(number):
    return GpuLocation(
        number=number,
        pci_address=PciAddress(domain=0, bus=number, device=0, function=0),
        render_minor=128 + number,
        card_minor=None,
        kfd_node=number,
        kfd_unique_id=0,
        pci_unique_id=0,
        partition_rank=0,
        partition_total=1,
        host_total=4,
    )


GPUS = [gpu(number) for number in range(4)]


def lease(name, *numbers, ways=("env",), **fields):
    times = {"since": 0.0, "boot_offset": 0.0, "boot_id": "", "namespace": ""}
    keys = tuple(GPUS[number].key for number in numbers)
    return Lease(container_id=name, creator=MAKER, gpus=keys, ways=ways, **times, **fields)


def claim(*numbers, **fields):
    holder = Holder(container_id="c1", creator=MAKER)
    return Claim(holder=holder, wanted=[GPUS[number] for number in numbers], **{"ways": ("env",), **fields})


def situation(*living, exclusive=(0, 1, 2, 3), require_reservation=False, unreadable=(), **fields):
    tracked = tuple(
        TrackedGpu(key=each.key, unique_id="0x0", partition="", partition_total=1, exclusive=each.number in exclusive)
        for each in GPUS
    )
    policy = Policy(enabled=True, gpus=tracked, require_reservation=require_reservation)
    others = LeaseScan(living=living, unreadable=unreadable)
    return Situation(policy=policy, others=others, name_of=lambda _: "", **fields)


def refusal(now, wanted):
    decided = decide(now, wanted)
    assert isinstance(decided, (GpusRefused, StateError))
    return decided.message


def test_a_claim_of_free_gpus_is_met_as_it_is():
    assert decide(situation(lease("web", 3)), claim(0, 1)) == claim(0, 1)


def test_a_shared_gpu_is_given_to_all_who_ask():
    assert decide(situation(lease("web", 1), exclusive=()), claim(1)) == claim(1)


def test_the_refusal_lists_gpus_in_the_order_in_which_they_were_asked_for():
    assert refusal(situation(lease("web", 1)), claim(0, 1, 2, order=(2, 0, 1))) == (
        "GPUs [2 0] allocated\n"
        "GPUs [1] are exclusive and already in use\n"
        "Released GPUs [2 0] used by container c1\n"
        "GPU 1 is in use by container web"
    )


def test_a_handed_on_claim_has_the_person_and_the_end_of_its_job():
    job = lease("train", 1, ways=("api",), token_digest="d", person=1000, limit=50.0)

    assert decide(situation(handed_on=job), claim(1)) == claim(
        1, reservation="train", reservation_digest="d", person=1000, limit=50.0
    )


def test_a_reservation_that_is_over_is_refused():
    assert refusal(situation(), claim(1, reservation="train")) == "the reservation train has ended"


def test_a_host_that_requires_reservations_gives_those_gpus_and_no_others():
    now = situation(require_reservation=True, handed_on=lease("train", 1))

    assert refusal(situation(require_reservation=True), claim(1)) == "containers get only reserved GPUs on this host"
    assert refusal(now, claim(1, 2)) == "containers get only reserved GPUs on this host"
    assert isinstance(decide(now, claim(1)), Claim)
    assert isinstance(decide(situation(require_reservation=True), claim(1, ways=("api",))), Claim)


def test_a_drained_gpu_is_refused_unless_it_was_handed_on():
    drained = GpusRefused("GPU 1 is drained")

    assert decide(situation(drained=drained), claim(1)) is drained
    assert isinstance(decide(situation(drained=drained, handed_on=lease("train", 1)), claim(1)), Claim)


def test_a_rootless_claim_gets_exclusive_gpus_that_were_handed_on_only():
    now = situation(is_rootless=True, handed_on=lease("train", 1))

    assert isinstance(decide(now, claim(1)), Claim)
    assert refusal(now, claim(1, 2)) == "GPUs [2] are exclusive, which users get only with a reservation"


def test_a_lease_that_cannot_be_read_refuses_exclusive_gpus_only():
    torn = StateError("the lease cannot be understood")

    assert decide(situation(unreadable=(torn,)), claim(1)) is torn
    assert isinstance(decide(situation(unreadable=(torn,), exclusive=(0,)), claim(1)), Claim)
    handed_on = situation(unreadable=(torn,), exclusive=(), handed_on=lease("train", 1))
    assert isinstance(decide(handed_on, claim(1)), Claim)


def test_a_promise_of_swarm_by_another_resource_is_refused():
    now = situation(lease("task", 1, kinds=("VRAM",)), exclusive=())

    assert refusal(now, claim(1, kinds=("AMD_GPU",))) == (
        "GPU 1 is reserved as VRAM by container task, not free as AMD_GPU"
    )
