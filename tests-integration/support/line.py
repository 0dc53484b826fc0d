"""The line of waiting jobs, for tests of distributions that work without amd-gpu-sharing."""

from __future__ import annotations

from typing import Any

import pytest


def require_line() -> None:
    """Skip a test where amd-gpu-sharing is not installed, which has the line."""
    pytest.importorskip("amd_gpu_sharing", reason="amd-gpu-sharing is not installed: there is no line")


def put_ticket(*words: Any, **fields: Any) -> Any:
    """Put a ticket as `support.shared_host.put_ticket` does, where there is a line."""
    require_line()
    from support.shared_host import put_ticket as put

    return put(*words, **fields)
