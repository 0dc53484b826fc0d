"""What commands about simulated hosts do and print."""

from __future__ import annotations

import os

from amdgpu_discovery.files import replace_file
from amdgpu_discovery.host import ROOT_VARIABLE, Host
from amdgpu_discovery.recording.profile_json import format_profile
from amdgpu_discovery.recording.record import record_profile
from amdgpu_simulator.hosts.build import build_host
from amdgpu_simulator.profile_files import load_profile, profile_names


def list_profiles() -> str:
    """Return a line for each built-in profile."""
    return "".join(f"{name:19}{load_profile(name).about}\n" for name in profile_names())


def build(profile: str, directory: str) -> str:
    """Build a host in a directory; return instructions for its use."""
    host = build_host(directory, profile)
    return f"Built {profile} in {host.root}\nServe it to any program of the toolkit with {ROOT_VARIABLE}={host.root}\n"


def record(host: Host, file: str, *, with_serials: bool) -> str:
    """Write the profile of a host to a file; return a summary."""
    name = os.path.basename(file).removesuffix(".json")
    profile = record_profile(host, name, with_serials=with_serials)
    replace_file(file, format_profile(profile))
    ids = "real" if with_serials else "made up, --with-serials keeps the real ones"
    return f"Wrote {file}: {profile.about}\nUnique ids are {ids}.\n"
