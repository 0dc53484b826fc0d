"""Which names a container may give to nodes."""

from __future__ import annotations

from amd_ctk.doctor.inside import nodes


def test_only_a_number_makes_a_render_node(tmp_path, monkeypatch):
    for name in ("renderD128", "renderD129;reboot", "renderD", "renderD\u0661", "card0", "128"):
        (tmp_path / name).touch()
    monkeypatch.setattr(nodes, "DRI", str(tmp_path))

    assert list(nodes._render_paths()) == [f"{tmp_path}/renderD128"]
