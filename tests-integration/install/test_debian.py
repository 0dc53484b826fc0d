"""apt installs the product in Debian 12 and 13 with systemd, upgrades it, and takes it away again."""

from __future__ import annotations

import hashlib
import json
import re
import shutil

import pytest

from amd_ctk.pages import TITLES
from install import former_state
from install.compiled import compiled_for
from install.container import ITS_NODES, bundle_that_runs
from install.hostile import EVERY_PROGRAM, HOSTILE_DIRECTORY, HOSTILE_ENVIRONMENT
from install.root import UPGRADED_TO, fetch_newer_python
from install.snapshot import changes, take_snapshot

pytestmark = [pytest.mark.e2e, pytest.mark.install]

ON_HOST = "AMD_CTK_HOST_ROOT=/run/shared/host"
DAEMON_JSON = '{"log-driver": "journald", "runtimes": {"kata": {"path": "/usr/bin/kata"}}, "mtu": 1450}'
FOREIGN_SPEC = '{"cdiVersion": "0.5.0", "kind": "example.com/nic", "devices": []}'
# As docs/how-to/uninstall.md names them.
EVERY_PACKAGE = (
    "amd-container-toolkit amd-ctk amd-container-runtime"
    " amd-gpu-images amd-gpu-sharing amdgpu-simulator amd-gpu-tracker amd-device-spec amdgpu-discovery"
)
LEAVE_FILES = "amd-ctk amd-container-runtime amd-gpu-tracker amdgpu-discovery"


def install(machine, packages="amd-container-toolkit"):
    return machine.apt(f"install {packages}")


def make_bundle(machine, script):
    machine.run(bundle_that_runs(script))


def configure(machine):
    """Put our entries beside those of others."""
    machine.write("/etc/docker/daemon.json", DAEMON_JSON)
    machine.write("/etc/cdi/nic.json", FOREIGN_SPEC)
    machine.run("amd-ctk runtime configure --no-validate")
    # As if the GPUs of the simulated host were this system's: its CDI specs, and what tells that amd-ctk wrote them.
    machine.run(
        f"{ON_HOST} amd-ctk cdi generate; {ON_HOST} amd-ctk cdi generate --output=/etc/cdi/lab.yaml --vendor=lab"
    )
    machine.run("cp /run/shared/host/etc/cdi/* /etc/cdi")
    machine.run("cp -r /run/shared/host/var/lib/amd-container-toolkit/cdi /var/lib/amd-container-toolkit")


def test_apt_installs_a_working_product(installed):
    version = installed.run("dpkg-query -W -f '${Version}' amd-ctk")
    shown = installed.run("amd-ctk version").splitlines()[0]
    table = installed.run(f"{ON_HOST} amd-ctk gpu list")

    # dpkg sorts `~rc1` and `~dev0` before the release; in Python they are `rc1` and `.dev0`.
    assert shown == f"Version: v{version.replace('~dev', '.dev').replace('~', '')}"
    assert table.startswith("Found 8 AMD GPU devices\n")
    assert installed.run("amd-gpu-tracker --help").startswith("Usage: amd-gpu-tracker")
    assert installed.run("systemctl --failed --no-legend") == ""


def test_a_container_gets_its_gpus_through_the_installed_runtime(installed):
    make_bundle(installed, "cd /dev/dri; echo *")

    seen = installed.run(f"cd bundle && {ON_HOST} amd-container-runtime run c1")

    assert seen == ITS_NODES


def test_messages_name_pages_that_the_packages_bring(installed):
    said = installed.run(f"{ON_HOST} amd-ctk doctor --verbose", check=False)
    pages = sorted(set(re.findall(r"see: ([^#\n]+)", said)))

    assert len(pages) > 5
    assert {page.removeprefix("/usr/share/doc/amd-ctk/docs/") for page in pages} <= set(TITLES)
    installed.run(f"ls {' '.join(pages)}")


def test_a_refusal_is_one_sentence(installed):
    make_bundle(installed, "true")
    installed.run("cd bundle && sed -i s/AMD_VISIBLE_DEVICES=0,2/AMD_VISIBLE_DEVICES=9/ config.json")

    said = installed.run(f"cd bundle && {ON_HOST} amd-container-runtime run c1", check=False)

    assert said.startswith("amd-container-runtime: AMD_VISIBLE_DEVICES=9: GPU 9 does not exist")
    assert len(said.splitlines()) == 1


