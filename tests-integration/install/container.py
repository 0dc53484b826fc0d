"""A container of the installed runtime: a bundle made with runc, busybox and jq of the system itself."""

from __future__ import annotations

# Where it is made. It asks for GPUs 0 and 2.
BUNDLE = "/root/bundle"
_MAKE = """
mkdir -p /root/bundle/rootfs/bin && cp /bin/busybox /root/bundle/rootfs/bin/ && cd /root/bundle && runc spec
jq '.process.env += ["AMD_VISIBLE_DEVICES=0,2"] | .process.args = ["/bin/busybox", "sh", "-c", "%s"]
    | .process.terminal = false' config.json >new && mv new config.json
"""
# Of the simulated MI300X host.
ITS_NODES = "card1 card17 renderD128 renderD144\n"


def bundle_that_runs(script: str) -> str:
    """Return the shell script that makes BUNDLE, whose container runs a script of its own."""
    return _MAKE % script
