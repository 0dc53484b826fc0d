"""A user's own queue promises no parts of GPUs, and gives GPUs that have the memory of a part."""

from __future__ import annotations

import os
import signal

import pytest

from amd_gpu_sharing.broker import serve
from amd_gpu_sharing.broker.requests.demand import resolve_demand
from amd_gpu_sharing.broker.requests.peer import Peer
from amd_gpu_sharing.broker.requests.people import Permission, Terms
from amd_gpu_sharing.broker.requests.protocol import RUN, Request
from amd_gpu_sharing.broker.wait import SOCKET_NAME, wait_in_line
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.choices.rules import NO_RULES
from amdgpu_discovery.errors import RequestError
from support.memory_limits import shrink
from support.shared_host import SECONDS, without_time


@pytest.fixture
def book(machine):
    """Return what a user without a permission has of a host whose GPU 0 has 4 GiB."""
    shrink(machine.host, 0)
    return machine.as_rootless_user().book


def wait(book, gpus):
    return wait_in_line(book, "own", gpus, NO_RULES, timeout=None, notify=print, release=print, vram_mb=5000)


def test_who_waits_gets_a_gpu_that_has_the_memory_and_no_part_of_it(book):
    assert wait(book, "auto:1").numbers == (1,)

    (path,) = book.state.lease_paths()
    assert book.state.read_lease(path).vram_mb == 0


def test_who_waits_for_a_gpu_that_never_has_the_memory_is_refused_at_once(book):
    with pytest.raises(RequestError, match="5000 MiB is more than GPU 0 has, which is 4096 MiB"):
        wait(book, "0")


@pytest.fixture
def own(book, monkeypatch):
    """Return a user's tracker whose queue is served by a process of an earlier version, which does not know parts."""
    tracker = Tracker(book.state.host)
    tracker._book = Book(book.state, Processes(), book.lock)
    listener = serve.listen(f"{book.state.run_directory}/{SOCKET_NAME}", serve.ONLY_OWNER)
    with monkeypatch.context() as earlier:
        known = {name: kind for name, kind in Request.fields().items() if name != "vram_mb"}
        earlier.setattr(Request, "_fields", known)
        earlier.setattr(serve, "open_state", lambda *_: book.state)
        earlier.setattr(serve, "STAND_IN_SECONDS", SECONDS)
        pid = os.fork()
        if not pid:
            try:
                serve.serve_waiters(book.state.host.root, "/proc", listener.detach())
            finally:
                os._exit(0)
    listener.close()
    yield tracker
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("request_text", ["free:1", "free:1,", "FREE & gfx90a"])
def test_a_queue_that_an_earlier_version_serves_looks_for_the_memory_too(own, request_text):
    first = own.reserve("1-3", name="first")
    said = []

    def end_first(sentence):
        if not said:
            first.release()
        said.append(without_time(sentence))

    waited = own.wait(request_text, name="late", timeout=SECONDS, tell=end_first, vram_mb=5000)

    assert waited.numbers == (1,)
    assert said[0] == "waiting for 1 GPU: 0 free of 3 that fit; GPUs 1-3: first since 12:00"


def test_the_process_that_serves_the_queue_looks_for_the_memory_too(book):
    peer = Peer(uid=os.geteuid(), gids=(), process=Processes().myself())
    request = Request(verb=RUN, name="own", gpus="free:1", wait=True, vram_mb=5000)

    demand = resolve_demand(book, Terms(), Permission(who="own"), peer, request)

    assert (demand.fitting, demand.vram_mb) == (0b1110, 0)