SERVING_THE_HOST = """
[Unit]
ConditionPathExists=
[Service]
Environment=AMD_CTK_HOST_ROOT=/run/shared/host
"""


@pytest.mark.parametrize("unit", ["amd-cdi-refresh", "amd-cdi-watch"])
def test_a_unit_sees_the_gpus_and_writes_their_spec_under_its_own_restrictions(installed, unit):
    drop_in = f"/run/systemd/system/{unit}.service.d"
    spec = "/run/shared/host/etc/cdi/amd.json"
    installed.run(f"{ON_HOST} amd-ctk cdi generate && rm {spec}")
    installed.write(f"{drop_in}/host.conf", SERVING_THE_HOST)

    installed.run(
        f"systemctl daemon-reload; systemctl start {unit}; for i in $(seq 100); do [ -e {spec} ] || sleep 0.1; done"
    )

    said = installed.run(f"systemctl stop {unit}; journalctl --unit={unit} --output=cat")
    assert "Generated CDI spec: /etc/cdi/amd.json\n" in said
    assert installed.run(f"systemctl is-failed {unit}", check=False) == "inactive\n"
    installed.run(f"rm -r {drop_in}; systemctl daemon-reload; {ON_HOST} amd-ctk cdi remove")


def test_no_python_of_the_system_finds_the_toolkits_modules(installed):
    for module in ("amd_ctk", "amdgpu_discovery", "typer", "filelock"):
        assert "ModuleNotFoundError" in installed.run(f"python3 -c 'import {module}'", check=False)


def test_every_module_is_compiled_when_it_is_installed(installed, suite):
    python = {"bookworm": "cpython-311", "trixie": "cpython-313"}[suite]

    assert compiled_for(installed.run) == {python: "all"}


@pytest.mark.parametrize("suite", UPGRADED_TO, indirect=True, scope="module")
def test_modules_are_compiled_again_for_the_python_of_the_next_debian(machine, suite):
    install(machine)
    assert compiled_for(machine.run) == {"cpython-311": "all"}
    shutil.copytree(fetch_newer_python(suite), machine.system.shared / "python")

    machine.apt("install /run/shared/python/*.deb")

    assert compiled_for(machine.run) == {"cpython-313": "all"}
    assert machine.run(f"{ON_HOST} amd-ctk gpu list").startswith("Found 8 AMD GPU devices\n")
    machine.apt("remove 'amd-*' amdgpu-discovery")
    assert machine.run("find /usr/lib/amd-container-toolkit 2>&1", check=False) == (
        "find: '/usr/lib/amd-container-toolkit': No such file or directory\n"
    )


def test_compiled_files_go_with_their_package_and_no_others(machine):
    install(machine)

    machine.apt("remove amd-container-toolkit amd-ctk")

    assert compiled_for(machine.run)["cpython-311" if "3.11" in machine.run("python3 -V") else "cpython-313"] == "all"
    list_modules = "ls /usr/lib/amd-container-toolkit/current/python"
    modules = set(machine.run(list_modules).split())
    assert {"amd_gpu_tracker", "filelock", "tomlkit"} <= modules
    assert "amd_ctk" not in modules

    # Each library is in the package that needs it first.
    machine.apt("remove amd-gpu-tracker")

    modules = set(machine.run(list_modules).split())
    assert {"amd_device_spec", "tomlkit"} <= modules
    assert not {"amd_gpu_tracker", "filelock"} & modules


def test_programs_write_nothing_beside_the_modules(machine):
    install(machine)
    machine.run("find /usr/lib/amd-container-toolkit -name __pycache__ -prune -exec rm -r {} +")

    machine.run(f"{ON_HOST} amd-ctk gpu list; {ON_HOST} amd-gpu-tracker status; amd-container-runtime --help")

    assert machine.run("find /usr/lib/amd-container-toolkit -name __pycache__") == ""


def test_the_users_directory_and_environment_are_not_imported(installed):
    make_bundle(installed, "true")
    installed.run(HOSTILE_DIRECTORY)

    said = installed.run(f"cd bundle\n{HOSTILE_ENVIRONMENT}\nexport {ON_HOST}\n{EVERY_PROGRAM}")

    assert "hostile" not in said


