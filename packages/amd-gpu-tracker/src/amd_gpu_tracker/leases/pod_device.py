"""A device of a pod as a value. It is apart from `pods`, because claims and lists that ask no kubelet know it."""

from __future__ import annotations

from amdgpu_discovery.value import Value


class PodDevice(Value):
    """A device of a container in a pod: its id as the plugin names it, or the name of a CDI device."""

    namespace: str
    pod: str
    container: str
    device: str

    @property
    def title(self) -> str:
        """Return namespace and name of the pod."""
        return f"{self.namespace}/{self.pod}"
