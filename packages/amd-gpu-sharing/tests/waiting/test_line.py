"""Jobs that wait in line: in their order, also where one is killed, stopped or taken out."""

from __future__ import annotations

import contextlib
import errno
import os
import posix
import signal
import tempfile
import time
from pathlib import Path

import pytest

from amd_gpu_sharing.broker import serve, server
from amd_gpu_sharing.broker.wait import SOCKET_NAME
from amd_gpu_sharing.tickets import Tickets
from amd_gpu_tracker.book.lock import LibraryLock
from amd_gpu_tracker.book.state import State, open_state
from amd_gpu_tracker.errors import ContainerRunning, GpusRefused, TrackerDisabled
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.errors import FileError, RequestError
from support.shared_host import Broker, wait_until


def queue_of(host):
    return [ticket.name for ticket in Tracker(host).waiting()]


def files_of(host):
    return os.listdir(host.path("/run/amd-container-toolkit/waiting"))


def serving(host):
    """Return the process that serves those who wait, 0 where there is none."""
    root = host.root.encode()
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            # The leader of its session ends at once, and leaves its child to nobody.
            is_started = os.getsid(int(pid)) != int(pid)
            if is_started and root in words and any(b"stand_in.py" in word for word in words):
                return int(pid)
    return 0


def kill_serving(host):
    pid = serving(host)
    # 0 would be all processes of this group.
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: serving(host) != pid)


def got(waiter):
    while (said := waiter.line()).startswith("waiting"):
        pass
    return said


def test_a_free_gpu_is_had_at_once(host, job):
    assert job("a", "0").line() == "got (0,)"
    assert queue_of(host) == []


def test_a_waiter_is_told_what_it_waits_for_and_gets_it(host, job):
    first = job("train-3", "0-3")
    assert first.line() == "got (0, 1, 2, 3)"
    second = job("build-7", "0")
    assert second.line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: train-3 since 12:00"
    third = job("web", "0-1")
    assert third.line() == (
        "waiting for 2 GPUs: 0 free of 2 that fit, 1 job before this one (build-7: 1 GPU);"
        " GPUs 0 1: train-3 since 12:00"
    )
    assert queue_of(host) == ["build-7", "web"]

    first.end()

    assert second.answer() == "got (0,)"
    assert third.is_silent()
    second.end()
    assert third.answer() == "got (0, 1)"
    assert files_of(host) == []


def test_a_smaller_request_does_not_overtake(host, job):
    first = job("first", "0")
    assert first.line() == "got (0,)"
    second = job("second", "0-1")
    second.line()
    third = job("third", "1")
    third.line()

    assert third.is_silent()
    first.end()

    assert second.answer() == "got (0, 1)"
    second.end()
    assert third.answer() == "got (1,)"


def test_a_waiter_for_other_gpus_holds_up_nobody(host, job):
    job("first", "0").line()
    job("second", "0-1").line()

    assert job("third", "3").line() == "got (3,)"
    with Tracker(host).reserve("2", name="fourth") as reservation:
        assert reservation.numbers == (2,)
    assert Tracker(host).reserve("none", name="nothing").numbers == ()


def test_a_job_between_two_others_is_overtaken_by_neither(job):
    first = job("first", "0")
    first.line()
    second = job("second", "0-1")
    second.line()
    third = job("third", "1-2")
    assert third.line() == "waiting for 2 GPUs: 2 free of 2 that fit, 1 job before this one (second: 2 GPUs)"
    fourth = job("fourth", "2")
    assert fourth.line() == "waiting for 1 GPU: 1 free of 1 that fits, 1 job before this one (third: 2 GPUs)"

    first.end()

    assert second.answer() == "got (0, 1)"
    assert fourth.is_silent()
    second.end()
    assert third.answer() == "got (1, 2)"


def test_a_choice_leaves_the_gpus_for_which_others_wait(job):
    job("first", "0").line()
    job("second", "0").line()

    assert job("third", "free:3").line() == "got (1, 2, 3)"


def test_a_choice_stands_behind_those_who_may_get_the_same(job):
    job("first", "0").line()
    job("second", "0").line()
    third = job("third", "free:4")

    assert third.line().startswith("waiting for 4 GPUs: 3 free of 4, 1 job before this one (second: 1 GPU)")


def test_a_shared_gpu_has_no_queue(host, job):
    job("first", "0").line()
    job("second", "0").line()
    job("third", "free:4").line()
    Tracker(host).set_accessibility("3", exclusive=False)

    assert job("fourth", "3").line() == "got (3,)"
    with Tracker(host).reserve("3", name="fifth") as reservation:
        assert reservation.numbers == (3,)


def test_a_request_without_waiting_does_not_overtake_either(host, job):
    job("first", "0").line()
    job("second", "0-3").line()

    with pytest.raises(GpusRefused) as refusal:
        Tracker(host).reserve("3", name="third")

    assert str(refusal.value) == "1 job waits for GPUs before this one ('amd-ctk run --wait' waits in line)"


