"""Words that people try first, because other programs have them, and what to write for them here."""

from __future__ import annotations

from typing import Any

from amd_ctk.engines.known import ENGINES

GPUS = "amd-ctk gpu list"
JOBS = "amd-ctk queue"
STATE = "amd-ctk status"
CONFIGURE = "sudo amd-ctk runtime configure"
IN_A_CONTAINER = "amd-ctk run -- docker run -it IMAGE"
# The longest beginning of a wrong command line decides.
INSTEAD: dict[tuple[str, ...], str] = {
    ("list",): GPUS,
    ("ls",): GPUS,
    ("gpus",): GPUS,
    ("gpu-list",): GPUS,
    ("devices",): GPUS,
    ("gpu", "show"): GPUS,
    ("gpu", "info"): GPUS,
    ("ps",): JOBS,
    ("jobs",): JOBS,
    ("containers",): JOBS,
    ("smi",): STATE,
    ("amd-smi",): STATE,
    ("nvidia-smi",): STATE,
    ("info",): STATE,
    ("gpu", "status"): STATE,
    ("top", "--once"): STATE,
    ("top", "-1"): STATE,
    ("monitor",): "amd-ctk top",
    ("watch",): "amd-ctk top",
    ("metrics",): "amd-ctk gpu metrics",
    ("stats",): "amd-ctk report",
    ("history",): "amd-ctk report",
    ("logs",): "sudo less /var/log/amd-container-runtime.log",
    ("log",): "sudo less /var/log/amd-container-runtime.log",
    ("check",): "sudo amd-ctk doctor",
    ("diagnose",): "sudo amd-ctk doctor",
    ("configure",): CONFIGURE,
    ("setup",): CONFIGURE,
    ("install",): CONFIGURE,
    ("runtime", "setup"): CONFIGURE,
    ("runtime", "install"): CONFIGURE,
    ("runtime", "enable"): CONFIGURE,
    **{("runtime", "configure", engine): f"{CONFIGURE} --runtime={engine}" for engine in ENGINES},
    **{("doctor", engine): "sudo amd-ctk doctor" for engine in ENGINES},
    ("generate",): "sudo amd-ctk cdi generate",
    ("cdi", "create"): "sudo amd-ctk cdi generate",
    ("config", "get"): "amd-ctk config show",
    ("config", "list"): "amd-ctk config show",
    ("config", "edit"): "sudo amd-ctk config set KEY VALUE",
    ("run", "-it"): IN_A_CONTAINER,
    ("run", "-i"): IN_A_CONTAINER,
    ("run", "-d"): IN_A_CONTAINER,
    ("run", "-e"): IN_A_CONTAINER,
    ("run", "-v"): IN_A_CONTAINER,
    ("run", "--rm"): IN_A_CONTAINER,
    ("run", "--device"): IN_A_CONTAINER,
    ("submit",): "amd-ctk run --count=1 --wait -- COMMAND",
    ("srun",): "amd-ctk run --count=1 --wait -- COMMAND",
    ("wait",): "amd-ctk run --count=1 --wait -- COMMAND",
    ("lock",): "amd-ctk reserve free:1 --for=2h",
    ("allocate",): "amd-ctk reserve free:1 --for=2h",
    ("cancel",): "amd-ctk end NAME",
    ("kill",): "amd-ctk end NAME",
    ("stop",): "amd-ctk end NAME",
    ("rm",): "amd-ctk end NAME",
    ("allow",): "sudo amd-ctk users allow WHO",
    ("enable",): "sudo amd-ctk gpu-tracker enable",
    ("disable",): "sudo amd-ctk gpu-tracker disable",
    ("exclusive",): "sudo amd-ctk gpu-tracker 0 exclusive",
    ("gpu-tracker", "status", "--usage"): "amd-ctk status --usage",
    ("gpu-tracker", "status", "--peak"): "sudo amd-ctk status --peak",
    ("gpu-tracker", "status", "--refusals"): "amd-ctk gpu-tracker refused",
    ("gpu-tracker", "status", "--prometheus"): "amd-ctk gpu metrics",
    ("users", "add"): "sudo amd-ctk users allow WHO",
    ("image", "list"): "amd-ctk image check IMAGE",
    ("report", "yesterday"): "amd-ctk report --since=1d",
    ("reserve", "--gpus"): "amd-ctk reserve free:1 --for=2h",
    ("-v",): "amd-ctk --version",
    ("--json",): "amd-ctk status --json",
}
LONGEST = max(map(len, INSTEAD))


def explain_words(error: Any, words: list[str]) -> None:
    """Let an error about the words of a command line say what to write, if these words are known here."""
    for length in range(LONGEST, 0, -1):
        begun = tuple(word.partition("=")[0] for word in words[:length])
        if begun in INSTEAD:
            error.message = f"there is no 'amd-ctk {' '.join(begun)}': write '{INSTEAD[begun]}'"
            error.possibilities = None
            return
