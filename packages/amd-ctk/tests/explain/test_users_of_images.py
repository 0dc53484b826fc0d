"""As whom a container's program opens its nodes: what `id` printed in containers of a real Docker.

users.json has the USER of an image, --user, --group-add, and what `id` printed as "uid:gid groups", or null and the
reason for which Docker refused the container. The image's /etc/passwd has root and app (1234:1234), its /etc/group
root and render (777).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amd_ctk.engines.image_names import read_names, resolve_user
from amd_ctk.explain.engine_spec import build_spec
from amd_ctk.explain.run_words import parse_run
from amd_ctk.explain.usable import names_of_image

ASKED = json.loads(Path(__file__).with_name("users.json").read_text(encoding="utf-8"))
# Its uid stands in the passwd of the image with another group, which nothing here reads.
KNOWN_TO_IMAGE = ("1234",)


def container_of(image_user, user, group):
    words = [*(["--user", user] if user else []), *(["--group-add", group] if group else [])]
    container = parse_run(["docker", "run", *words, "who:1"], {})
    return container if container.user else container.replace(user=image_user, is_user_of_image=bool(image_user))


@pytest.mark.parametrize("engine", ASKED)
def test_users_are_those_that_the_engine_gives(engine, sleeping_host):
    wrong = []

    for image_user, user, group, answer, reason in ASKED[engine]:
        container = container_of(image_user, user, group)
        names = names_of_image(container)
        found = build_spec(container, sleeping_host).spec["process"]["user"]
        if answer is None:
            # Only the image knows which names it has, so a note names each.
            is_right = any(name.split()[-1].split(":")[-1] in reason or "user" in reason for name in names)
        elif names or (user or image_user) in KNOWN_TO_IMAGE:
            is_right = True
        else:
            ids, _, groups = answer.partition(" ")
            gid = found.get("gid", 0)
            expected = sorted({gid, *found.get("additionalGids", [])})
            is_right = ids == f"{found.get('uid', 0)}:{gid}" and sorted(map(int, groups.split())) == expected
        if not is_right:
            wrong.append((image_user, user, group, answer, reason, found, names))

    assert wrong == []


@pytest.fixture
def names(tmp_path):
    """Return the names of that image, whose upper layer has another /etc/group than the lower one."""
    write(tmp_path / "upper/etc/group", "root:x:0:\nrender:x:777:\n")
    write(tmp_path / "lower/etc/group", "root:x:0:\nnosuch:x:7:\n")
    write(tmp_path / "lower/etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1234:1234::/:/bin/sh\n")
    lower = f"{tmp_path}/none:{tmp_path}/lower"
    return read_names({"Name": "overlay2", "Data": {"UpperDir": f"{tmp_path}/upper", "LowerDir": lower}})


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("engine", ASKED)
def test_where_the_layers_of_the_image_can_be_read_every_name_has_its_number(engine, names):
    wrong = []

    for image_user, user, group, answer, reason in ASKED[engine]:
        found = resolve_user(user or image_user, [group] if group else [], names)
        uid, _, gid = (found.user or "0:0").partition(":")
        groups = " ".join(sorted({gid, *found.groups}, key=int)) if not found.refusal else ""
        here = (None, found.refusal) if found.refusal else (f"{uid}:{gid} {groups}", "")
        ids, _, listed = (answer or "").partition(" ")
        there = f"{ids} {' '.join(sorted(listed.split(), key=int))}" if answer else None
        # Docker writes "Unable" for --group-add.
        if here != (there, reason[:1].lower() + reason[1:]):
            wrong.append((image_user, user, group, answer, reason, here))

    assert wrong == []


def test_users_of_an_image_are_in_the_groups_that_list_them(tmp_path):
    write(tmp_path / "etc/passwd", "ollama:x:1000:1000::/:/bin/sh\n")
    write(tmp_path / "etc/group", "ollama:x:1000:\nvideo:x:44:root,ollama\nrender:x:993:ollama\n")
    names = read_names({"Data": {"UpperDir": str(tmp_path)}})

    assert resolve_user("ollama", ["render", "keep-groups"], names).as_dict() == {
        "user": "1000:1000",
        "groups": ("keep-groups", "993", "44"),
        "refusal": "",
    }
    assert resolve_user("ollama:ollama", [], names).groups == ()


@pytest.mark.parametrize("place", ["etc", "etc/group"])
def test_a_link_in_an_image_does_not_lead_to_names_of_the_host(tmp_path, place):
    write(tmp_path / "layer/etc/passwd", "root:x:0:0::/root:/bin/sh\n")
    path = tmp_path / "layer" / place
    path.rename(tmp_path / "moved") if path.exists() else None
    path.symlink_to(f"/{place}")

    assert read_names({"Data": {"UpperDir": f"{tmp_path}/layer"}}) is None


@pytest.mark.parametrize("known", [{}, {"Data": None}, {"Data": {"UpperDir": 7}}, {"Data": {"UpperDir": "layer"}}])
def test_an_engine_that_does_not_say_where_its_layers_are_leaves_names_unknown(known):
    assert read_names(known) is None
