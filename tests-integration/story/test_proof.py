"""`amd-ctk doctor --prove` as installed: in every engine that is there, as root and without.

No driver is behind the nodes, so each row says that; a refused node of another GPU is asked of the kernel all the same.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.e2e

# Debian 12's crun loads a device filter only with CAP_SYS_RESOURCE, which root lacks on some machines that run this.
RUNC, BY_RUNC = "/etc/containers/containers.conf.d/50-runc.conf", '[engine]\nruntime = "runc"\n'
NO_GPU = "no GPU  no driver answers behind the nodes: this is not a GPU"


@pytest.fixture(scope="module")
def engines(stand):
    """Return a machine whose engines were configured as docs/how-to/install.md says."""
    stand.configure_podman()
    stand.run("amd-ctk runtime configure --restart; amd-ctk cdi generate; loginctl enable-linger alice")
    return stand


def rows_of(printed):
    """Return the rows of each engine: what is said of each GPU."""
    found = {}
    for line in printed.splitlines():
        engine, number, *rest = line.split(maxsplit=2)
        if number.isdecimal() and rest:
            found.setdefault(engine, []).append(rest[0])
    return found


def test_engines_of_root_are_asked(engines):
    engines.write(RUNC, BY_RUNC)
    printed = engines.run("cd /root && amd-ctk doctor --prove; echo ended with $?")
    engines.run(f"rm {RUNC}")

    found = rows_of(printed)
    # `ctr` may not make a cgroup on the stand. e2e/test_prove.py asks a containerd of this machine.
    assert len(found.pop("containerd")) == 4
    assert found == {engine: [NO_GPU] * 4 for engine in ("docker", "podman")}
    assert printed.endswith("ended with 1\n")
    assert engines.run("docker images -q; podman images -q; ctr -n amd-ctk-proof containers list -q") == ""


def test_rootless_podman_is_asked_and_has_no_node_of_another_gpu(engines):
    printed = engines.as_user("alice", "amd-ctk doctor --prove", check=False)

    assert rows_of(printed) == {"podman": [NO_GPU] * 4}
