"""The command `python -m amdgpu_discovery.simulate`: list profiles, build hosts from them, record this machine."""

from __future__ import annotations

import os
import sys

import amdgpu_discovery
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import replace_file
from amdgpu_discovery.host import ROOT_VARIABLE, host_from_environment
from amdgpu_discovery.simulate.build import build_host
from amdgpu_discovery.simulate.profile_json import format_profile, load_profile, profile_names
from amdgpu_discovery.simulate.record import record_profile

USAGE = f"""\
usage: python -m amdgpu_discovery.simulate COMMAND | --version

  list                          list the profiles that come with us
  build PROFILE DIR             build a host in DIR, from a profile's name or file
  record FILE [--with-serials]  write a profile of this machine (or of {ROOT_VARIABLE}) to FILE
"""


class UsageError(ToolkitError):
    """A command line that means nothing."""

    exit_code = 2


def main(arguments: list[str]) -> int:
    """Do what a command line says; return the exit code."""
    try:
        sys.stdout.write(_answer(arguments))
    except ToolkitError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _answer(arguments: list[str]) -> str:
    match arguments:
        case ["-h" | "--help"]:
            return USAGE
        case ["--version"]:
            return f"amdgpu-discovery version {amdgpu_discovery.__version__}\n"
        case ["list"]:
            return "".join(f"{name:19}{load_profile(name).about}\n" for name in profile_names())
        case ["build", profile, directory]:
            return _build(profile, directory)
        case ["record", "--with-serials", file] | ["record", file, "--with-serials"]:
            return _record(file, with_serials=True)
        case ["record", file] if not file.startswith("-"):
            return _record(file, with_serials=False)
    given = " ".join(arguments) or "nothing"
    raise UsageError(f"expected list, build PROFILE DIR or record FILE, got {given}", hint="--help says more")


def _build(profile: str, directory: str) -> str:
    host = build_host(directory, profile)
    return f"Built {profile} in {host.root}\nServe it to any program of the toolkit with {ROOT_VARIABLE}={host.root}\n"


def _record(file: str, *, with_serials: bool) -> str:
    host = host_from_environment(os.environ)
    name = os.path.basename(file).removesuffix(".json")
    profile = record_profile(host, name, with_serials=with_serials)
    replace_file(file, format_profile(profile))
    ids = "real" if with_serials else "made up, --with-serials keeps the real ones"
    return f"Wrote {file}: {profile.about}\nUnique ids are {ids}.\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
