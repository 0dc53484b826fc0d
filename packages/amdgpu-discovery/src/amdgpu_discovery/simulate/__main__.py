"""The command `python -m amdgpu_discovery.simulate`: list profiles, build hosts from them, record this machine."""

from __future__ import annotations

import os
import sys

import amdgpu_discovery
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import ROOT_VARIABLE, host_from_environment
from amdgpu_discovery.simulate.commands import build, list_profiles, record

USAGE = f"""\
usage: python -m amdgpu_discovery.simulate COMMAND | --version

  list                          list the built-in profiles
  build PROFILE DIR             build a host in DIR, from a profile's name or file
  record FILE [--with-serials]  write a profile of this machine (or of {ROOT_VARIABLE}) to FILE
"""


class InvalidArguments(ToolkitError):
    """The command line is not valid."""

    exit_code = 2


def main(arguments: list[str]) -> int:
    """Carry out a command line; return the exit code."""
    try:
        print(_answer(arguments), end="")
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
            return list_profiles()
        case ["build", profile, directory]:
            return build(profile, directory)
        case ["record", "--with-serials", file] | ["record", file, "--with-serials"]:
            return record(host_from_environment(os.environ), file, with_serials=True)
        case ["record", file] if not file.startswith("-"):
            return record(host_from_environment(os.environ), file, with_serials=False)
    given = " ".join(arguments) or "nothing"
    raise InvalidArguments(f"expected list, build PROFILE DIR or record FILE, got {given}", hint="--help says more")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
