"""Where leases are: the host's own, and those of rootless users, which root may read and others for themselves."""

from __future__ import annotations

import os

from amd_gpu_tracker.records.rootless import DIRECTORY_NAME, USER_DIRECTORIES
from amd_gpu_tracker.records.state import State


def find_places(state: State) -> list[State]:
    """Return all places whose leases the caller may read, the host's own first."""
    places = (State(state.host), state, *find_places_of_users(state))
    return list({place.run_directory: place for place in places}.values())


def find_places_of_users(state: State) -> list[State]:
    """Return those of rootless users."""
    users = state.host.path(USER_DIRECTORIES)
    names = sorted(os.listdir(users)) if os.path.isdir(users) else []
    directories = [f"{users}/{name}/{DIRECTORY_NAME}" for name in names]
    return [State(state.host, path) for path in directories if os.access(f"{path}/leases", os.R_OK | os.X_OK)]
