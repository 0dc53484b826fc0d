"""Four exclusive MI210 on this machine, and jobs that are processes of their own."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import traceback

import pytest

from amd_gpu_sharing.broker.wait import SOCKET_NAME
from amd_gpu_tracker.book.state import open_state
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.choices.rules import NO_RULES
from amdgpu_discovery.errors import ToolkitError
from support.shared_host import finish_poll, without_time

# Many times what a step takes, for machines that are busy.
SECONDS = 90
SLOW_SERVICE = "the service that gives out GPUs does not answer; waiting for it"


class Job:
    """A process that waits for GPUs, says what it got, and holds it until it is told to end."""

    def __init__(self, host, name, request, *, timeout=None, rules=NO_RULES, first=lambda: None):
        """Wait on a host, in a process that does something `first`."""
        self.name = name
        self._socket = f"{open_state(host, os.environ).run_directory}/{SOCKET_NAME}"
        said, self._say = os.pipe()
        self._end, end = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(said)
            os.close(end)
            first()
            self._run(Tracker(host, rules=rules), request, timeout)
        os.close(self._say)
        os.close(self._end)
        self._said, self._ending = said, end
        self._is_closed = False
        self._text = ""

    def _run(self, tracker, request, timeout):
        def tell(sentence):
            os.write(self._say, f"{sentence}\n".encode())

        try:
            with tracker.wait(request, name=self.name, timeout=timeout, tell=tell) as reservation:
                tell(f"got {reservation.numbers}")
                os.read(self._end, 1)
            tell("done")
        except ToolkitError as error:
            tell(f"{type(error).__name__}: {error}")
        except BaseException:
            tell(traceback.format_exc())
        os._exit(0)

    def line(self):
        """Return the next line that the job says, but that the service is slow, as on a busy machine; "" at its end."""
        while (line := self._next_line()) == SLOW_SERVICE:
            pass
        return line

    def _next_line(self):
        while "\n" not in self._text:
            ready = select.select([self._said], [], [], SECONDS)[0]
            assert ready, f"{self.name} says nothing"
            if not (more := os.read(self._said, 65536)):
                return ""
            self._text += more.decode()
        line, _, self._text = self._text.partition("\n")
        return without_time(line)

    def answer(self):
        """Return the next line but those about waiting, which are said again whenever something changed."""
        while (line := self.line()).startswith("waiting"):
            pass
        return line

    def has_said_more(self):
        return "\n" in self._text or bool(select.select([self._said], [], [], 0)[0])

    def is_silent(self, seconds=0.3):
        return not self._text and not select.select([self._said], [], [], seconds)[0]

    def end(self):
        os.write(self._ending, b"x")
        assert self.line() == "done"

    def signal(self, number):
        os.kill(self.pid, number)

    def stop(self):
        """Stop one who waits as Ctrl-Z does; return when it stands still and its broker will see that."""
        self.signal(signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)
        self.finish_poll()

    def finish_poll(self):
        """Return when the broker has ended its look: in that, one who has stopped since may still be given GPUs."""
        finish_poll(self._socket)

    def go_on(self):
        """Let it go on, and return when it does."""
        self.signal(signal.SIGCONT)
        os.waitpid(self.pid, os.WCONTINUED)

    def close(self):
        if self._is_closed:
            # Its process id may be that of another process by now.
            return
        self._is_closed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._said)
        os.close(self._ending)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)


@pytest.fixture
def host(exclusive_host):
    """Return four exclusive MI210."""
    return exclusive_host


@pytest.fixture
def job(host):
    """Return a function that starts a job; `host` is another host than that of the test."""
    jobs = []

    def start(name, request, *, host=host, **options):
        jobs.append(Job(host, name, request, **options))
        return jobs[-1]

    yield start
    for each in jobs:
        each.close()
