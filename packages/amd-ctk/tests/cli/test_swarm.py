"""amd-ctk swarm: what a node offers, with a docker command that answers what a test says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from amd_ctk.configuration import runtime_program
from amd_ctk.swarm.resources import ResourcePlan
from amd_ctk.swarm.setup import NodeSetup
from amd_device_spec.settings import Settings, read_settings
from amd_gpu_tracker.face.tracker import Tracker
from support.answering_docker import DEFAULT_IS_AMD, Node

LABELS = (
    "--label-add amd.gpu.model=MI210 --label-add amd.gpu.gfx=gfx90a --label-add amd.gpu.count=4"
    " --label-add amd.gpu.vram-mb=65520 --label-add amd.gpu.driver=6.10.5"
)
GPUS = ["0xEA35F57CC80DEB35", "0x89CAA15875FF5A43", "0x6E32F10EFC982B4C", "0x12FE4F7FDAF06B9"]
NO_DEFAULT = (
    "Swarm runs every task under the default runtime, which is not the AMD Container Runtime"
    " (run 'sudo amd-ctk runtime configure --set-as-default')\n"
)
SETTINGS_UPDATED = "Updated the config file: /etc/amd-container-toolkit/config.toml\n"
UPDATED = "Updated the config file: /etc/docker/daemon.json\nPlease restart docker daemon\n"
TO_UNLABEL = (
    "To remove the labels of this node, run on a manager:\n"
    "docker node update --label-rm amd.gpu.model --label-rm amd.gpu.gfx --label-rm amd.gpu.count"
    " --label-rm amd.gpu.vram-mb --label-rm amd.gpu.driver gpu-node\n"
)
TO_LABEL = f"To label this node, run on a manager:\ndocker node update {LABELS} gpu-node\n"
INFO = "info --format {{json .}}"
INSPECT = "node inspect --format {{json .Spec.Labels}} n1"


def test_gpus_are_offered_by_name_and_the_node_can_be_labelled(node: Node) -> None:
    answer = node("setup")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, SETTINGS_UPDATED + UPDATED + TO_LABEL, NO_DEFAULT)
    assert node.offered == [f"AMD_GPU={gpu}" for gpu in GPUS]
    assert node.calls == []


@pytest.mark.parametrize(
    ("words", "kinds", "names"),
    [
        ([], ("AMD_GPU",), "uuid"),
        (["--by=pci"], ("AMD_GPU",), "pci"),
        (["--kind=GPU", "--also-by-model"], ("GPU", "MI210"), "uuid"),
    ],
)
def test_the_runtime_is_told_exactly_what_the_node_offers(
    node: Node, words: list[str], kinds: object, names: str
) -> None:
    node("setup", *words)
    settings = read_settings(node.host)
    node("setup", "--remove")

    assert (settings.swarm_resources, settings.swarm_resource_names) == (kinds, names)
    assert read_settings(node.host) == Settings()


def test_status_says_that_a_resource_is_named_in_another_way_than_the_settings_say(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD, node_generic_resources=["AMD_GPU=0000:03:00.0"])

    assert node("status").stderr == (
        "AMD_GPU=0000:03:00.0 names a GPU by PCI address, but swarm-resource-names is another form, so no task gets"
        " a GPU by it\n"
    )


def test_models_and_memory_are_offered_with_the_tracker_that_keeps_count(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD)

    answer = node("setup", "--also-by-model", "--vram", "--kind=GPU", "--by=pci")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == (
        "GPU Tracker has been enabled\nUpdated the config file: /etc/amd-container-toolkit/config.toml\n"
        + UPDATED
        + TO_LABEL
    )
    addresses = ["0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0"]
    assert node.offered == [f"{kind}={at}" for kind in ("GPU", "MI210") for at in addresses] + ["VRAM=262080"]
    assert Tracker(node.host).is_enabled()


def test_the_headroom_of_each_task_is_a_setting_that_a_removal_takes_back(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD)

    answer = node("setup", "--vram-mib=100000", "--headroom-mib=300")
    settings = read_settings(node.host)
    without = node("setup", "--vram-mib=100000")
    unset = read_settings(node.host)
    node("setup", "--headroom-mib=500")
    alone = read_settings(node.host), node.offered[-1]
    node("setup", "--remove")

    assert (answer.returncode, answer.stderr, without.returncode) == (0, "", 0)
    assert (settings.swarm_vram_resources, settings.swarm_vram_headroom) == (("VRAM",), 300)
    assert unset.swarm_vram_headroom == 0
    assert (alone[0].swarm_vram_headroom, alone[1]) == (500, "VRAM=262080")
    assert read_settings(node.host) == Settings()


def test_a_headroom_that_leaves_nothing_is_refused(node: Node) -> None:
    answer = node("setup", "--headroom-mib=65520")

    assert (answer.returncode, answer.stderr) == (
        1,
        "a headroom of 65520 MiB leaves nothing: the largest GPU has 65520 MiB\n",
    )
    assert (node.daemon_json.exists(), Tracker(node.host).is_enabled()) == (False, False)


def test_resources_of_others_stay_and_a_second_setup_replaces_the_first(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD, node_generic_resources=["SSD=2", "AMD_GPU=0xdead"])
    before = node.daemon_json.read_text()
    node("setup", "--vram=GPU_MB")
    assert node.offered == ["SSD=2", *(f"AMD_GPU={gpu}" for gpu in GPUS), "GPU_MB=262080"]

    node("setup", "--kind=MI")
    assert node.offered == ["SSD=2", *(f"MI={gpu}" for gpu in GPUS)]

    again = node("setup", "--kind=MI")
    assert again.stdout == "The config file is up to date: /etc/docker/daemon.json\n" + TO_LABEL
    removed = node("setup", "--remove")
    assert removed.stdout == SETTINGS_UPDATED + UPDATED + TO_UNLABEL
    assert node.daemon_json.read_text() == before


def test_a_second_setup_may_exchange_the_kinds_of_gpus_and_memory(node: Node) -> None:
    node("setup", "--kind=ONE", "--vram=TWO")

    assert node("setup", "--kind=TWO", "--vram=ONE").stdout == SETTINGS_UPDATED + UPDATED + TO_LABEL
    assert node.offered == [*(f"TWO={gpu}" for gpu in GPUS), "ONE=262080"]
    settings = read_settings(node.host)
    assert (settings.swarm_resources, settings.swarm_vram_resources) == (("TWO",), ("ONE",))


def test_resources_that_others_added_survive_the_removal(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD)
    node("setup")
    settings = json.loads(node.daemon_json.read_text())
    settings["node-generic-resources"].append("FPGA=1")
    node.daemon_json.write_text(json.dumps(settings))

    node("setup", "--remove")

    assert node.offered == ["FPGA=1"]


def test_amd_becomes_the_default_runtime_where_that_is_asked_for(node: Node) -> None:
    program = node.directory / "amd-container-runtime"
    program.write_text("")
    program.chmod(0o755)

    answer = node("setup", "--set-as-default")

    assert answer.stderr == ""
    settings = json.loads(node.daemon_json.read_text())
    assert settings["default-runtime"] == "amd"
    assert settings["runtimes"]["amd"]["path"].endswith("/amd-container-runtime")


def test_without_our_runtime_the_hint_is_a_command_that_takes_its_path(host, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", [f"{tmp_path}/bin/amd-ctk"])
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/bin/python")
    monkeypatch.setattr(sys, "prefix", f"{tmp_path}")
    monkeypatch.setattr(runtime_program, "USUAL_DIRECTORIES", ())
    monkeypatch.setenv("PATH", f"{tmp_path}")
    node = NodeSetup(host(), "", lambda: None, dry_run=True, show_diff=False, validate=False)

    with pytest.raises(runtime_program.NoRuntimeProgram) as refusal:
        node.advertise([], ResourcePlan(), [], set_as_default=True)

    assert str(refusal.value) == (
        "amd-container-runtime is not installed (install it, or name it in 'sudo amd-ctk runtime configure"
        " --set-as-default --runtime-path=/opt/bin/amd-container-runtime')"
    )


def test_a_dry_run_prints_and_changes_nothing(node: Node) -> None:
    answer = node("setup", "--vram", "--dry-run")

    assert json.loads(answer.stdout)["node-generic-resources"][-1] == "VRAM=262080"
    assert not node.daemon_json.exists()
    assert not Tracker(node.host).is_enabled()


def test_the_difference_is_shown(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD, node_generic_resources=["A=1"])

    lines = node("setup", "--dry-run", "--diff").stdout.splitlines()

    assert [line for line in lines if line[0] in "+-"][2:] == [
        (
            '-{"default-runtime": "amd", "runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}},'
            ' "node-generic-resources": ["A=1"]}'
        ),
        (
            '+{"default-runtime": "amd", "runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime"}},'
            ' "node-generic-resources": ["A=1", "AMD_GPU=0xEA35F57CC80DEB35", "AMD_GPU=0x89CAA15875FF5A43",'
            ' "AMD_GPU=0x6E32F10EFC982B4C", "AMD_GPU=0x12FE4F7FDAF06B9"]}'
        ),
    ]


@pytest.mark.parametrize(
    ("resources", "words", "sentence"),
    [
        (
            ["GPU_COMPUTE=0x89caa15875ff5a43"],
            [],
            (
                "GPU_COMPUTE=0x89caa15875ff5a43 in node-generic-resources names GPU 1, and Swarm would give that out"
                " twice (remove the entry, or use --kind GPU_COMPUTE)"
            ),
        ),
        (
            "GPU=1",
            [],
            (
                "failed to init config for runtime engine: docker | err: error decoding configuration file:"
                ' /etc/docker/daemon.json | err: "node-generic-resources" is not a list of strings'
            ),
        ),
        ([], ["--vram=AMD_GPU"], "AMD_GPU cannot name GPUs and count VRAM at once (choose another with --vram=KIND)"),
        ([], ["--kind=my gpu"], "'my gpu' is not a valid resource kind (use letters, digits and _, as in AMD_GPU)"),
        (
            [],
            ["--labels"],
            "docker info failed: no answer for info --format {{json .}}",
        ),
    ],
)
def test_a_setup_that_would_not_work_is_refused_and_changes_nothing(
    node: Node, resources: object, words: list[str], sentence: str
) -> None:
    node.configure(node_generic_resources=resources)
    before = node.daemon_json.read_text()

    answer = node("setup", *words)

    assert (answer.returncode, answer.stdout, answer.stderr) == (1, "", f"{sentence}\n")
    assert node.daemon_json.read_text() == before
    assert not Path(node.host.path("/etc/amd-container-toolkit/config.toml")).exists()


def test_a_manager_labels_itself(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD)
    node.answer(INFO, {"ServerVersion": "28", "Swarm": {"NodeID": "n1", "ControlAvailable": True}})
    node.answer(INSPECT, {"rack": "7", "amd.gpu.count": "3"})
    node.answer(f"node update {LABELS} n1", "")

    answer = node("setup", "--labels")

    assert answer.stdout == SETTINGS_UPDATED + UPDATED + (
        "Labelled this node: amd.gpu.model=MI210 amd.gpu.gfx=gfx90a amd.gpu.count=4 amd.gpu.vram-mb=65520"
        " amd.gpu.driver=6.10.5\n"
    )
    assert node.calls == [INFO, INSPECT, f"node update {LABELS} n1"]


def test_labels_that_are_there_are_not_given_again(node: Node) -> None:
    node.answer(INFO, {"ServerVersion": "28", "Swarm": {"NodeID": "n1", "ControlAvailable": True}})
    given = dict(word.split("=") for word in LABELS.split() if "=" in word)
    node.answer(INSPECT, {"rack": "7", **given})

    assert node("setup", "--labels").stdout == f"{SETTINGS_UPDATED}{UPDATED}The labels of this node are up to date\n"
    assert node.calls == [INFO, INSPECT]


def test_a_worker_cannot_label_itself(node: Node) -> None:
    node.answer(INFO, {"ServerVersion": "28", "Swarm": {"NodeID": "n1", "ControlAvailable": False}})

    assert node("setup", "--labels").stderr == (
        "this node is not a swarm manager, so it cannot label itself"
        " (run without --labels, and run the printed command on a manager)\n"
    )


def test_partitions_are_offered_one_by_one(host, amd_ctk, tmp_path: Path) -> None:
    node = Node(host("mi300x-8-cpx"), tmp_path / "bin", amd_ctk)

    node("setup")

    assert len(node.offered) == len(set(node.offered)) == 63
    assert node.offered[:2] == ["AMD_GPU=0xE3AA140F9A5F9E31:p0", "AMD_GPU=0xE3AA140F9A5F9E31:p1"]


def test_gpus_without_an_id_are_offered_by_address(host, amd_ctk, tmp_path: Path) -> None:
    node = Node(host("strix-halo"), tmp_path / "bin", amd_ctk)

    assert node("setup").stderr == "GPU 0 has no unique id to be named by (name the GPUs by address: --by pci)\n"
    assert node("setup", "--by=pci", "--also-by-model").returncode == 0
    assert node.offered == ["AMD_GPU=0000:c5:00.0", "GFX1151=0000:c5:00.0"]


def test_a_node_without_gpus_has_nothing_to_offer(host, amd_ctk, tmp_path: Path) -> None:
    node = Node(host("no-driver"), tmp_path / "bin", amd_ctk)

    assert node("setup").stderr.startswith("amdgpu driver unavailable: ")


RULE = "-" * 100
HEADER = f"{RULE}\nGPU Id    Model       VRAM (MiB)  Advertised as                       Reserved by\n{RULE}\n"


def test_status_shows_what_is_configured_where_no_engine_answers(node: Node) -> None:
    node.configure(node_generic_resources=["AMD_GPU=0xEA35F57CC80DEB35", "MI=0x89CAA15875FF5A43", "AMD_GPU=0xDEAD"])

    answer = node("status")

    assert answer.stdout == HEADER + (
        "0         MI210       65520       AMD_GPU=0xEA35F57CC80DEB35          -\n"
        "1         MI210       65520       MI=0x89CAA15875FF5A43               -\n"
        "2         MI210       65520       -                                   -\n"
        "3         MI210       65520       -                                   -\n"
    )
    assert answer.stderr == (
        "MI is not in the setting swarm-resources, so no task gets a GPU by it\n"
        "AMD_GPU=0xDEAD names no GPU of this node, so every task that gets it is refused\n" + NO_DEFAULT
    )


def test_status_shows_what_swarm_promised_where_nothing_is_tracked(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD, node_generic_resources=["AMD_GPU=0xEA35F57CC80DEB35", "GPU=0xEA35F57CC80DEB35"])
    node.answer(
        INFO,
        {
            "ServerVersion": "28",
            "GenericResources": [
                {"NamedResourceSpec": {"Kind": "AMD_GPU", "Value": "0xEA35F57CC80DEB35"}},
                {"NamedResourceSpec": {"Kind": "GPU", "Value": "0xEA35F57CC80DEB35"}},
                {"DiscreteResourceSpec": {"Kind": "GPU_COMPUTE", "Value": 4}},
            ],
        },
    )
    node.answer("ps --quiet --no-trunc --filter label=com.docker.swarm.task.id", "c1\nc2\n")
    node.answer(
        "inspect --format {{.Id}} {{json .Config.Env}} c1 c2",
        'c1 ["A=1","DOCKER_RESOURCE_AMD_GPU=0xEA35F57CC80DEB35,0x89CAA15875FF5A43"]\nc2 null\n',
    )

    answer = node("status")

    assert answer.stdout == HEADER + (
        "0         MI210       65520       AMD_GPU=0xEA35F57CC80DEB35          c1 whole\n"
        "                                  GPU=0xEA35F57CC80DEB35\n"
        "1         MI210       65520       -                                   c1 whole\n"
        "2         MI210       65520       -                                   -\n"
        "3         MI210       65520       -                                   -\n"
    )
    assert answer.stderr == (
        "GPU_COMPUTE=4 is an amount and names no GPU, so every task that gets it is refused\n"
        "GPUs [0] are advertised twice, as AMD_GPU and GPU, and Swarm gives them out twice: without the GPU Tracker two"
        " tasks share one\n"
        "docker advertises the GPUs of /etc/docker/daemon.json only after a restart\n"
    )


def test_status_leaves_out_a_task_that_ends_while_docker_is_asked(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD, node_generic_resources=["AMD_GPU=0xEA35F57CC80DEB35"])
    resource = {"NamedResourceSpec": {"Kind": "AMD_GPU", "Value": "0xEA35F57CC80DEB35"}}
    node.answer(INFO, {"ServerVersion": "28", "GenericResources": [resource]})
    environment = ["DOCKER_RESOURCE_AMD_GPU=0xEA35F57CC80DEB35"]
    node.answer("inspect --format {{.Id}} {{json .Config.Env}} c2", f"c2 {json.dumps(environment)}\n")
    node.answer("ps --quiet --no-trunc --filter label=com.docker.swarm.task.id", "c1\nc2\n")
    program = node.directory / "docker"
    ends = f"case $* in inspect*c1*) echo c2 > {next(node.directory.glob('ps_*'))};; esac"
    program.write_text(program.read_text().replace("answer=", f"{ends}\nanswer=", 1))

    answer = node("status")

    assert answer.returncode == 0
    assert answer.stdout.startswith(
        HEADER + "0         MI210       65520       AMD_GPU=0xEA35F57CC80DEB35          c2 whole\n"
    )


def test_status_says_which_memory_nobody_keeps_count_of(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD)
    node("setup", "--vram")
    settings = json.loads(node.daemon_json.read_text())
    settings["node-generic-resources"][-1] = "VRAM=300000"
    settings["live-restore"] = True
    node.daemon_json.write_text(json.dumps(settings))
    Tracker(node.host).disable()

    answer = node("status")

    assert answer.stdout.splitlines()[-1] == "VRAM: 300000 MiB advertised, 0 MiB reserved"
    assert answer.stderr == (
        "VRAM advertises 300000 MiB, but the GPUs have 262080 MiB\n"
        "VRAM is advertised while the GPU Tracker is disabled, so every task that gets it is refused\n"
        'Docker cannot join a swarm while "live-restore" is true\n'
    )


class TestOptionsOfTheDaemonsUnit:
    @pytest.fixture
    def dockerd(self, node: Node):
        """Return a function that gives the node's dockerd options by its unit."""
        unit = Path(node.host.path("/etc/systemd/system/docker.service"))
        unit.parent.mkdir(parents=True)

        return lambda words: unit.write_text(f"[Service]\nExecStart=/usr/bin/dockerd {words}\n")

    def test_resources_that_are_on_its_command_line_are_not_written_too(self, node: Node, dockerd) -> None:
        dockerd("--node-generic-resource AMD_GPU=0xEA35F57CC80DEB35")

        answer = node("setup", "--vram")

        assert (answer.returncode, answer.stdout, answer.stderr) == (
            1,
            "",
            (
                "docker.service has --node-generic-resource=AMD_GPU=0xEA35F57CC80DEB35 on its command line, and docker"
                ' does not start while /etc/docker/daemon.json has "node-generic-resources" too (nothing was changed;'
                " remove --node-generic-resource from the unit or its environment file first)\n"
            ),
        )
        assert not node.daemon_json.exists()
        assert not Tracker(node.host).is_enabled()

    def test_memory_that_is_on_its_command_line_is_the_budget(self, node: Node, dockerd) -> None:
        dockerd("-H unix:///var/run/docker.sock --node-generic-resource VRAM=8000")
        node.configure(**DEFAULT_IS_AMD)
        before = node.daemon_json.read_text()

        answer = node("setup", "--vram")
        settings = read_settings(node.host)
        status = node("status")
        node("setup", "--remove")

        assert (answer.returncode, answer.stderr) == (
            0,
            "docker.service advertises VRAM=8000, which is the budget of this node\n",
        )
        up_to_date = "The config file is up to date: /etc/docker/daemon.json\n"
        assert answer.stdout == f"GPU Tracker has been enabled\n{SETTINGS_UPDATED}{up_to_date}{TO_LABEL}"
        assert (settings.swarm_vram_resources, settings.swarm_resources) == (("VRAM",), ())
        assert (status.stdout.splitlines()[-1], status.stderr) == ("VRAM: 8000 MiB advertised, 0 MiB reserved", "")
        assert (node.daemon_json.read_text(), read_settings(node.host)) == (before, Settings())

    def test_status_shows_what_it_advertises_and_advises_nothing_that_stops_docker(self, node: Node, dockerd) -> None:
        dockerd("--node-generic-resource=AMD_GPU=0xEA35F57CC80DEB35 --default-runtime=nvidia --live-restore")

        answer = node("status")

        assert "0         MI210       65520       AMD_GPU=0xEA35F57CC80DEB35          -\n" in answer.stdout
        assert answer.stderr == (
            "Swarm runs every task under the default runtime, which is not the AMD Container Runtime (remove"
            " --default-runtime from docker.service, then run 'sudo amd-ctk runtime configure --set-as-default')\n"
            'Docker cannot join a swarm while "live-restore" is true\n'
        )

    def test_a_default_runtime_of_its_command_line_is_found(self, node: Node, dockerd) -> None:
        dockerd("--default-runtime=gpu --add-runtime gpu=/usr/bin/amd-container-runtime")

        assert node("status").stderr == ""


