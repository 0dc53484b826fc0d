"""As whom a container's program opens its nodes: what `id` printed in containers of a real Docker.

users.json has the USER of an image, --user, --group-add, and what `id` printed as "uid:gid groups", or null and the
reason for which Docker refused the container. The image's /etc/passwd has root and app (1234:1234), its /etc/group
root and render (777).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
