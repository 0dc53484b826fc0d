"""A digest is the same whichever module of Python computes it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from amd_gpu_tracker.book import digest

# Of "train.0a" by sha256sum.
KNOWN = "f3b1ff91eb491f6ae837ca2985abc2c0206ac74602b15284b7b9d5ea64f7acec"


def test_a_digest_is_the_one_of_sha256sum():
    assert digest.sha256_of(b"train.0a") == KNOWN


@pytest.mark.parametrize("modules", [("_no_such_module", "hashlib"), ("hashlib",)])
def test_without_pythons_own_modules_hashlib_computes_it(monkeypatch, modules):
    monkeypatch.setattr(digest, "MODULES", modules)

    assert digest.sha256_of(b"train.0a") == KNOWN


def test_a_digest_does_not_load_openssl():
    code = (
        "import sys; from amd_gpu_tracker.book.digest import sha256_of; sha256_of(b'train.0a');"
        " print(sys.modules.keys() & {'hashlib', '_hashlib'})"
    )

    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout == "set()\n"