def test_status_as_json_says_everything(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD, node_generic_resources=["AMD_GPU=0xEA35F57CC80DEB35", "SSD=1"])

    offer = json.loads(node("status", "--json").stdout)

    assert offer["gpus"][0] == {
        "number": 0,
        "uuid": "0xEA35F57CC80DEB35",
        "pci_address": "0000:03:00.0",
        "model": "MI210",
        "vram_mb": 65520,
        "resources": ["AMD_GPU=0xEA35F57CC80DEB35"],
        "reservations": [],
    }
    assert (len(offer["gpus"]), offer["pools"], offer["problems"]) == (4, [], [])


class TestRemovalOfTheDefaultRuntime:
    @pytest.fixture(autouse=True)
    def program(self, node: Node) -> None:
        path = node.directory / "amd-container-runtime"
        path.write_text("")
        path.chmod(0o755)

    def settings(self, node: Node) -> dict[str, object]:
        return json.loads(node.daemon_json.read_text())

    def test_a_setup_is_removed(self, node: Node) -> None:
        node("setup", "--set-as-default")

        removed = node("setup", "--remove")

        assert (removed.returncode, removed.stderr) == (0, "")
        assert removed.stdout == SETTINGS_UPDATED + UPDATED.replace("Updated", "Removed") + TO_UNLABEL
        assert not node.daemon_json.exists()

    def test_the_default_of_before_is_restored_and_what_is_not_of_setup_stays(self, node: Node) -> None:
        node.configure(default_runtime="nvidia", runtimes={"nvidia": {"path": "/usr/bin/nvidia"}}, debug=True)
        before = node.daemon_json.read_text()
        node("setup", "--set-as-default")
        assert self.settings(node)["default-runtime"] == "amd"

        node("setup", "--remove")

        assert node.daemon_json.read_text() == before

    def test_a_second_setup_does_not_forget_what_the_first_made(self, node: Node) -> None:
        node("setup", "--set-as-default")
        node("setup", "--set-as-default", "--vram")
        node("setup")

        node("setup", "--remove")

        assert not node.daemon_json.exists()

    def test_a_runtime_that_was_configured_before_stays_and_is_the_default_no_more(self, node: Node, amd_ctk) -> None:
        amd_ctk("runtime", "configure", PATH=str(node.directory))
        configured = self.settings(node)
        node("setup", "--set-as-default")

        node("setup", "--remove")

        assert self.settings(node) == configured

    @pytest.mark.parametrize("first", ["runtime", "setup"])
    def test_a_default_that_runtime_configure_was_asked_for_stays_and_its_command_is_reported(
        self, node: Node, amd_ctk, first: str
    ) -> None:
        if first == "setup":
            node("setup", "--set-as-default")
        asked = amd_ctk("runtime", "configure", "--set-as-default", PATH=str(node.directory))
        assert asked.returncode == 0
        node("setup", "--set-as-default")

        removed = node("setup", "--remove")

        assert removed.stdout == (
            f"{SETTINGS_UPDATED}{UPDATED}amd is still the default runtime; to remove it as well:\n"
            f"sudo amd-ctk runtime configure --remove\n{TO_UNLABEL}"
        )
        assert self.settings(node)["default-runtime"] == "amd"

    def test_a_default_that_the_user_has_set_stays_and_nothing_is_reported(self, node: Node) -> None:
        node.configure(**DEFAULT_IS_AMD)
        before = node.daemon_json.read_text()
        node("setup", "--set-as-default")

        removed = node("setup", "--remove")

        assert removed.stdout == SETTINGS_UPDATED + UPDATED + TO_UNLABEL
        assert self.settings(node)["default-runtime"] == json.loads(before)["default-runtime"]

    def test_a_default_that_the_user_has_changed_since_stays(self, node: Node) -> None:
        node("setup", "--set-as-default")
        node.daemon_json.write_text(json.dumps({**self.settings(node), "default-runtime": "runc"}))

        removed = node("setup", "--remove")

        assert removed.stdout == SETTINGS_UPDATED + UPDATED + TO_UNLABEL
        assert self.settings(node)["default-runtime"] == "runc"

    def test_a_dry_run_of_the_removal_changes_nothing(self, node: Node) -> None:
        node("setup", "--set-as-default")
        before = node.daemon_json.read_text()

        shown = node("setup", "--remove", "--dry-run")

        assert (shown.returncode, node.daemon_json.read_text()) == (0, before)


