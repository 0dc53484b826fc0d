"""The command `python -m amdgpu_discovery.simulate`: list the profiles, build a host."""

from __future__ import annotations

import sys

from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import ROOT_VARIABLE
from amdgpu_discovery.simulate.build import build_host
from amdgpu_discovery.simulate.profile_files import load_profile, profile_names

USAGE = """\
usage: python -m amdgpu_discovery.simulate list
       python -m amdgpu_discovery.simulate build PROFILE DIR
"""


class UsageError(ToolkitError):
    """A command line that means nothing."""

    exit_code = 2


def main(arguments: list[str]) -> int:
    """Do what the command line says; return the exit code."""
    try:
        _run(arguments)
    except UsageError as error:
        sys.stderr.write(f"{error.message}\n{USAGE}")
        return error.exit_code
    except ToolkitError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _run(arguments: list[str]) -> None:
    match arguments:
        case ["list"]:
            for name in profile_names():
                sys.stdout.write(f"{name:20}{load_profile(name).about}\n")
        case ["build", profile, directory]:
            host = build_host(directory, profile)
            sys.stdout.write(f"Built {profile} in {host.root}; serve it with {ROOT_VARIABLE}={host.root}\n")
        case _:
            raise UsageError(f"not understood: {' '.join(arguments) or 'no command'}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
