"""The proxy ends when nothing is asked; systemd listens then."""

from __future__ import annotations

import socket
from threading import Thread

from amd_gpu_images.proxy import serve
from amd_gpu_images.proxy.proxy import EngineConnection


def test_the_proxy_ends_after_some_time_without_requests_and_connections(monkeypatch):
    monkeypatch.setattr(serve, "SECONDS_UNUSED", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = Thread(target=serve.EngineServer(listener, EngineConnection).run, daemon=True)
        running.start()
        running.join(30)

    assert not running.is_alive()