def test_a_manager_removes_its_own_labels(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD)
    node("setup")
    unlabel = "node update --label-rm amd.gpu.model --label-rm amd.gpu.gfx --label-rm amd.gpu.count --label-rm"
    unlabel += " amd.gpu.vram-mb --label-rm amd.gpu.driver n1"
    node.answer(INFO, {"ServerVersion": "28", "Swarm": {"NodeID": "n1", "ControlAvailable": True}})
    node.answer(INSPECT, {"amd.gpu.model": "MI210", "rack": "7"})
    node.answer(unlabel, "")

    removed = node("setup", "--remove", "--labels")
    node.answer(INSPECT, {"rack": "7"})
    again = node("setup", "--remove", "--labels")

    assert removed.stdout == f"{SETTINGS_UPDATED}{UPDATED}Removed the labels of this node\n"
    assert again.stdout.splitlines()[-1] == "This node has no labels of amd-ctk"
    assert node.calls.count(unlabel) == 1


NAMES = (
    "ps --no-trunc --filter label=com.docker.swarm.task.id --format"
    ' {{.ID}} {{.Label "com.docker.swarm.service.name"}} {{.Label "com.docker.swarm.task.name"}}'
)
CONTAINER = "36b012bb34c96149a6ef5b28623e6e75cf9f71eb2b824b2c8f44e0449c7a1aa8"