def test_hostile_modules_would_be_seen(installed):
    make_bundle(installed, "true")
    installed.run(f"rm -rf /root/hostile\n{HOSTILE_DIRECTORY}")

    assert "hostile" in installed.run("cd bundle && python3 -c 'import typer' 2>&1", check=False)


def test_nothing_in_etc_but_the_rotation_of_the_log_and_units(machine):
    machine.apt("install python3 logrotate")
    before = take_snapshot(machine.run)

    install(machine)

    new = {path for path in take_snapshot(machine.run).keys() - before.keys() if path.startswith("/etc/")}
    assert {path for path in new if "/systemd/" not in path} == {"/etc/logrotate.d/amd-container-runtime"}
    assert "error" not in machine.run("logrotate --debug /etc/logrotate.d/amd-container-runtime 2>&1")


def test_every_command_has_its_manual_page_and_completions(installed):
    for program in ("amd-ctk", "amd-gpu-tracker"):
        installed.run(
            f"test -s /usr/share/man/man1/{program}.1.gz && test -s /usr/share/bash-completion/completions/{program}"
        )
    offered = installed.run("COMP_WORDS='amd-ctk gp' COMP_CWORD=1 _AMD_CTK_COMPLETE=complete_bash amd-ctk", check=False)
    assert offered.split() == ["gpu", "gpu-tracker"]


def test_systemd_finds_nothing_wrong_with_the_installed_units(installed):
    assert installed.run("systemd-analyze verify /usr/lib/systemd/system/amd-cdi-*.service") == ""


def test_udev_finds_nothing_wrong_with_the_installed_rule(installed, suite):
    if suite == "bookworm":
        pytest.skip("udevadm of Debian 12 cannot verify rules, that of Debian 13 can")

    installed.run("udevadm verify /usr/lib/udev/rules.d/60-amd-cdi-refresh.rules")


def test_man_shows_every_page_without_a_warning(installed):
    pages = installed.run("ls /usr/share/man/man*/amd*").split()

    assert [page.rpartition("/")[2] for page in pages] == [
        "amd-ctk.1.gz",
        "amd-gpu-images.1.gz",
        "amd-gpu-sharing.1.gz",
        "amd-gpu-tracker.1.gz",
        "amdgpu-simulator.1.gz",
        "amd-container-toolkit-config.toml.5.gz",
        "amd-container-runtime.8.gz",
    ]
    for page in pages:
        assert installed.run(f"MANWIDTH=80 man --warnings=w --local-file {page} 2>&1 >/dev/null") == ""


def test_a_package_alone_is_complete(machine):
    for package in ("amd-gpu-tracker", "amd-container-runtime", "amd-ctk"):
        install(machine, package)

        said = machine.run(f"{ON_HOST} {package} --help")

        assert "Traceback" not in said
        assert machine.run("dpkg --audit") == ""
        machine.apt(f"purge --autoremove {package}")


def test_a_system_without_gpus_is_told_so_when_it_asks(installed):
    said = installed.run("amd-ctk gpu list", check=False)

    assert "amdgpu" in said
    assert "Traceback" not in said


def test_purge_leaves_nothing_behind(machine):
    machine.apt("install python3 logrotate")
    before = take_snapshot(machine.run)
    install(machine)
    configure(machine)
    make_bundle(machine, "true")
    machine.run(f"{ON_HOST} amd-gpu-tracker enable; cd bundle && {ON_HOST} amd-container-runtime run c1")
    machine.run("echo x >/var/log/amd-container-runtime.log; amd-ctk config set log-level debug")

    machine.apt(f"purge --autoremove {EVERY_PACKAGE}")
    # What no package installed goes by hand; directories that hold more stay, and are found.
    machine.run("rm -rf bundle /etc/cdi/*.json /etc/docker/daemon.json; rmdir /etc/cdi /etc/docker || true")

    assert changes(before, take_snapshot(machine.run)) == {}


def test_leftovers_of_a_removal_are_purged_where_apt_has_no_repository(machine):
    install(machine)
    machine.run("amd-ctk config set log-level debug")
    machine.apt(f"remove --autoremove {EVERY_PACKAGE}")
    # As where ./install installed files. Apt no longer knows a package that left nothing.
    machine.run("rm /etc/apt/sources.list.d/toolkit.list")

    machine.apt(f"purge {LEAVE_FILES}")

    assert machine.run("dpkg-query --show 'amd*' 2>/dev/null || true") == ""
    assert machine.run("find /etc /var/lib -name 'amd-container-toolkit*'") == ""


