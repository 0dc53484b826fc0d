"""Whatever happens in whatever order, the tracker knows what a plain model of it knows."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from amd_gpu_tracker.errors import GpusChanged, GpusRefused
from amdgpu_discovery.errors import ToolkitError

# More where there is time: TRACKER_HISTORIES=3000.
HISTORIES = int(os.environ.get("TRACKER_HISTORIES", "40"))
# What waits for the disk waits for nothing there.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
GPUS = range(4)
REQUESTS = st.sets(st.sampled_from(GPUS), min_size=1, max_size=3).map(sorted)
CONTAINERS = st.sampled_from(["a", "b", "c", "d"])
ROOTLESS = st.sampled_from(["u", "v"])


class AnyHistory(RuleBasedStateMachine):
    """Drives a machine and, beside it, a model: a switch, a set of exclusive GPUs, and who is alive with what."""

    machine_of = None  # set by the test, from its fixture

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY))
        self.machine = type(self).machine_of("mi210-4", self.directory)
        self.user = self.machine.as_rootless_user()
        self.enabled = False
        self.exclusive: set[int] = set()
        self.gpus_by_container: dict[str, list[int]] = {}  # what is tracked and alive
        self.init_by_container: dict[str, int] = {}  # what is alive, tracked or not
        self.partitioned = False  # is the hardware other than it was when the tracker looked at it?
        self.enable()

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            shutil.rmtree(self.directory)

    def forget(self) -> None:
        self.exclusive = set()
        # Root leaves what users wrote alone.
        self.gpus_by_container = {name: gpus for name, gpus in self.gpus_by_container.items() if name in "uv"}

    @rule(what=st.sampled_from(["enable", "disable", "reset", "reboot", "renumber", "replace a GPU"]))
    def something_rare(self, what: str) -> None:
        """One rule for all that ends much: containers must have the time to meet."""
        if what == "enable":
            self.enable()
        elif what == "disable":
            self.disable()
        elif what == "reset":
            self.reset()
        elif what == "replace a GPU":
            self.replace_gpu()
        else:
            self.reboot(renumber=what == "renumber")

    @precondition(lambda self: self.partitioned or not self.enabled)
    @rule()
    def begin_again(self) -> None:
        self.reset()
        self.enable()

    def enable(self) -> None:
        assert self.machine.tracker.enable() is not self.enabled
        if not self.enabled:
            self.forget()
            self.partitioned = False
        self.enabled = True

    def disable(self) -> None:
        assert self.machine.tracker.disable() is self.enabled
        self.enabled = False
        self.forget()

    def reset(self) -> None:
        assert self.machine.tracker.reset() is self.enabled
        # Who lives keeps what it has.
        self.exclusive = set()
        self.partitioned = False

    @rule(request=REQUESTS, exclusive=st.sampled_from([True, True, False]))
    def set_accessibility(self, request: list[int], exclusive: bool) -> None:
        text = ",".join(map(str, request))
        if self.enabled and self.partitioned:
            with pytest.raises(GpusChanged):
                self.machine.tracker.set_accessibility(text, exclusive=exclusive)
            return
        change = self.machine.tracker.set_accessibility(text, exclusive=exclusive)
        assert change.tracked is self.enabled
        if self.enabled:
            busy = {gpu for gpu in request if exclusive and len(self.users(gpu) - {"u", "v"}) > 1}
            rootless = {gpu for gpu in request if exclusive and self.users(gpu) & {"u", "v"}} - busy
            changed = set(request) - busy - rootless
            assert (set(change.changed), set(change.in_use), set(change.rootless)) == (changed, busy, rootless)
            self.exclusive = self.exclusive | changed if exclusive else self.exclusive - changed

    @rule(requests=st.dictionaries(CONTAINERS, REQUESTS, min_size=2))
    def create_several(self, requests: dict[str, list[int]]) -> None:
        for name, request in requests.items():
            self.create(name, request)

    @rule(name=CONTAINERS, request=REQUESTS)
    def create(self, name: str, request: list[int]) -> None:
        if name in self.init_by_container:
            return
        if self.enabled and self.partitioned:
            with pytest.raises(GpusChanged):
                self.machine.create(name, request)
        elif self.enabled and any(self.users(gpu) for gpu in request if gpu in self.exclusive):
            with pytest.raises(GpusRefused):
                self.machine.create(name, request)
        else:
            self.init_by_container[name] = self.machine.create(name, request)
            if self.enabled:
                self.gpus_by_container[name] = request

    @rule(name=ROOTLESS, request=REQUESTS)
    def create_rootless(self, name: str, request: list[int]) -> None:
        if name in self.init_by_container or self.comes_back_unseen(name):
            return
        if self.enabled and self.partitioned:
            with pytest.raises(GpusChanged):
                self.user.create(name, request)
        elif self.enabled and self.exclusive & set(request):
            with pytest.raises(GpusRefused):
                self.user.create(name, request)
        else:
            self.init_by_container[name] = self.user.create(name, request)
            if self.enabled:
                self.gpus_by_container[name] = request

    @precondition(lambda self: self.enabled and self.gpus_by_container)
    @rule(data=st.data(), request=REQUESTS)
    def create_an_id_that_lives(self, data: st.DataObject, request: list[int]) -> None:
        if self.partitioned:
            return
        name = data.draw(st.sampled_from(sorted(self.gpus_by_container)))
        creator = self.machine.start_process()
        assert self.machine_of_container(name).claim(name, request, creator=creator) is False
        self.machine.kill(creator)

    @rule(name=CONTAINERS, request=REQUESTS)
    def create_and_crash_before_exec(self, name: str, request: list[int]) -> None:
        if name in self.init_by_container:
            return
        creator = self.machine.start_process()
        with suppress(ToolkitError):
            self.machine.claim(name, request, creator=creator)
        self.machine.kill(creator)

    @precondition(lambda self: self.init_by_container)
    @rule(data=st.data(), poststop=st.booleans(), others_take_the_pid=st.booleans())
    def end(self, data: st.DataObject, poststop: bool, others_take_the_pid: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.init_by_container)))
        init = self.init_by_container.pop(name)
        self.gpus_by_container.pop(name, None)
        self.machine.kill(init)
        if poststop:
            self.machine_of_container(name).poststop(name)
        if others_take_the_pid:
            self.machine.start_process(init, seconds_ago=-60)

    @precondition(lambda self: self.init_by_container)
    @rule(data=st.data())
    def a_late_poststop_of_an_earlier_life(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.init_by_container)))
        self.machine_of_container(name).poststop(name)

    def reboot(self, *, renumber: bool) -> None:
        self.machine.boot()
        self.init_by_container = {}
        self.gpus_by_container = {}
        if renumber:
            self.machine.renumber_cards()

    def replace_gpu(self) -> None:
        self.machine.replace_gpu()
        self.partitioned = True

    def comes_back_unseen(self, name: str) -> bool:
        """Return whether a lease that nobody dropped would be proved by the next life of its rootless container.

        Root forgets its own leases with `disable` and not those of users. As the container is the same and has the
        same GPUs, what status says is true; here, where names ask for other GPUs each time, it would not be.
        """
        return not self.enabled and f"{name}@%2Frun%2Frunc.json" in self.user.lease_files()

    def machine_of_container(self, name: str):
        return self.user if name in "uv" else self.machine

    def users(self, gpu: int) -> set[str]:
        return {name for name, gpus in self.gpus_by_container.items() if gpu in gpus}

    @invariant()
    def status_is_the_models(self) -> None:
        if not hasattr(self, "machine"):
            return
        if self.enabled and self.partitioned:
            with pytest.raises(GpusChanged):
                self.machine.tracker.status()
            return
        status = self.machine.tracker.status()
        assert status.enabled is self.enabled
        assert status.problems == ()
        if self.enabled:
            assert {gpu.number for gpu in status.gpus if gpu.accessibility == "exclusive"} == self.exclusive
            assert {gpu.number: {use.container_id for use in gpu.containers} for gpu in status.gpus} == {
                gpu: self.users(gpu) for gpu in GPUS
            }

    @invariant()
    def an_exclusive_gpu_has_one_user_at_most(self) -> None:
        for gpu in getattr(self, "exclusive", ()):
            assert len(self.users(gpu)) <= 1


def test_the_tracker_agrees_with_a_model_of_it_after_any_operations(machine_of):
    AnyHistory.machine_of = staticmethod(machine_of)
    run_state_machine_as_test(
        AnyHistory,
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