@pytest.fixture
def busy(node: Node) -> Node:
    """Return a node on which a task of the service training has two GPUs."""
    node.configure(**DEFAULT_IS_AMD, node_generic_resources=[f"AMD_GPU={gpu}" for gpu in GPUS])
    named = [{"NamedResourceSpec": {"Kind": "AMD_GPU", "Value": gpu}} for gpu in GPUS]
    node.answer(INFO, {"ServerVersion": "28", "GenericResources": named})
    node.answer("ps --quiet --no-trunc --filter label=com.docker.swarm.task.id", f"{CONTAINER}\n")
    variable = f"DOCKER_RESOURCE_AMD_GPU={GPUS[0]},{GPUS[1]}"
    node.answer(f"inspect --format {{{{.Id}}}} {{{{json .Config.Env}}}} {CONTAINER}", f'{CONTAINER} ["{variable}"]\n')
    node.answer(NAMES, f"{CONTAINER} training training.1.x8f3k2j5l6m7n8o9p0q1r2s3t\n")
    return node


def test_status_names_tasks_and_their_services(busy: Node) -> None:
    shown, fields = busy("status"), json.loads(busy("status", "--json").stdout)

    assert shown.stderr == ""
    assert shown.stdout == HEADER + (
        "0         MI210       65520       AMD_GPU=0xEA35F57CC80DEB35          training.1 whole\n"
        "1         MI210       65520       AMD_GPU=0x89CAA15875FF5A43          training.1 whole\n"
        "2         MI210       65520       AMD_GPU=0x6E32F10EFC982B4C          -\n"
        "3         MI210       65520       AMD_GPU=0x12FE4F7FDAF06B9           -\n"
    )
    assert fields["gpus"][0]["reservations"] == [
        {
            "container_id": CONTAINER,
            "kinds": ["AMD_GPU"],
            "vram_mb": 0,
            "service": "training",
            "task": "training.1.x8f3k2j5l6m7n8o9p0q1r2s3t",
        }
    ]


