"""Random files of pods for `podman kube play` with settings that decide about GPUs, from a seed."""

from __future__ import annotations

import json
from random import Random
from typing import Any, NamedTuple

from support.recorder import AMD_RUNTIME
from support.run_lines import IMAGE, PLAIN_IMAGE

# The image of the container that holds the namespaces of a pod.
PAUSE = "pause:local"
# The first process of a container has to ask for SIGTERM, or Podman waits ten seconds for its end.
PAUSE_COMMAND = '--change=CMD ["sh", "-c", "trap exit TERM; sleep 600 & wait", "pause-of-pod"]'
GPUS = "AMD_VISIBLE_DEVICES"
ENVIRONMENT = (
    *({"name": GPUS, "value": value} for value in ("0", "all", "1,3", "9", "none", "", "$(HOST)")),
    {"name": GPUS},
    {"name": "HIP_VISIBLE_DEVICES", "value": "1"},
    {"name": "HIP_VISIBLE_DEVICES", "value": ""},
    {"name": "AMD_LABEL", "value": "pod"},
    {"name": GPUS, "valueFrom": {"configMapKeyRef": {"name": "gpus", "key": "which"}}},
    {"name": GPUS, "valueFrom": {"configMapKeyRef": {"name": "gpus", "key": "none"}}},
    {"name": GPUS, "valueFrom": {"configMapKeyRef": {"name": "gpus", "key": "none", "optional": True}}},
)
FROM = (
    {"configMapRef": {"name": "gpus"}},
    {"configMapRef": {"name": "other", "optional": True}},
    {"configMapRef": {"name": "other"}},
)
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "gpus"},
    "data": {"which": "2", "AMD_VISIBLE_DEVICES": "1", "AMD_LABEL": "map"},
}
LIMITS = (
    *({f"amd.com/gpu={name}": count} for name, count in (("0", 1), ("1", 2), ("all", 1), ("9", 1), ("2", 0))),
    *({"amd.com/gpu": 1}, {"example.com/twice=0": 1}, {"memory": "1Gi"}),
    {"amd.com/gpu=0": 1, "amd.com/gpu=3": 1},
)
# The path of a node on the host, its path in the container, and its type.
NODES = (
    *(("/dev/kfd", "/dev/kfd", "CharDevice"), ("/dev/dri/renderD128", "/dev/dri/renderD128", "CharDevice")),
    *(("/dev/dri/renderD129", "/dev/gpu", "CharDevice"), ("/dev/dri/renderD200", "/dev/gpu2", "CharDevice")),
    *(("/dev/dri", "/dev/dri", "CharDevice"), ("/dev/kfd", "/dev/kfd", "BlockDevice")),
)
CONTAINER_CONTEXTS: tuple[dict[str, Any], ...] = (
    *({"privileged": True}, {"privileged": False}, {"runAsUser": 1000}, {"runAsUser": 0, "runAsGroup": 44}),
    *({"runAsGroup": 44}, {"capabilities": {"add": ["SYS_ADMIN"]}}, {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
    {"capabilities": {"add": ["ALL"]}},
)
POD_CONTEXTS: tuple[dict[str, Any], ...] = (
    *({"runAsUser": 1000}, {"runAsGroup": 44}, {"supplementalGroups": [44, 110]}, {"supplementalGroups": [0]}),
    {"runAsUser": 0, "supplementalGroups": [110]},
)
ANNOTATIONS = ({"cdi.k8s.io/gpu": "amd.com/gpu=0"}, {"note": "yes"})
TEMPLATES = ("Deployment", "DaemonSet", "Job")


class Pod(NamedTuple):
    """The text of a file whose pod has the container `main`, and whether amd-container-runtime starts it."""

    text: str
    with_runtime: bool


def containers_conf(*, with_runtime: bool) -> str:
    """Return Podman's configuration, with AMD's runtime or the recorder as the default runtime."""
    chosen = "amd" if with_runtime else "recorder"
    return (
        f'[engine]\ninfra_image = "{PAUSE}"\nruntime = "{chosen}"\n'
        f'[engine.runtimes]\namd = ["{AMD_RUNTIME}"]\nrecorder = ["/box/recorder"]\n'
    )


def make_pods(seed: int, count: int) -> list[Pod]:
    """Return files; the same seed gives the same ones."""
    rng = Random(seed)
    return [_make_pod(rng) for _ in range(count)]


def make_pods_with_nodes() -> list[Pod]:
    """Return files whose limits or requests name nodes in Podman's own form."""
    resources = (
        {"limits": {"podman.io/device=/dev/kfd": 1}},
        {"limits": {"podman.io/device=/dev/dri/renderD128": 1, "amd.com/gpu=0": 1}},
        {"limits": {"podman.io/device=/dev/dri": 1}},
        {"limits": {"podman.io/device=/dev/dri/renderD128:/dev/gpu": 1}},
        {"requests": {"podman.io/device=/dev/kfd": 1}},
        {"requests": {"amd.com/gpu=0": 1}},
    )
    containers = ({"name": "main", "image": PLAIN_IMAGE, "resources": found} for found in resources)
    return [Pod(_as_file(Random(0), {"containers": [one]}), with_runtime=False) for one in containers]


def _make_pod(rng: Random) -> Pod:
    nodes = [(f"v{number}", *node) for number, node in enumerate(_some(rng, NODES, 0.4))]
    container = {
        "name": "main",
        "image": rng.choice((IMAGE, IMAGE, PLAIN_IMAGE)),
        **({"env": found} if (found := _some(rng, ENVIRONMENT, 0.7)) else {}),
        **({"envFrom": rng.sample(FROM, 1)} if rng.random() < 0.25 else {}),
        **({"resources": {"limits": rng.choice(LIMITS)}} if rng.random() < 0.5 else {}),
        **({"securityContext": rng.choice(CONTAINER_CONTEXTS)} if rng.random() < 0.4 else {}),
        **({"volumeMounts": [{"name": name, "mountPath": target} for name, _, target, _ in nodes]} if nodes else {}),
    }
    volumes = [{"name": name, "hostPath": {"path": path, "type": kind}} for name, path, _, kind in nodes]
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        **({"volumes": volumes} if volumes else {}),
        **({"securityContext": rng.choice(POD_CONTEXTS)} if rng.random() < 0.4 else {}),
    }
    return Pod(_as_file(rng, spec), rng.random() < 0.7)


def _as_file(rng: Random, spec: dict[str, Any]) -> str:
    metadata: dict[str, Any] = {"name": "pod"}
    if rng.random() < 0.2:
        metadata["annotations"] = rng.choice(ANNOTATIONS)
    made: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    if rng.random() < 0.2:
        kind = rng.choice(TEMPLATES)
        spec = spec if kind == "Job" else {**spec, "restartPolicy": "Always"}
        template = {"metadata": {"labels": {"app": "pod"}, **metadata}, "spec": spec}
        made = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {"template": template}}
    # JSON is YAML.
    return "---\n".join(f"{json.dumps(one, indent=2)}\n" for one in (CONFIG_MAP, made))


def _some(rng: Random, options: tuple[Any, ...], share: float) -> list[Any]:
    return rng.sample(options, rng.randint(1, 2)) if rng.random() < share else []