@pytest.mark.parametrize("named", ["amd-container-toolkit", EVERY_PACKAGE], ids=["one", "each"])
def test_removal_takes_out_what_was_installed_and_nothing_else(machine, named):
    # Apt keeps what was installed by name, as ./install does.
    install(machine, named)
    configure(machine)
    machine.run("amd-ctk config set log-level debug")
    assert "amd" in json.loads(machine.run("cat /etc/docker/daemon.json"))["runtimes"]

    machine.apt(f"remove --autoremove {EVERY_PACKAGE}")

    assert machine.run("cat /etc/docker/daemon.json") == DAEMON_JSON
    assert machine.run("ls /etc/cdi; cat /etc/cdi/nic.json") == f"nic.json\n{FOREIGN_SPEC}"
    assert machine.run("ls /etc/amd-container-toolkit") == "config.compiled\nconfig.toml\n"
    assert machine.run("find /usr -name 'amd-*' -o -name amdgpu-discovery") == ""
    # What was enabled is so again if the package comes back, so systemd knows the names until the purge.
    assert machine.run("systemctl list-units --all --state=loaded --no-legend 'amd-*'") == ""


def test_a_user_cannot_keep_a_removal_waiting(machine):
    install(machine)
    configure(machine)
    holding = "flock --exclusive /var/lib/amd-container-toolkit sleep 600"
    machine.run(f"setpriv --reuid=65534 --regid=65534 --clear-groups {holding} >/dev/null 2>&1 & sleep 1")
    assert machine.run("flock --nonblock /var/lib/amd-container-toolkit true || echo held") == "held\n"

    machine.run("timeout 50 apt-get -qq -y remove amd-ctk amd-container-runtime 2>&1")

    assert json.loads(machine.run("cat /etc/docker/daemon.json")) == json.loads(DAEMON_JSON)


def test_an_engine_forgets_a_runtime_that_is_removed_alone(machine):
    install(machine)
    configure(machine)

    machine.apt("remove amd-container-runtime")

    assert machine.run("cat /etc/docker/daemon.json") == DAEMON_JSON
    assert machine.run("ls /etc/cdi") == "amd.json\nlab.yaml\nnic.json\n"
    assert machine.run(f"{ON_HOST} amd-ctk gpu list").startswith("Found 8 AMD GPU devices\n")


def test_units_are_enabled_but_for_those_that_somebody_disabled(machine):
    machine.apt("install python3")
    install(machine)
    assert machine.run("systemctl is-enabled amd-cdi-refresh amd-cdi-watch") == "enabled\nenabled\n"
    assert machine.run("systemctl is-enabled amd-swarm-prune.timer", check=False) == "disabled\n"
    machine.run("systemctl --quiet disable amd-cdi-watch")
    machine.release_the_next_version()

    machine.apt("upgrade")
    upgraded = machine.run("systemctl is-enabled amd-cdi-refresh amd-cdi-watch", check=False)
    machine.apt("remove amd-ctk")
    install(machine)
    installed_again = machine.run("systemctl is-enabled amd-cdi-refresh amd-cdi-watch", check=False)
    machine.apt("purge amd-ctk")
    install(machine)
    installed_afresh = machine.run("systemctl is-enabled amd-cdi-refresh amd-cdi-watch")

    assert upgraded == installed_again == "enabled\ndisabled\n"
    assert installed_afresh == "enabled\nenabled\n"


def test_an_upgrade_changes_nobodys_configuration_and_no_container(machine):
    install(machine)
    configure(machine)
    make_bundle(machine, "sleep 1000")
    machine.run(f"{ON_HOST} amd-gpu-tracker enable; amd-ctk config set log-level debug")
    machine.run(f"cd bundle && {ON_HOST} amd-container-runtime run --detach c1 >/dev/null 2>&1")
    files = "/etc/docker/daemon.json /etc/cdi/*.json /etc/amd-container-toolkit/* /run/shared/host/var/lib/*/*.json"
    before = machine.run(f"sha256sum {files}; {ON_HOST} amd-gpu-tracker status")
    machine.release_the_next_version()

    machine.apt("upgrade")

    assert machine.run("dpkg-query -W -f '${Version}' amd-ctk") == "9.0"
    assert list(compiled_for(machine.run).values()) == ["all"]
    assert machine.run(f"sha256sum {files}; {ON_HOST} amd-gpu-tracker status") == before
    assert json.loads(machine.run("amd-container-runtime state c1"))["status"] == "running"
    machine.run("amd-container-runtime kill c1 KILL; sleep 0.5; amd-container-runtime delete c1")
    assert machine.run("dpkg --audit") == ""


