"""How a rule names whom the administrator typed."""

from __future__ import annotations

import grp

from amd_gpu_sharing.broker.requests.people import Permission
from amd_gpu_sharing.rules.permissions import find_person


def test_a_group_whose_name_has_a_blank_is_written_as_a_group_with_its_number(monkeypatch):
    known = {"domain users": grp.struct_group(("domain users", "x", 40513, []))}
    monkeypatch.setattr(grp, "getgrnam", known.__getitem__)

    assert find_person("@domain users") == Permission(who="@40513", number=40513)
