"""Words that people try first, because other programs have them, and what to write for them here."""

from __future__ import annotations

from typing import Any

from amd_ctk.engines.known import ENGINES

CONFIGURE = "sudo amd-ctk runtime configure"
# The beginnings of wrong command lines, by the line to write.
BEGINNINGS = {
    "amd-ctk gpu list": "list, ls, show, gpus, gpu-list, devices, gpu show, gpu info, gpu ls",
    "amd-ctk queue": "ps, jobs, containers, squeue",
    "amd-ctk status": "smi, amd-smi, rocm-smi, nvidia-smi, info, who, gpu status, top --once, top -1, top -n",
    "amd-ctk status --json": "--json, top --json",
    "amd-ctk status --usage": "gpu-tracker status --usage",
    "sudo amd-ctk status --peak": "gpu-tracker status --peak",
    "amd-ctk gpu-tracker refused": "gpu-tracker status --refusals",
    "amd-ctk top": "monitor, watch, status -w",
    "amd-ctk gpu metrics": "metrics, gpu-tracker status --prometheus",
    "amd-ctk report": "stats, history",
    "amd-ctk report --since=1d": "report yesterday",
    "amd-ctk report --since=7d": "report last, report --week, report --from",
    "sudo less /var/log/amd-container-runtime.log": "logs, log",
    "less NAME.log": "attach, output",
    "sudo amd-ctk doctor": "check, diagnose, doctor crio",
    "sudo amd-ctk doctor --fix": "fix, repair, doctor fix",
    "sudo amd-ctk doctor --prove": "test, prove, doctor prove",
    "sudo amd-ctk doctor --container NAME": "inspect, doctor container",
    **{f"sudo amd-ctk doctor --engine={engine}": f"doctor {engine}" for engine in ENGINES if engine != "crio"},
    "sudo amd-ctk doctor --only=gpu-state": "doctor gpu, doctor gpus",
    "amd-ctk explain docker run ...": "why, explain --runtime, explain -e, explain --gpus",
    CONFIGURE: "configure, setup, install, runtime setup, runtime install, runtime enable",
    f"{CONFIGURE} --restart": "runtime restart, restart",
    f"{CONFIGURE} --remove": "remove, uninstall, unconfigure, runtime remove, runtime unconfigure, runtime uninstall",
    **{f"{CONFIGURE} --runtime={engine}": f"runtime configure {engine}, configure {engine}" for engine in ENGINES},
    f"{CONFIGURE} --runtime=ENGINE": "runtime configure --engine",
    "sudo amd-ctk cdi generate": "generate, cdi create",
    "sudo amd-ctk cdi remove": "cdi delete, cdi rm",
    "amd-ctk config show": "config get, config list",
    "sudo amd-ctk config set KEY VALUE": "config edit, set",
    "sudo amd-ctk config unset KEY": "config reset, config remove",
    "amd-ctk run -- docker run -it IMAGE": (
        "run -it, run -i, run -d, run -e, run -v, run --rm, run --device, docker, podman, start"
    ),
    "amd-ctk run --count=1 --wait -- COMMAND": "submit, srun, sbatch, wait, queue add",
    "amd-ctk run --count=1 -- COMMAND": "run -g, run -n, run -c",
    "amd-ctk run --detach -- COMMAND": "run --background",
    "amd-ctk reserve free:1 --for=2h": "lock, allocate, reserve --gpus, reserve --until, gpu-tracker reserve",
    "amd-ctk run --vram=8GiB -- docker run IMAGE": "limit, run --memory",
    "docker exec -it CONTAINER COMMAND": "exec",
    "docker pull IMAGE": "pull, image pull",
    "amd-ctk end NAME": "cancel, kill, stop, rm, scancel",
    "sudo amd-ctk users allow WHO": "allow, user, users add",
    "sudo amd-ctk users deny WHO": "deny, users remove, users delete, users rm",
    "sudo amd-ctk gpu-tracker enable": "enable",
    "sudo amd-ctk gpu-tracker disable": "disable",
    "sudo amd-ctk gpu-tracker 0 exclusive": "exclusive, run --exclusive",
    "sudo amd-ctk gpu-tracker drain GPUS": "drain, swarm drain",
    "sudo amd-ctk gpu-tracker undrain GPUS": "undrain",
    "amd-smi set --gpu 0 --compute-partition CPX": "partition, gpu partition, gpu set",
    "amd-ctk image check IMAGE": "image list, image ls",
    "sudo amd-ctk swarm setup": "swarm init, swarm configure, swarm install",
    "amd-ctk swarm status": "swarm list",
    "amd-ctk slurm gres": "slurm configure, slurm setup",
    "amd-ctk simulate run mi300x-8 -- bash": "simulate start, simulate mi300x-8, simulate mi210-4, simulate shell",
    "amd-ctk --version": "-v, -V",
}
# The longest beginning of a wrong command line decides.
INSTEAD = {tuple(begun.split()): line for line, each in BEGINNINGS.items() for begun in each.split(", ")}
LONGEST = max(map(len, INSTEAD))


def explain_words(error: Any, words: list[str]) -> None:
    """Let an error about the words of a command line say what to write, if these words are known here."""
    beginnings = [tuple(word.partition("=")[0] for word in words[:length]) for length in range(LONGEST, 0, -1)]
    # An option may stand behind other words.
    for begun in (*beginnings, (*words[:1], getattr(error, "option_name", ""))):
        if begun in INSTEAD:
            error.message = f"there is no 'amd-ctk {' '.join(begun)}': write '{INSTEAD[begun]}'"
            error.possibilities = None
            return
    # What is missing has no message of its own; the help of the command has examples.
    examples = ((error.ctx and error.ctx.command.epilog) or "").splitlines()[2:]
    if examples and not error.message:
        error.message = f"Example: {examples[0]}"