# As a later version might write: one key more in the lease, one in the policy.
WRITE_AS_TOMORROW = """
cd /run/shared/host
for file in run/amd-container-toolkit/leases/*.json var/lib/amd-container-toolkit/gpu-tracker.json; do
    jq --compact-output '. + {"colour": 7}' "$file" >/tmp/new && cp /tmp/new "$file"
done
"""
COLOURS = "cd /run/shared/host; jq .colour run/*/leases/*.json var/lib/amd-container-toolkit/gpu-tracker.json"


def test_an_upgrade_back_and_forth_keeps_a_running_container_its_exclusive_gpu(machine):
    install(machine)
    earlier = machine.run("dpkg-query -W -f '${Package}=${Version} ' 'amd-*' 'amdgpu-*'")
    make_bundle(machine, "sleep 1000")
    machine.run(f"{ON_HOST} amd-gpu-tracker enable; {ON_HOST} amd-gpu-tracker 0 exclusive")
    start = f"cd bundle && {ON_HOST} amd-container-runtime run --detach"
    machine.run(f"{start} c1 >/dev/null 2>&1")
    before = machine.run(f"{ON_HOST} amd-gpu-tracker status")
    assert "Exclusive           c1" in before

    machine.release_the_next_version()
    for change in ("upgrade", f"install --allow-downgrades {earlier}", "upgrade"):
        machine.apt(change)
        machine.run(WRITE_AS_TOMORROW if change == "upgrade" else "true")

        assert machine.run(f"{ON_HOST} amd-gpu-tracker status") == before
        assert "GPUs [0] are exclusive and already in use" in machine.run(f"{start} c2 2>&1", check=False)
        assert machine.run(COLOURS).split() == ["7", "7"]

    machine.run("amd-container-runtime kill c1 KILL; sleep 0.5; amd-container-runtime delete c1")
    machine.run(f"{start} c2 >/dev/null 2>&1; amd-container-runtime delete --force c2")


def test_gpus_that_the_original_made_exclusive_stay_so_whatever_comes_first(installed):
    cells = installed.system.shared / "cells"

    assert former_state.look(cells, "/run/shared/cells", installed.run) == former_state.expected()


def test_two_builds_are_the_same(debs, build_again):
    first, second = (
        {deb.name: hashlib.sha256(deb.read_bytes()).hexdigest() for deb in built} for built in (debs, build_again())
    )

    assert first == second


ORIGINAL_DAEMON_JSON = """{
    "features": {"cdi": true},
    "default-runtime": "amd",
    "runtimes": {"amd": {"path": "/usr/local/bin/amd-container-runtime", "runtimeArgs": []}},
    "mtu": 1450
}
"""
# What version 1.3.0 does when it goes, whether it is removed or upgraded.
ORIGINAL_PRERM = """#!/bin/sh
rm -rf /var/log/gpu-tracker.json /var/log/gpu-tracker.lock /etc/cdi
jq 'del(.runtimes.amd, .features.cdi) | if .["default-runtime"] == "amd" then del(.["default-runtime"]) else . end' \\
    /etc/docker/daemon.json >/tmp/new && cp /tmp/new /etc/docker/daemon.json
"""


def install_the_original(machine):
    machine.write(
        "/root/o/DEBIAN/control",
        "Package: amd-container-toolkit\nVersion: 1.3.0~24.04\nArchitecture: amd64\n"
        "Maintainer: x <x@example.org>\nDescription: stand-in\n",
    )
    machine.write("/root/o/DEBIAN/prerm", ORIGINAL_PRERM)
    machine.write("/root/o/usr/local/bin/amd-ctk", "#!/bin/sh\n")
    machine.write("/root/o/usr/local/bin/amd-container-runtime", '#!/bin/sh\nexec runc "$@"\n')
    machine.run("chmod 755 o/DEBIAN/prerm o/usr/local/bin/*; dpkg-deb -b o o.deb && dpkg -i o.deb")
    machine.write("/etc/docker/daemon.json", ORIGINAL_DAEMON_JSON)
    machine.write("/etc/cdi/nic.json", FOREIGN_SPEC)


