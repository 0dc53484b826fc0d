"""The pods that kubelet gives GPUs, from its PodResources socket; loaded by the service and by root's lists only."""
