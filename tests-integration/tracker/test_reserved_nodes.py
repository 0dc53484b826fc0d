"""GPUs that only their holders open: real users, systemd, logind and rootless Podman of two Debian releases."""

from __future__ import annotations

import json
import time

import pytest

from support.installed import require_root
from support.stand import Stand

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

# GPU 0 and GPU 1 of this profile.
OWN, OTHER = "/dev/dri/renderD130", "/dev/dri/renderD131"
OPEN = f"try-open /dev/kfd {OWN} {OTHER}"
NOTHING = "kfd EACCES\nrenderD130 EACCES\nrenderD131 EACCES\n"
FIRST = "kfd allowed\nrenderD130 allowed\nrenderD131 EACCES\n"
EVERYTHING = "kfd allowed\nrenderD130 allowed\nrenderD131 allowed\n"
RULE = "/etc/udev/rules.d/72-amd-gpu-access.rules"
SECONDS = 90


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def running(request, tmp_path_factory):
    require_root()
    server = Stand(tmp_path_factory.mktemp(request.param), request.param)
    try:
        server.run("amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive")
        yield server
    finally:
        server.stop()


@pytest.fixture
def server(running):
    """Return the server with closed nodes, and without any job at the end."""
    running.run("amd-ctk users allow everyone; amd-ctk config set gpu-access reserved")
    yield running
    running.run("for user in alice bob; do loginctl disable-linger $user; pkill -KILL -U $user; done", check=False)
    wait_until(lambda: running.run("amd-ctk queue list") == "No job waits for GPUs\n")
    running.run("amd-ctk users deny --all")