def test_a_request_without_waiting_gets_gpus_for_which_nobody_waits(host, job):
    job("first", "0").line()
    job("second", "0-2").line()

    with Tracker(host).reserve("free:1", name="third") as reservation:
        assert reservation.numbers == (3,)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_holder_that_is_killed_wakes_who_waits(job, number):
    first = job("first", "0")
    first.line()
    second = job("second", "0")
    second.line()

    first.signal(number)

    assert second.answer() == "got (0,)"


def test_a_waiter_that_is_killed_holds_up_nobody(host, job):
    first, second, third, fourth = (job(name, "0") for name in ("a", "b", "c", "d"))
    first, second, third, fourth = sorted((first, second, third, fourth), key=lambda each: "got" not in each.line())
    waiting = {each.name: each for each in (second, third, fourth)}
    second, third, fourth = (waiting[name] for name in queue_of(host))

    third.kill()
    second.kill()
    first.end()

    assert fourth.line() == "got (0,)"
    assert files_of(host) == []


def test_a_stopped_waiter_holds_up_nobody(job):
    first = job("first", "0")
    first.line()
    second = job("second", "0")
    second.line()
    third = job("third", "0")
    third.line()

    second.stop()
    first.end()

    assert third.answer() == "got (0,)"
    second.go_on()
    third.end()
    assert second.answer() == "got (0,)"


def test_a_stopped_waiter_keeps_nobody_out_who_does_not_wait(host, job):
    job("first", "0").line()
    second = job("second", "0")
    second.line()

    second.stop()

    with Tracker(host).reserve("3", name="third") as reservation:
        assert reservation.numbers == (3,)


def test_gpus_for_which_a_stopped_one_waits_go_to_the_next(job):
    job("first", "0").line()
    second = job("second", "0-1")
    second.line()
    third = job("third", "1")
    assert third.line() == "waiting for 1 GPU: 1 free of 1 that fits, 1 job before this one (second: 2 GPUs)"

    second.stop()

    assert third.answer() == "got (1,)"


def test_those_who_went_on_after_a_stop_are_before_one_who_comes_later(job):
    job("first", "0").line()
    stopped = []
    for name in ("second", "third"):
        stopped.append(job(name, "0"))
        stopped[-1].line()
    for each in stopped:
        each.stop()
    assert job("fourth", "0").line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: first since 12:00"
    for each in stopped:
        each.go_on()

    said = job("fifth", "0").line()

    before = "3 jobs before this one (second: 1 GPU, third: 1, fourth: 1)"
    assert said == f"waiting for 1 GPU: 0 free of 1 that fits, {before}; GPU 0: first since 12:00"


def test_a_waiter_behind_a_stopped_one_is_given_shared_gpus(host, job):
    Tracker(host).set_accessibility("0", exclusive=False)
    job("first", "all").line()
    second = job("second", "free:1")
    second.line()
    third = job("third", "auto:1")
    assert third.line() == (
        "waiting for 1 GPU: 0 free of 4, 1 job before this one (second: 1 GPU); GPUs 0-3: first since 12:00"
    )

    second.stop()

    assert third.answer() == "got (0,)"


