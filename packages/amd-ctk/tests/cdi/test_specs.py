"""Who may write a spec, short of the command around it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from amd_ctk.cdi.generate_options import CdiError
from amd_ctk.cdi.specs import require_writable


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's file is needed, which only root can make")
def test_another_users_file_is_not_overwritten() -> None:
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    spec = directory / "amd.json"
    spec.write_text("{}")
    os.seteuid(65534)
    try:
        with pytest.raises(CdiError) as refused:
            require_writable(str(spec))
    finally:
        os.seteuid(0)
        shutil.rmtree(directory)

    assert str(refused.value) == (
        f"failed to write CDI spec: {spec} cannot be written: access is refused (run the command with sudo)"
    )