def test_a_variable_of_a_task_may_have_any_character(busy: Node) -> None:
    words = f'["DOCKER_RESOURCE_AMD_GPU={GPUS[0]}","A=x\u0085y"]'
    busy.answer(f"inspect --format {{{{.Id}}}} {{{{json .Config.Env}}}} {CONTAINER}", f"{CONTAINER} {words}\n")

    assert "AMD_GPU=0xEA35F57CC80DEB35          training.1 whole\n" in busy("status").stdout


def test_a_task_of_each_node_is_called_by_its_service(busy: Node) -> None:
    busy.answer(NAMES, f"{CONTAINER} monitoring monitoring.gpu1s2x3y4z5a6b7c8d9e0f1g2.x8f3k2j5l6m7n8o9p0q1r2s3t\n")

    assert "  monitoring whole\n" in busy("status").stdout


def test_whole_names_and_ids_of_tasks_are_shown_to_who_asks(busy: Node) -> None:
    line = busy("status", "--no-trunc").stdout.splitlines()[3]

    task = "training.1.x8f3k2j5l6m7n8o9p0q1r2s3t"
    assert line == f"0       MI210  65520       AMD_GPU=0xEA35F57CC80DEB35  {task} {CONTAINER} whole"


def test_status_fits_a_terminal(busy: Node, program) -> None:
    from support.terminal import shown_on_terminal

    environment = {
        "PATH": str(busy.directory),
        "HOME": "/nowhere",
        "AMD_CTK_HOST_ROOT": busy.host.root,
        "DOCKER_HOST": "unix:///nowhere",
    }
    assert shown_on_terminal([program, "swarm", "status"], environment, columns=60)[1] == (
        f"{'-' * 59}\n"
        "GPU Id  Model  Advertised as               Reserved by\n"
        f"{'-' * 59}\n"
        "0       MI210  AMD_GPU=0xEA35F57CC80DEB35  training.1 whole\n"
        "1       MI210  AMD_GPU=0x89CAA15875FF5A43  training.1 whole\n"
        "2       MI210  AMD_GPU=0x6E32F10EFC982B4C  -\n"
        "3       MI210  AMD_GPU=0x12FE4F7FDAF06B9   -\n"
    )


def test_a_docker_that_does_not_name_tasks_leaves_their_ids(busy: Node) -> None:
    busy.answer(NAMES, "")

    assert "36b012bb34c9 whole\n" in busy("status").stdout


def test_a_budget_is_advertised_instead_of_all_memory(node: Node) -> None:
    node.configure(**DEFAULT_IS_AMD)

    answer = node("setup", "--vram-mib=8000")

    assert answer.returncode == 0
    assert node.offered[-1] == "VRAM=8000"


def test_a_budget_of_more_than_there_is_is_refused(node: Node) -> None:
    answer = node("setup", "--vram", "--vram-mib=262081")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "the GPUs have 262080 MiB, less than the budget of 262081 MiB\n"
    assert not node.daemon_json.exists()