def test_a_process_with_too_many_open_files_takes_no_ticket_away(host, job, monkeypatch):
    job("first", "0").line()
    job("second", "0").line()

    def fail(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patches:
        patches.setattr(posix, "open", fail)
        with pytest.raises(FileError, match="cannot be read"):
            Tickets(State(host), Processes()).waiting()
    assert queue_of(host) == ["second"]


@pytest.fixture
def impatient_service(host, monkeypatch):
    """Serve who waits by a process that gives up on the lock after a moment."""
    monkeypatch.setattr(serve, "SERVICE_LOCK_SECONDS", 0.1)
    monkeypatch.setattr(server, "QUEUE_POLL_SECONDS", 0.5)
    listener = serve.listen(f"{open_state(host, os.environ).run_directory}/{SOCKET_NAME}", serve.ONLY_OWNER)
    pid = os.fork()
    if not pid:
        try:
            serve.serve_waiters(host.root, "/proc", listener.detach())
        finally:
            os._exit(0)
    listener.close()
    yield
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.usefixtures("impatient_service")
def test_a_lock_that_is_held_for_long_takes_no_place_away(host, job):
    first = job("first", "0")
    first.line()
    second = job("second", "0")
    second.line()

    with LibraryLock(State(host).lock_path):
        first.kill()
        # The service gives up on the lock, and waits on.
        assert second.is_silent(1)

    assert second.answer() == "got (0,)"


def test_a_queue_whose_process_is_killed_keeps_its_order(host, job):
    first = job("first", "0")
    first.line()
    waiters = [job(name, "0") for name in "abcd"]
    for waiter in waiters:
        waiter.line()
    before = queue_of(host)

    for _ in range(3):
        wait_until(lambda: serving(host))
        kill_serving(host)
    first.end()

    for name in before:
        waiter = next(each for each in waiters if each.name == name)
        assert got(waiter) == "got (0,)"
        waiter.end()


@pytest.mark.needs("root")
def test_waiters_go_to_the_service_once_there_is_one(host, job):
    first = job("first", "0")
    first.line()
    second = job("second", "0")
    second.line()
    broker = Broker(host).start()
    third = job("third", "0")
    third.line()
    assert queue_of(host) == ["second", "third"]

    first.end()

    assert got(second) == "got (0,)"
    wait_until(lambda: not serving(host))
    second.end()
    assert got(third) == "got (0,)"
    broker.kill()


def test_a_waiter_can_be_taken_out_of_the_queue(host, job):
    first = job("first", "0")
    first.line()
    second = job("second", "0")
    second.line()
    third = job("third", "0")
    third.line()

    assert Tracker(host).cancel("third") is True
    assert third.line() == "WaitOver: the job third was removed from the queue"
    assert Tracker(host).cancel("second") is True
    assert second.line() == "WaitOver: the job second was removed from the queue"
    assert Tracker(host).cancel("second") is False
    assert files_of(host) == []


def test_the_wait_ends_after_its_time(host, job):
    job("first", "0").line()
    second = job("second", "0", timeout=1)
    second.line()

    assert second.line() == "WaitOver: there was no GPU for second within 1 s"
    assert files_of(host) == []


def test_the_wait_for_the_turn_ends_after_its_time(job):
    job("first", "0").line()
    job("second", "0").line()
    third = job("third", "0", timeout=1)
    third.line()

    assert third.line() == "WaitOver: there was no GPU for third within 1 s"


def test_a_gpu_that_is_made_shared_ends_the_wait(host, job):
    job("first", "0").line()
    second = job("second", "0")
    second.line()

    Tracker(host).set_accessibility("0", exclusive=False)

    assert second.answer() == "got (0,)"


def test_a_released_reservation_ends_the_wait(host, job):
    second = None
    with Tracker(host).reserve("0", name="first"):
        second = job("second", "0")
        second.line()

    assert second.answer() == "got (0,)"


def test_a_request_that_can_never_be_served_is_refused_at_once(host):
    with pytest.raises(RequestError):
        Tracker(host).wait("4", name="a")
    with pytest.raises(RequestError, match=r"^the request names no GPU to wait for"):
        Tracker(host).wait("none", name="a")


def test_a_name_waits_once(host, job):
    job("first", "0").line()
    job("second", "0").line()

    with pytest.raises(ContainerRunning, match=r"^a job second is already waiting"):
        Tracker(host).wait("1", name="second")
    with pytest.raises(ContainerRunning, match=r"^first already has GPUs"):
        Tracker(host).wait("1", name="first")


def test_disabling_the_tracker_ends_the_wait(host, job):
    job("first", "0").line()
    second = job("second", "0")
    second.line()

    Tracker(host).disable()

    assert second.line().startswith("TrackerDisabled: the GPU Tracker is disabled")
    with pytest.raises(TrackerDisabled):
        Tracker(host).wait("0", name="third")


def test_waiting_is_no_refusal(host, job):
    job("first", "0").line()
    job("second", "0").line()

    assert Tracker(host).refusals() == []


def test_damaged_and_foreign_files_hold_up_nobody(host, job):
    job("first", "0").line()
    directory = host.path("/run/amd-container-toolkit/waiting")
    os.makedirs(directory)
    for name, content in (
        ("00000000000000000001-damaged.json", b"\0" * 100),
        ("00000000000000000002-large.json", b" " * 1_000_000),
        ("00000000000000000003-left.json.9.tmp", b""),
        ("README.json", b""),
    ):
        with open(f"{directory}/{name}", "wb") as file:
            file.write(content)
    os.mkfifo(f"{directory}/00000000000000000004-pipe.json")
    os.mkdir(f"{directory}/directory")

    assert job("second", "1").line() == "got (1,)"
    assert sorted(files_of(host)) == ["README.json", "directory"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_takes_nobody_out_and_takes_no_ticket(host, job, tmp_path):
    job("first", "0").line()
    job("second", "0").line()
    for path in (tmp_path, *tmp_path.parents):
        if path.is_relative_to(tempfile.gettempdir()) and str(path) != tempfile.gettempdir():
            path.chmod(0o755)
    read, write = os.pipe()
    if not (pid := os.fork()):
        os.setresuid(65534, 65534, 65534)
        tracker = Tracker(host)
        for action in (lambda: tracker.cancel("second"), lambda: tracker.wait("1", name="enemy")):
            try:
                action()
            except BaseException as error:
                os.write(write, f"{type(error).__name__} ".encode())
        os._exit(0)
    os.waitpid(pid, 0)

    assert os.read(read, 100) == b"NotPermitted NotPermitted "
    assert queue_of(host) == ["second"]
    os.close(read)
    os.close(write)


def test_a_gpu_with_waiters_is_idle_for_a_short_time_only(job):
    first = job("first", "0")
    first.line()
    second = job("second", "0")
    second.line()
    time.sleep(0.5)

    began = time.monotonic()
    first.kill()
    second.line()

    # At rest 20 ms; this says that no interval decides.
    assert time.monotonic() - began < 0.9
