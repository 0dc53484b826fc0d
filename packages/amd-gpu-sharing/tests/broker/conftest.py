"""A broker and the people who ask it."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

from amdgpu_simulator import build_host
from support.enabled_tracker import enable
from support.shared_host import Broker, Person


@pytest.fixture(autouse=True)
def _root():
    if os.geteuid():
        pytest.skip("needs root, for processes of several users")


@pytest.fixture
def host():
    """Return eight exclusive MI210 in a directory that every user may enter."""
    directory = tempfile.mkdtemp(prefix="amd-broker-")
    os.chmod(directory, 0o755)
    built = build_host(f"{directory}/host", "mi210-8", bare=True)
    enable(built, exclusive=True)
    yield built
    shutil.rmtree(directory)


@pytest.fixture
def broker(host):
    """Return a broker that listens; everybody may."""
    made = Broker(host).start()
    yield made
    if made.pid:
        made.kill_with_children()


@pytest.fixture
def person(broker):
    """Return a function that lets somebody ask."""
    people = []

    def start(uid, request, **options):
        people.append(Person(broker, uid, request, **options))
        return people[-1]

    yield start
    for each in people:
        each.close()
