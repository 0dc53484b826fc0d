"""What the help of each command shows as examples, and the manual page after it."""

from __future__ import annotations

import typer

# By the words of the command; those of the GPU Tracker have theirs where they are made.
EXAMPLES = {
    "top": ("amd-ctk top",),
    "status": ("amd-ctk status", "amd-ctk status --usage", "amd-ctk status --html -o gpus.html"),
    "version": ("amd-ctk version", "amd-ctk version --json"),
    "doctor": ("sudo amd-ctk doctor", "sudo amd-ctk doctor --container web", "amd-ctk doctor --only=driver,kfd -v"),
    "explain": (
        "amd-ctk explain -e AMD_VISIBLE_DEVICES=0-2",
        "amd-ctk explain -- docker run --runtime=amd -e AMD_VISIBLE_DEVICES=all IMAGE",
        "amd-ctk explain -- amd-ctk run --gpus=free:1 --wait -- python3 train.py",
        "amd-ctk explain compose.yaml training",
        "amd-ctk explain pod.yaml main",
        "amd-ctk explain --container web",
    ),
    "runtime configure": (
        "sudo amd-ctk runtime configure",
        "sudo amd-ctk runtime configure --runtime=podman --dry-run --diff",
        "sudo amd-ctk runtime configure --remove",
        "sudo amd-ctk runtime configure --runtime=podman --images",
    ),
    "config show": ("amd-ctk config show", "amd-ctk config show unknown-gpus"),
    "config set": (
        "sudo amd-ctk config set unknown-gpus ignore",
        "sudo amd-ctk config set swarm-resources AMD_GPU",
        "amd-ctk config set gpu-access reserved --dry-run",
    ),
    "config unset": ("sudo amd-ctk config unset unknown-gpus",),
    "report": (
        "sudo amd-ctk report",
        "sudo amd-ctk report --since=30d --by=gpu",
        "sudo amd-ctk report --html=week.html",
    ),
    "usage enable": ("sudo amd-ctk usage enable", "sudo amd-ctk usage enable --readers=gpu-admins"),
    "usage disable": ("sudo amd-ctk usage disable", "sudo amd-ctk usage disable --history"),
    "cdi generate": (
        "sudo amd-ctk cdi generate",
        "amd-ctk cdi generate --output=-",
        "amd-ctk cdi generate --by-model --dry-run",
        "sudo amd-ctk cdi generate --output=/etc/cdi/lab.json --vendor=lab.example",
    ),
    "cdi validate": ("amd-ctk cdi validate", "amd-ctk cdi validate --path=/etc/cdi/lab.json --vendor=lab.example"),
    "cdi list": ("amd-ctk cdi list", "amd-ctk cdi list --specs --json"),
    "cdi refresh": ("sudo amd-ctk cdi refresh",),
    "cdi watch": ("sudo amd-ctk cdi watch", "sudo amd-ctk cdi watch --interval=30"),
    "cdi remove": ("sudo amd-ctk cdi remove", "sudo amd-ctk cdi remove --all"),
    "gpu list": ("amd-ctk gpu list", "amd-ctk gpu list --wide", "amd-ctk gpu list --json"),
    "gpu query": ("amd-ctk gpu query --format='{gfx}'", "amd-ctk gpu query --format=labels --gpus=0-1"),
    "image targets": ("amd-ctk image targets rocm/pytorch",),
    "image check": ("amd-ctk image check rocm/pytorch", "amd-ctk image check rocm/pytorch --gpus=0-1"),
    "image pick": ("amd-ctk image pick registry.example/app:1.0", "amd-ctk image pick oci:images"),
    "image index": ("amd-ctk image index reg/app:1 --from reg/app:1-a --from reg/app:1-b",),
    "run": (
        "sudo amd-ctk run --gpus=auto:1 -- python3 train.py",
        "sudo amd-ctk run --gpus=auto:2 --wait -- docker run --rm rocm/pytorch rocm-smi",
        "sudo amd-ctk run --gpus=free:1 --wait=2h --name=nightly --unit -- ./nightly.sh",
        "amd-ctk run --preempt=now --wait -- ./worker.sh",
        "amd-ctk run --each=seeds.txt --output=logs -- python3 train.py --seed={}",
    ),
    "queue list": ("amd-ctk queue list", "amd-ctk queue list --json"),
    "reserve": ("amd-ctk reserve free:2 --for=4h --name=debug",),
    "keep": ("amd-ctk keep debug", "amd-ctk keep debug 2h", "sudo amd-ctk keep train 2d --user=alice"),
    "release": ("amd-ctk release debug",),
    "queue end": ("amd-ctk queue end nightly", "sudo amd-ctk queue end nightly --user alice"),
    "queue cancel": ("amd-ctk queue cancel nightly", "sudo amd-ctk queue cancel nightly --user alice"),
    "users allow": (
        "sudo amd-ctk users allow alice --gpus=2",
        "sudo amd-ctk users allow @gpu",
        "sudo amd-ctk users allow @lab-a --gpus=4 --together",
        "sudo amd-ctk users allow everyone --gpus=1 --groups=notebooks",
        "amd-ctk users allow @gpu --gpus=2 --dry-run",
    ),
    "users deny": ("sudo amd-ctk users deny alice", "sudo amd-ctk users deny --all"),
    "users require-reservation": ("sudo amd-ctk users require-reservation on",),
    "users list": ("amd-ctk users list", "amd-ctk users list --json"),
    "simulate list": ("amd-ctk simulate list",),
    "simulate build": ("amd-ctk simulate build mi210-4 server",),
    "simulate record": ("amd-ctk simulate record server.json",),
    "simulate run": (
        "amd-ctk simulate run mi300x-8 -- rocm-smi",
        "sudo amd-ctk simulate run mi210-8 -- bash",
    ),
    "simulate break": ("amd-ctk simulate break 3 lost", "amd-ctk simulate break --of mi300x-8 3 hot"),
    "swarm setup": (
        "sudo amd-ctk swarm setup",
        "sudo amd-ctk swarm setup --also-by-model --dry-run --diff",
        "sudo amd-ctk swarm setup --remove",
    ),
    "swarm status": ("amd-ctk swarm status", "amd-ctk swarm status --json"),
    "swarm constraint": (
        "amd-ctk swarm constraint docker:rocm/pytorch",
        "amd-ctk swarm constraint docker:rocm/pytorch --gfx=gfx942",
    ),
    "swarm submit": (
        "amd-ctk swarm submit sweep --vram=4000 --each=params.txt IMAGE -- ./train.sh",
        "amd-ctk swarm submit seed --gpus=1 --each=- IMAGE -- python3 train.py --seed",
    ),
    "swarm prune": ("sudo amd-ctk swarm prune --dry-run", "sudo amd-ctk swarm prune --keep-failed"),
    "slurm gres": ("amd-ctk slurm gres", "amd-ctk slurm gres --type=mi300x --node=node7"),
    "slurm status": ("amd-ctk slurm status", "amd-ctk slurm status --json"),
}


def add_examples(app: typer.Typer, group: str) -> None:
    """Give every command of a group its examples."""
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "")
        command.epilog = command.epilog or examples_of(f"{group} {name}")


def examples_of(words: str) -> str | None:
    """Return the end of a command's help, None where its module has given it one."""
    # Typer keeps the lines of a paragraph that begins like this.
    return "\n".join(["\b", "Examples:", *EXAMPLES[words]]) if words in EXAMPLES else None