def test_an_upgrade_from_the_original_keeps_what_its_own_script_deletes(machine):
    install_the_original(machine)

    install(machine)

    assert machine.run("dpkg-query -W -f '${Version}' amd-container-toolkit").startswith("2.")
    assert machine.run("cat /etc/docker/daemon.json") == ORIGINAL_DAEMON_JSON.replace("/usr/local/bin", "/usr/bin")
    assert machine.run("cat /etc/cdi/nic.json") == FOREIGN_SPEC
    left = machine.run("ls /var/lib/amd-container-toolkit").split()
    assert left == ["engine-configuration.json", "engine-configuration.lock"]
    # The link to it in /usr/local/bin comes first on the PATH.
    machine.run("amd-ctk runtime configure --no-validate")
    assert '"/usr/bin/amd-container-runtime"' in machine.run("cat /etc/docker/daemon.json")


FILES = "/run/shared/repository/*.deb"


@pytest.mark.parametrize("command", ["dpkg -i", "apt-get -qq -y install"])
def test_package_files_are_installed_in_one_go_and_replace_the_original(machine, command):
    machine.apt("install python3")
    install_the_original(machine)

    machine.run(f"{command} {FILES}")

    assert machine.run("dpkg --audit") == ""
    assert machine.run(f"{ON_HOST} amd-ctk gpu list").startswith("Found 8 AMD GPU devices\n")
    assert machine.run("cat /etc/docker/daemon.json") == ORIGINAL_DAEMON_JSON.replace("/usr/local/bin", "/usr/bin")
    assert machine.run("cat /etc/cdi/nic.json") == FOREIGN_SPEC


def test_the_order_in_which_apt_unpacks_files_saves_first(machine):
    machine.apt("install python3")
    install_the_original(machine)

    unpacked = re.findall(r"^Inst (\S+)", machine.run(f"apt-get --simulate install {FILES}"), re.MULTILINE)

    assert unpacked.index("amd-container-toolkit") > unpacked.index("amd-ctk")
    assert unpacked.index("amd-container-toolkit") > unpacked.index("amd-container-runtime")


def test_an_upgrade_says_that_the_trackers_state_of_the_original_is_cut_and_keeps_it(machine):
    install_the_original(machine)
    cut = '{"enabled":true,"gpusStatus":{"0":'
    machine.write("/var/log/gpu-tracker.json", cut)
    refusal = "the state of AMD's toolkit 1.x in /var/log/gpu-tracker.json cannot be converted, so GPUs are refused"

    printed = install(machine)

    assert refusal in printed
    assert "make them available again with 'sudo amd-ctk gpu-tracker reset'" in printed
    assert machine.run("cat /var/log/gpu-tracker.json") == cut


def test_settings_made_beside_the_original_stay(machine):
    install_the_original(machine)
    install(machine, "amd-ctk")
    machine.write("/etc/docker/daemon.json", ORIGINAL_DAEMON_JSON.replace("1450", "9000"))

    install(machine)

    settings = json.loads(machine.run("cat /etc/docker/daemon.json"))
    assert settings["mtu"] == 9000
    assert settings["runtimes"]["amd"]["path"] == "/usr/bin/amd-container-runtime"
    assert machine.run("cat /etc/cdi/nic.json") == FOREIGN_SPEC


def test_containers_of_the_original_can_be_stopped_after_the_upgrade(machine):
    install_the_original(machine)
    make_bundle(machine, "sleep 1000")
    machine.run("cd bundle && /usr/local/bin/amd-container-runtime run --detach c1 >/dev/null 2>&1")

    install(machine)

    machine.run("cd bundle && /usr/local/bin/amd-container-runtime kill c1 KILL && sleep 0.5")
    machine.run("cd bundle && /usr/local/bin/amd-container-runtime delete c1")
    machine.apt("purge 'amd-*' amdgpu-discovery")
    assert machine.run("ls -A /usr/local/bin") == ""
