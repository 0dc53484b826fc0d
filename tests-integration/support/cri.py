"""containerd in a box, which makes pods and containers for gRPC requests like those of a kubelet.

This is the Container Runtime Interface of Kubernetes (CRI). Field numbers are those of its `api.proto`, version v1.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from support.docker import IMAGE, EngineError
from support.installed import require_module
from support.protobuf import decode, encode
from support.seen import SeenNode, parse_seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.box import Box
    from support.protobuf import Message

HANDLER = "amd"
# Kubernetes treats a name without a host as one in a registry.
CONTAINER_IMAGE = f"localhost/{IMAGE}"
# Its container holds the namespaces of a pod.
PAUSE_IMAGE = "localhost/pause:local"
SOCKET = "/run/containerd/containerd.sock"
CONFIGURATION = f"""\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Not the root of every virtual machine may protect a process from the end of memory.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
"""
# A pod with a user namespace needs its own network. This one has no connection.
NETWORK = '{"cniVersion": "0.3.1", "name": "none", "plugins": [{"type": "no-network"}]}'
NETWORK_PROGRAM = b"""#!/bin/sh
cat >/dev/null
case $CNI_COMMAND in
  VERSION) echo '{"cniVersion": "0.3.1", "supportedVersions": ["0.3.1"]}' ;;
  ADD) echo '{"cniVersion": "0.3.1", "interfaces": [{"name": "'$CNI_IFNAME'", "sandbox": "'$CNI_NETNS'"}],
       "ips": [{"version": "4", "address": "192.0.2.2/24", "interface": 0}]}' ;;
esac
"""
NETWORK_PROGRAMS = ("no-network", "loopback")
# Modes of namespaces.
OF_THE_POD, OF_THE_NODE = 0, 2
# Maps container ids from 0 on to host ids from here on.
FIRST_ID, IDS = 300000, 65536
# In seconds, for a busy machine.
TIMEOUT = 180


class Kubernetes:
    """A node of Kubernetes, as far as containers matter. `amd-ctk` has configured its containerd."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._grpc = require_module("grpc")
        self._names = count()
        box.write("/etc/cni/net.d/10-none.conflist", NETWORK.encode())
        for name in NETWORK_PROGRAMS:
            box.write(f"/opt/cni/bin/{name}", NETWORK_PROGRAM)
            box("chmod", "755", f"/opt/cni/bin/{name}")
        box.write("/etc/containerd/config.toml", CONFIGURATION.encode())
        box("amd-ctk", "runtime", "configure", "--runtime=containerd")
        box.start("containerd")
        box.wait_until("ctr", "version")
        for archive in ("oci.tar", "pause.tar"):
            box("ctr", "--namespace=k8s.io", "image", "import", "--no-unpack", f"/box/{archive}")
        self._channel = self._grpc.insecure_channel(f"unix:/proc/{box.pid}/root{SOCKET}")
        self.version = self._wait_for_version()

    def close(self) -> None:
        """Close the connection; the engine ends with its box."""
        self._channel.close()

    def start_pod(self, *, handler: str = HANDLER, user_namespace: bool = False) -> Pod:
        """Start a pod; `user_namespace` means `hostUsers: false` in a manifest."""
        name = f"pod{next(self._names)}"
        network = OF_THE_POD if user_namespace else OF_THE_NODE
        namespaces: Message = {1: network, 5: [_user_namespace()] if user_namespace else []}
        config: Message = {1: {1: name, 2: name, 3: "default"}, 8: {2: {1: namespaces}}}
        made = self.call("RunPodSandbox", {1: config, 2: handler})
        return Pod(self, _text(made, 1), config, namespaces)

    def call(self, method: str, message: Message) -> dict[int, list[int | bytes]]:
        """Send a message and return the fields of the answer; EngineError with the engine's message."""
        send = self._channel.unary_unary(f"/runtime.v1.RuntimeService/{method}")
        try:
            return decode(send(encode(message), timeout=TIMEOUT))
        except self._grpc.RpcError as error:
            raise EngineError(error.details()) from None

    def _wait_for_version(self) -> str:
        for _ in range(TIMEOUT):
            # containerd accepts connections before it serves pods.
            with suppress(EngineError):
                return _text(self.call("Version", {}), 3)
            time.sleep(1)
        raise EngineError((self.box.share / "containerd.log").read_text()[-3000:])


class Pod:
    """A context manager for a pod, whose containers share its namespaces."""

    def __init__(self, node: Kubernetes, pod_id: str, config: Message, namespaces: Message) -> None:
        self._node = node
        self._id = pod_id
        self._config = config
        self._namespaces = namespaces
        self._names = count()

    def __enter__(self) -> Pod:
        return self

    def __exit__(self, *_: object) -> None:
        # Removing a pod removes its containers.
        self._node.call("StopPodSandbox", {1: self._id})
        self._node.call("RemovePodSandbox", {1: self._id})

    def start(
        self,
        *,
        environment: Sequence[tuple[str, str]] = (),
        cdi_devices: Sequence[str] = (),
        devices: Sequence[str] = (),
        user: int = 0,
    ) -> str:
        """Start a container that stays, and return its id; EngineError if the runtime refuses."""
        config: Message = {
            1: {1: f"container{next(self._names)}"},
            2: {1: CONTAINER_IMAGE},
            3: ["sleep", "600"],
            6: [{1: name, 2: value} for name, value in environment],
            8: [{1: path, 2: path, 3: "rw"} for path in devices],
            15: {2: {3: self._namespaces, 5: {1: user}}},
            17: [{1: name} for name in cdi_devices],
        }
        container = _text(self._node.call("CreateContainer", {1: self._id, 2: config, 3: self._config}), 1)
        self._node.call("StartContainer", {1: container})
        return container

    def see(self, container: str, *command: str) -> list[SeenNode]:
        """Return the nodes that a command, by default `list-gpus`, prints in a container."""
        ended = self._node.call("ExecSync", {1: container, 2: command or ("list-gpus",), 3: TIMEOUT})
        assert ended.get(3, [0]) == [0], ended
        return parse_seen(_text(ended, 1))

    def remove(self, container: str) -> None:
        """Stop and remove a container."""
        self._node.call("StopContainer", {1: container, 2: 0})
        self._node.call("RemoveContainer", {1: container})


def _user_namespace() -> Message:
    ids: Message = {1: FIRST_ID, 3: IDS}
    return {1: OF_THE_POD, 2: [ids], 3: [ids]}


def _text(fields: dict[int, list[int | bytes]], number: int) -> str:
    [content] = fields.get(number, [b""])
    assert isinstance(content, bytes)
    return content.decode()
