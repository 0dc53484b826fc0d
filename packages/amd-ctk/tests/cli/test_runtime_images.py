"""amd-ctk runtime configure --images: the proxy in the place of registries."""

from __future__ import annotations

from pathlib import Path

import pytest

PODMAN = "etc/containers/registries.conf.d/99-amd-images.conf"
CONTAINERD = "etc/containerd/certs.d/registry.example/hosts.toml"
IN_PODMAN = """\
# Images that fit the GPUs; remove with 'amd-ctk runtime configure --runtime=podman --images --remove'.

[[registry]]
prefix = "registry.example"
location = "127.0.0.1:505"
insecure = true

[[registry]]
location = "127.0.0.1:505"
insecure = true
"""
IN_CONTAINERD = """\
# Images that fit the GPUs; remove with 'amd-ctk runtime configure --runtime=containerd --images --remove'.
server = "http://127.0.0.1:505"

[host."http://127.0.0.1:505"]
capabilities = ["pull", "resolve"]
"""
NEXT = "Please run: sudo systemctl enable --now amd-ctk-images@505.socket\n"


@pytest.fixture
def root(host):
    """Return the root of a host whose file names one registry."""
    root = Path(host().root)
    (root / "etc/amd-container-toolkit").mkdir(parents=True, exist_ok=True)
    name(root, '505 = "registry.example"\n')
    return root


def name(root, text):
    (root / "etc/amd-container-toolkit/images.toml").write_text(text)


@pytest.fixture
def configure(amd_ctk, root):
    return lambda engine, *words: amd_ctk("runtime", "configure", f"--runtime={engine}", "--images", *words)


@pytest.mark.parametrize(
    ("engine", "path", "text"), [("podman", PODMAN, IN_PODMAN), ("containerd", CONTAINERD, IN_CONTAINERD)]
)
def test_the_proxy_takes_the_registrys_place_and_goes_again(configure, root, engine, path, text):
    assert configure(engine, "--dry-run").stdout == text
    assert not (root / path).exists()

    assert configure(engine).stdout == f"Updated the config file: /{path}\n{NEXT}"
    assert (root / path).read_text() == text
    assert configure(engine).stdout == f"The config file is up to date: /{path}\n"

    assert configure(engine, "--remove").stdout == f"Removed the config file: /{path}\n"
    assert not (root / path).exists()


@pytest.mark.parametrize(("engine", "path"), [("podman", PODMAN), ("containerd", CONTAINERD)])
def test_the_last_change_is_undone(configure, root, engine, path):
    configure(engine)
    name(root, '606 = "registry.example"\n')

    shown = configure(engine, "--diff").stdout
    configure(engine, "--undo")

    assert '-server = "http://127.0.0.1:505"' in shown or '-location = "127.0.0.1:505"' in shown
    assert "127.0.0.1:505" in (root / path).read_text()


def test_a_registry_that_is_no_longer_named_gets_its_place_back(configure, root):
    configure("containerd")
    name(root, '505 = "docker.io"\n')

    answer = configure("containerd")

    assert answer.stdout == (
        "Updated the config file: /etc/containerd/certs.d/docker.io/hosts.toml\n"
        f"Removed the config file: /{CONTAINERD}\n{NEXT}"
    )


def test_text_that_others_wrote_stays(configure, root):
    (root / CONTAINERD).parent.mkdir(parents=True)
    (root / CONTAINERD).write_text('server = "https://mirror.example"\n')

    configure("containerd")
    assert (root / CONTAINERD).read_text() == IN_CONTAINERD.partition("\n")[2]
    configure("containerd", "--remove")

    assert (root / CONTAINERD).read_text() == 'server = "https://mirror.example"\n'


def test_servers_that_containerd_would_ask_first_are_refused(configure, root):
    (root / CONTAINERD).parent.mkdir(parents=True)
    (root / CONTAINERD).write_text('[host."https://mirror.example"]\n')

    answer = configure("containerd")

    assert answer.returncode == 1
    assert answer.stderr == (
        "failed to init config for runtime engine: containerd | err: error decoding configuration file: "
        f"/{CONTAINERD} | err: it has servers that containerd asks first (remove its other [host] tables)\n"
    )


def test_removing_everything_removes_the_proxy(configure, amd_ctk, root):
    configure("podman")
    configure("containerd")

    answer = amd_ctk("runtime", "configure", "--all", "--remove")

    assert f"Removed the config file: /{PODMAN}\n" in answer.stdout
    assert f"Removed the config file: /{CONTAINERD}\n" in answer.stdout
    assert not (root / PODMAN).exists()


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (
            "docker",
            (
                "docker has no setting that puts a proxy in the place of a registry "
                "(pull 127.0.0.1:PORT/NAME in place of REGISTRY/NAME)"
            ),
        ),
        ("crio", "crio has no setting that puts a proxy in the place of a registry (use podman or containerd)"),
    ],
)
def test_other_engines_are_refused_with_what_to_do(configure, engine, words):
    answer = configure(engine)

    assert (answer.returncode, answer.stderr) == (2, f"{words}\n")


@pytest.mark.parametrize("option", ["--set-as-default", "--unset-as-default", "--config-path=/x"])
def test_options_of_the_runtime_are_refused(configure, option):
    answer = configure("podman", option)

    words = "images flag can only be used along with remove, undo, dry-run and diff flags\n"
    assert (answer.returncode, answer.stderr) == (1, words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ' names no registry (write a line for each registry, such as 505 = "registry.example")'),
        ("505", " is not TOML: "),
        ("70000 = 'a'", ": 70000 is not a port (write"),
        ("web = 'a'", ": web is not a port (write"),
        ("505 = 'a/b'", ": 505 is not followed by the name of a registry (write"),
        ("505 = 1", ": 505 is not followed by the name of a registry (write"),
        ("505 = 'a'\n506 = 'https://a'", " names a registry twice (one port is enough for all its images)"),
    ],
)
def test_a_file_that_names_no_registries_is_refused(configure, root, text, words):
    name(root, text)

    answer = configure("podman")

    assert answer.returncode == 2
    assert f"/etc/amd-container-toolkit/images.toml{words}" in answer.stderr


def test_without_the_file_its_form_is_shown(configure, root):
    (root / "etc/amd-container-toolkit/images.toml").unlink()

    assert configure("podman").stderr == (
        "/etc/amd-container-toolkit/images.toml does not exist "
        '(write a line for each registry, such as 505 = "registry.example")\n'
    )
