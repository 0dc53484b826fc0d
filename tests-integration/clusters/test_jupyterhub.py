"""JupyterHub with a spawner of processes, and with DockerSpawner; its users ask by its API."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from support.cluster_stand import IDS, ClusterStand
from support.clusters_page import blocks_of
from support.stand import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.clusters]

# Beside what the page says: who may come in, and a service that asks in their names.
AROUND = """
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.services = [{"name": "tester", "api_token": "this-is-the-token-of-a-test"}]
c.JupyterHub.load_roles = [{"name": "tester", "services": ["tester"], "scopes": ["admin:users", "admin:servers"]}]
"""
# The image has no file of its own but /etc: what runs in it is the machine's.
AROUND_DOCKER = """
c.JupyterHub.hub_ip = "172.17.0.1"
c.DockerSpawner.image = "hub:local"
c.DockerSpawner.read_only_volumes = {"/usr": "/usr"}
c.DockerSpawner.cmd = ["jupyterhub-singleuser", "--allow-root"]
"""
MAKE_IMAGE = """
mkdir -p /tmp/image/etc /tmp/image/tmp /tmp/image/usr
cd /tmp/image
for link in bin lib lib64 sbin; do ln -sfn usr/$link $link; done
cp /etc/passwd /etc/group etc/
tar c . | docker import - hub:local
"""
ASK = """\
#!/usr/bin/python3
import sys, urllib.error, urllib.request

method, path = sys.argv[1:]
request = urllib.request.Request(
    f"http://127.0.0.1:8000/hub/api{path}",
    method=method,
    headers={"Authorization": "token this-is-the-token-of-a-test"},
    data=b"{}" if method == "POST" else None,
)
try:
    with urllib.request.urlopen(request) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
except OSError:
    print("0")
"""


@pytest.fixture
def start_hub(stand: ClusterStand) -> Callable[[str], None]:
    """Return a function that starts a hub with a configuration."""

    def start(configuration: str) -> None:
        stand.run("rm -rf /srv/hub; mkdir -p /srv/hub; journalctl --rotate --vacuum-time=1s")
        stand.write("/srv/hub/jupyterhub_config.py", configuration + AROUND)
        stand.write("/usr/local/bin/ask-hub", ASK)
        stand.run("chmod 755 /usr/local/bin/ask-hub")
        stand.run("systemd-run --quiet --unit=hub --working-directory=/srv/hub jupyterhub")
        wait_until(lambda: ask(stand, "GET", "/users").startswith("200"))

    return start


def ask(stand: ClusterStand, method: str, path: str) -> str:
    return stand.run(f"ask-hub {method} {path}")


def start_server(stand: ClusterStand, user: str) -> None:
    ask(stand, "POST", f"/users/{user}")
    ask(stand, "POST", f"/users/{user}/server")
    # It may say so before the server answers.
    wait_until(lambda: state_of(stand, user) != "spawn")


def state_of(stand: ClusterStand, user: str) -> str:
    """Return "ready", "stopped", or what a user's server is about to do."""
    model = json.loads(ask(stand, "GET", f"/users/{user}").partition(" ")[2])
    return model["pending"] or ("ready" if model["server"] else "stopped")


def log_of_hub(stand: ClusterStand) -> str:
    return stand.run("journalctl --unit=hub --no-pager --output=cat")


def test_users_of_processes_wait_for_a_gpu_and_are_counted(
    stand: ClusterStand, start_hub: Callable[[str], None]
) -> None:
    # Two GPUs for each, so that three users are one too many.
    start_hub(blocks_of("I use JupyterHub, without containers")[0].replace("free:1", "free:2"))
    for user in ("alice", "bob", "carol"):
        start_server(stand, user)

    assert [state_of(stand, user) for user in ("alice", "bob", "carol")] == ["ready", "ready", "stopped"]
    assert stand.gpus_by_person() == {"alice": [0, 1], "bob": [2, 3]}
    assert set(stand.ids_in_processes().values()) == {",".join(IDS[:2]), ",".join(IDS[2:])}
    said = [line for line in log_of_hub(stand).splitlines() if line.startswith("there was no GPU")]
    assert [line.partition("jupyter-carol-")[2].partition(" ")[2] for line in said] == ["within 20 s"]

    ask(stand, "DELETE", "/users/alice/server")
    wait_until(lambda: stand.gpus_by_person() == {"bob": [2, 3]})
    start_server(stand, "carol")

    assert state_of(stand, "carol") == "ready"
    assert stand.gpus_by_person() == {"bob": [2, 3], "carol": [0, 1]}
    assert "carol" in stand.run("amd-ctk report")


def test_containers_get_free_gpus_and_a_user_too_many_has_the_reason_in_the_log(
    stand: ClusterStand, start_hub: Callable[[str], None]
) -> None:
    stand.run(MAKE_IMAGE)
    block = blocks_of("I use JupyterHub with DockerSpawner")[0].replace("free:1", "free:2")
    start_hub(block + AROUND_DOCKER)
    for user in ("alice", "bob", "carol"):
        start_server(stand, user)

    def nodes_of(user: str) -> list[str]:
        inside = stand.run(f"ls /proc/$(docker inspect --format '{{{{.State.Pid}}}}' jupyter-{user})/root/dev/dri")
        return [name for name in inside.split() if name.startswith("render")]

    assert [state_of(stand, user) for user in ("alice", "bob", "carol")] == ["ready", "ready", "stopped"]
    assert (nodes_of("alice"), nodes_of("bob")) == (["renderD130", "renderD131"], ["renderD128", "renderD129"])
    assert (
        "free:2: 0 of 4 GPUs are free (0-3 exclusive and in use);"
        " 'amd-ctk run --gpus=free:2 --wait -- COMMAND' waits for 2"
    ) in log_of_hub(stand)

    ask(stand, "DELETE", "/users/alice/server")
    wait_until(lambda: state_of(stand, "alice") == "stopped")
    start_server(stand, "carol")

    assert nodes_of("carol") == ["renderD130", "renderD131"]