def wait_until(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def hold(server, user, gpu, name):
    """Let a user's job have a GPU until it is killed."""
    server.as_user(user, f"amd-ctk run --gpus={gpu} --name={name} -- sleep 600 >/dev/null 2>&1 &")
    wait_until(lambda: name in server.run("amd-ctk queue list"))


def test_the_holder_opens_its_gpu_and_nobody_else_does(server):
    assert server.as_user("alice", OPEN) == NOTHING

    assert server.as_user("alice", f"amd-ctk run --gpus=0 -- {OPEN}") == f"GPU 0\n{FIRST}"

    hold(server, "alice", 0, "train")
    assert server.as_user("bob", OPEN) == NOTHING
    # Outside of its scope, too, a user opens what it has reserved.
    assert server.as_user("alice", OPEN) == FIRST


def test_a_job_left_in_the_background_opens_nothing_after_its_end(server):
    left = f"until [ -e /tmp/ended ]; do sleep 0.1; done; {OPEN} >/tmp/later"

    server.as_user("alice", f"amd-ctk run --gpus=0 --name=left -- sh -c '({left}) </dev/null >/dev/null 2>&1 &'")

    wait_until(lambda: server.as_user("alice", OPEN) == NOTHING)
    server.run("touch /tmp/ended")
    wait_until(lambda: server.run("cat /tmp/later", check=False) == NOTHING)
    server.run("rm /tmp/ended /tmp/later")


def test_a_waiter_opens_the_gpu_when_the_holder_before_has_ended(server):
    hold(server, "alice", 0, "train")
    server.as_user("bob", f"amd-ctk run --gpus=0 --wait --name=eval -- {OPEN} >/tmp/bob 2>&1 &")
    wait_until(lambda: "waiting for 1 GPU" in server.run("cat /tmp/bob", check=False))

    server.run("pkill -U alice -x sleep")

    wait_until(lambda: server.run("cat /tmp/bob").endswith(FIRST))
    server.run("rm /tmp/bob")


def test_the_scope_closes_other_gpus_and_nothing_else(server):
    # Numbers alone decide in the device filter, whatever lists say.
    server.run(f"mknod -m 666 /tmp/own c 226 130; mknod -m 666 /tmp/other c 226 131; {OPEN}")
    nodes = "/tmp/own /tmp/other /dev/fuse /dev/null /dev/full"

    said = server.as_user(
        "alice", f"amd-ctk run --gpus=0 --name=train -- sh -c 'try-open {nodes}; cat /proc/self/cgroup'"
    )

    *opened, cgroup = [line for line in said.splitlines() if not line[0].isdigit() or line.startswith("0::")]
    assert opened[1:] == ["own allowed", "other EPERM", *opened[3:4], "null opens", "full opens"]
    assert opened[3] != "fuse EPERM"
    assert cgroup.startswith("0::/user.slice/user-1000.slice/amd-gpu-1000-train-")
    server.run("rm /tmp/own /tmp/other")
    wait_until(lambda: server.run("systemctl list-units --all --plain --no-legend 'amd-gpu-*.scope'") == "")


def test_cron_and_at_open_what_their_job_has_and_nothing_of_others(server):
    run = f"/usr/local/bin/{OPEN}"
    as_job = f"amd-ctk run --gpus=0 --wait -- {run}"
    server.run("systemctl start cron atd")
    server.run(f"echo '* * * * * {as_job} 2>/dev/null >>/tmp/cron-alice' | crontab -u alice -")
    server.run(f"echo '* * * * * {run} >>/tmp/cron-bob' | crontab -u bob -")

    server.as_user("alice", f"sh -c \"echo '{as_job} >/tmp/at-alice 2>/dev/null' | at now\"")
    server.as_user("bob", f"sh -c \"echo '{run} >/tmp/at-bob' | at now\"")

    files = {name: f"/tmp/{name}" for name in ("at-alice", "at-bob", "cron-alice", "cron-bob")}
    wait_until(lambda: all(server.run(f"cat {path}", check=False).count("\n") >= 3 for path in files.values()))
    server.run("crontab -r -u alice; crontab -r -u bob; systemctl stop cron atd")
    said = {name: server.run(f"head -n 3 {path}; rm {path}") for name, path in files.items()}
    assert said == {"at-alice": FIRST, "at-bob": NOTHING, "cron-alice": FIRST, "cron-bob": NOTHING}


def test_a_hard_link_to_a_node_opens_no_longer_than_the_node(server):
    server.run(f"mkdir --mode=1777 /dev/links; ln {OWN} /dev/links/made-by-root")
    link = f"ln {OWN} /dev/links/own; try-open /dev/links/made-by-root"

    said = server.as_user("alice", f"amd-ctk run --gpus=0 -- sh -c '{link}'", check=False)

    refused = f"ln: failed to create hard link '/dev/links/own' => '{OWN}': Operation not permitted"
    assert said.splitlines() == ["GPU 0", refused, "made-by-root allowed"]
    wait_until(lambda: server.as_user("alice", "try-open /dev/links/made-by-root") == "made-by-root EACCES\n")
    server.run("rm -r /dev/links")


def test_a_time_limit_goes_by_the_clock_of_the_machine_where_a_user_has_another(server):
    server.run("amd-ctk users allow alice --time=8s")
    days_ahead = "unshare --user --map-root-user --time --fork --boottime=8640000"

    said = server.as_user(
        "alice",
        f"{days_ahead} amd-ctk run --gpus=0 --name=train -- sh -c 'amd-ctk queue list; exec sleep 607'",
        check=False,
    )

    server.run("amd-ctk users deny alice")
    assert said.splitlines()[0] == "GPU 0 for at most 8 s"
    assert "train" in said.splitlines()[2]
    assert "amd-ctk: job train has reached its time limit" in said
    wait_until(lambda: server.run("pgrep -U alice -f '^sleep 607'", check=False) == "")


def test_a_job_keeps_its_terminal_and_its_exit_code(server):
    job = 'amd-ctk run --gpus=0 -- sh -c "ps -o tty=,pgid=,tpgid= -p \\$\\$; exit 7"'

    said = server.as_user("alice", f"script --quiet --return --command '{job}' /dev/null; echo $?")

    assert said.splitlines()[0] == "GPU 0"
    terminal, group, foreground = said.splitlines()[1].split()
    assert (terminal.startswith("pts/"), group == foreground) == (True, True)
    assert said.splitlines()[2] == "7"


def let_linger(server):
    """Let the services of alice run without a session."""
    server.run("loginctl enable-linger alice")
    wait_until(lambda: server.run("systemctl is-active user@1000.service", check=False) == "active\n")


def test_rootless_podman_sees_the_gpu_of_its_job(server, image_archive):
    let_linger(server)
    server.put_image(image_archive, "alice")
    # The node is there with the number and the list of the host's.
    inside = "cat /dev/dri/renderD130; ls /dev/dri"
    podman = "podman run --rm --network=none --device=/dev/kfd"

    own = server.as_user(
        "alice", f"amd-ctk run --gpus=0 -- {podman} --device={OWN} busybox:local sh -c '{inside}' 2>&1", check=False
    )
    other = server.as_user(
        "alice", f"amd-ctk run --gpus=0 -- {podman} --device={OTHER} busybox:local cat {OTHER} 2>&1", check=False
    )

    assert sorted(own.splitlines()[-2:]) == [f"cat: can't open '{OWN}': No such device or address", "renderD130"]
    assert other.splitlines()[-1] == f"cat: can't open '{OTHER}': Permission denied"


def test_a_detached_container_of_rootless_podman_has_the_gpu_until_the_time_of_its_job_is_over(server, image_archive):
    let_linger(server)
    server.put_image(image_archive, "alice")
    server.run("amd-ctk users allow alice --time=45s")
    podman = f"podman run --detach --network=none --device=/dev/kfd --device={OWN} busybox:local sleep 600"

    server.as_user("alice", f"amd-ctk run --gpus=0 --name=left -- {podman}")

    assert server.as_user("alice", "podman ps --format={{.Command}}") == "sleep 600\n"
    assert "left" in server.run("amd-ctk queue list")
    assert server.as_user("alice", OPEN) == FIRST
    wait_until(lambda: "left" not in server.run("amd-ctk queue list"))
    assert server.as_user("alice", OPEN) == NOTHING
    wait_until(lambda: server.as_user("alice", "podman ps --quiet") == "")
    server.run("amd-ctk users deny alice")


def test_a_time_limit_ends_what_a_job_left_without_its_environment(server):
    server.run("amd-ctk users allow alice --time=12s")
    job = "env -i setsid --fork sleep 607; exec sleep 600"

    server.as_user("alice", f"amd-ctk run --gpus=0 --name=train -- sh -c '{job}' >/dev/null 2>&1 &")

    wait_until(lambda: server.run("pgrep -U alice -f '^sleep 607'", check=False))
    wait_until(lambda: "train" not in server.run("amd-ctk queue list"))
    assert server.run("pgrep -U alice sleep", check=False) == ""
    server.run("amd-ctk users deny alice")


def test_rootless_podman_works_in_a_unit_whose_devices_are_limited(server, image_archive):
    let_linger(server)
    server.put_image(image_archive, "alice")
    as_alice = "env HOME=/home/alice XDG_RUNTIME_DIR=/run/user/1000 setpriv --reuid=alice --regid=alice --init-groups"
    podman = "podman run --rm --network=none --device=/dev/fuse busybox:local echo ran"

    script = f"{podman}; try-open /dev/fuse /dev/net/tun"

    said = server.run(f"cd /home/alice; amd-ctk run --gpus=0 --unit -- {as_alice} sh -c '{script}' 2>&1")

    assert said.splitlines()[-4:-2] == ["GPU 0", "ran"]
    assert "EPERM" not in said


def test_a_job_ends_with_its_session_where_logind_kills_what_is_left(server):
    server.write("/etc/systemd/logind.conf.d/kill.conf", "[Login]\nKillUserProcesses=yes\n")
    server.run("systemctl restart systemd-logind")
    log_in_and_leave_a_job(server)

    wait_until(lambda: "train" not in server.run("amd-ctk queue list"))

    assert server.as_user("alice", OPEN) == NOTHING
    server.run("rm /etc/systemd/logind.conf.d/kill.conf; systemctl restart systemd-logind")


@pytest.mark.parametrize("lingers", [True, False], ids=["lingering", "not-lingering"])
def test_a_job_outlives_its_session_where_logind_lets_it(server, lingers):
    if lingers:
        let_linger(server)
    log_in_and_leave_a_job(server)

    assert "train" in server.run("amd-ctk queue list")
    assert server.as_user("alice", OPEN) == FIRST
    # A user who is not there any more has no such directory; the job goes on without it.
    is_there = "test -d /run/user/1000 && echo there || echo gone"
    wait_until(lambda: server.run(is_there) == ("there\n" if lingers else "gone\n"))
    assert "train" in server.run("amd-ctk queue list")


def log_in_and_leave_a_job(server):
    """Let alice log in, start a job in the background, and log out."""
    job = "setsid amd-ctk run --gpus=0 --name=train -- sleep 600 >/tmp/alice 2>&1 &\n"
    server.log_in(
        "alice", f"{job}until grep -q GPU /tmp/alice; do sleep 0.1; done; loginctl --no-legend >/tmp/sessions\n"
    )
    wait_until(lambda: server.run("systemctl is-active login-alice.service", check=False) == "inactive\n")
    assert "alice" in server.run("cat /tmp/sessions")
    wait_until(lambda: not sessions_of(server, "alice"))
    server.run("rm -f /tmp/alice /tmp/sessions")


def sessions_of(server, user):
    """Return the sessions of a user; that of the services of one who lingers is none in which anybody is logged in."""
    lines = server.run("loginctl --no-legend list-sessions").splitlines()
    return [line for line in lines if user in line and "manager" not in line]


def test_udev_reads_the_rule_and_logind_is_given_no_node(server):
    looked_at = "SYSTEMD_DEVICE_VERIFY_SYSFS=0 udevadm test --action=add /sys/class/drm/"

    said = server.run(f"{looked_at}renderD130 2>&1")

    assert "72-amd-gpu-access.rules:16 GROUP 0" in said
    assert "72-amd-gpu-access.rules:16 MODE 0660" in said
    assert "73-seat-late.rules:16 RUN" not in said
    assert next(line for line in said.splitlines() if "CURRENT_TAGS=" in line).strip() == "CURRENT_TAGS=:seat:"
    assert "72-amd-gpu-access.rules" not in server.run(f"{looked_at}card0 2>&1").partition("GROUP")[2]


@pytest.mark.parametrize(
    "give_back", ["amd-ctk config unset gpu-access", "amd-ctk users deny --all", "amd-ctk gpu-tracker disable"]
)
def test_the_nodes_go_back_to_their_group_while_a_job_runs(server, give_back):
    hold(server, "alice", 0, "train")

    server.run(give_back)

    assert server.run(f"stat --format='%U:%G %a' /dev/kfd {OWN} /dev/dri/card1") == (
        "root:render 660\nroot:render 660\nroot:video 660\n"
    )
    assert server.as_user("bob", OPEN) == EVERYTHING
    server.run("pgrep -U alice -x sleep; pkill -U alice -x sleep; amd-ctk gpu-tracker enable")


def test_the_packages_give_the_nodes_back_when_they_are_removed(server):
    hold(server, "alice", 0, "train")

    server.run("dpkg --remove $(dpkg-query --show --showformat='${Package}\\n' 'amd*')")

    assert server.run(f"ls {RULE}", check=False).startswith("ls: cannot access")
    assert server.as_user("bob", OPEN) == EVERYTHING
    server.run("pgrep -U alice -x sleep; pkill -U alice -x sleep")
    server.install("amd-container-toolkit amd-ctk")
    server.run("amd-ctk gpu-tracker enable")


def test_an_upgrade_brings_its_rule_along_while_a_job_runs(server):
    hold(server, "alice", 0, "train")
    rule = server.run(f"cat {RULE}")
    server.run(f"sed -i '1i# Of an earlier version' {RULE}")

    server.install("amd-container-toolkit amd-ctk")

    assert server.run(f"cat {RULE}") == rule
    assert server.as_user("alice", OPEN) == FIRST
    assert server.as_user("bob", OPEN) == NOTHING


def test_an_upgrade_closes_no_nodes_that_are_their_groups(server):
    server.run("amd-ctk config unset gpu-access")

    server.install("amd-container-toolkit amd-ctk")

    assert server.run(f"ls {RULE}", check=False).startswith("ls: cannot access")
    assert server.as_user("bob", OPEN) == EVERYTHING


def doctor(server):
    """Return what doctor says of who may open GPUs, and what to do."""
    said = server.run("amd-ctk doctor --only=gpu-access --json", check=False)
    (found,) = json.loads(said[said.index("{") :])["checks"]
    return found["state"], found["words"], found["fix"]


LEFT_SOCKET = (
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/run/amd-container-toolkit/gpus.socket\")'"
)
HANG = "systemctl start amd-gpu-tracker.service; systemctl kill --signal=STOP amd-gpu-tracker.service"


@pytest.mark.parametrize(
    "spoil",
    [
        "systemctl disable --now amd-gpu-tracker.socket",
        f"systemctl disable --now amd-gpu-tracker.socket; {LEFT_SOCKET}",
        "systemctl stop amd-gpu-tracker.service; rm /run/amd-container-toolkit/gpus.socket",
        HANG,
    ],
    ids=["off", "left", "taken away", "hangs"],
)
def test_doctor_says_how_holders_are_let_in_again(server, spoil):
    server.run(spoil)

    assert doctor(server) == (
        "bad",
        "gpu-access is reserved, but the service that opens GPUs to their holders does not answer",
        "sudo systemctl enable amd-gpu-tracker.socket && sudo systemctl restart amd-gpu-tracker.socket",
    )

    server.run(doctor(server)[2].replace("sudo ", ""))
    assert doctor(server)[0] == "ok"
    assert server.as_user("alice", f"amd-ctk run --gpus=0 -- {OPEN}") == f"GPU 0\n{FIRST}"


def test_doctor_says_that_systemd_cannot_close_gpus(server):
    server.run("chmod -x /usr/bin/busctl")

    try:
        assert doctor(server) == (
            "bad",
            (
                "gpu-access is reserved, but systemd cannot close other GPUs to a job here"
                " (busctl cannot be run: Permission denied)"
            ),
            "this needs D-Bus, and device filters in systemd and the kernel (CONFIG_CGROUP_BPF)",
        )
    finally:
        server.run("chmod +x /usr/bin/busctl")
