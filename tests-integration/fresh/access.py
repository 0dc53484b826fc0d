"""How a fresh machine reaches the package indexes that this one reaches: certificates, proxies and pip's settings."""

from __future__ import annotations

import os
import shutil
from configparser import ConfigParser
from pathlib import Path

PASSED_ON = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
PIP_FILES = (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf")
# Where files are that those settings name.
DIRECTORY = "etc/of-the-machine-that-tests"


def write_access(root: Path) -> dict[str, str]:
    """Write pip's settings into a root file system, with the files they name; return the variables that uv needs."""
    (root / DIRECTORY).mkdir(parents=True, exist_ok=True)
    _write_pip_settings(root)
    wanted = {name: text for name, text in os.environ.items() if name.upper() in PASSED_ON or name.startswith("UV_")}
    return {name: value for name, text in wanted.items() if (value := _within(root, text))}


def _write_pip_settings(root: Path) -> None:
    """Write one file of all places: of the machine, of the user, and of the environment, which says the last word."""
    found = ConfigParser(interpolation=None)
    found.read(PIP_FILES, encoding="utf-8")
    variables = {
        name[4:].lower().replace("_", "-"): text for name, text in os.environ.items() if name.startswith("PIP_")
    }
    found.read_dict({"global": {name[4:].lower().replace("_", "-"): text for name, text in variables.items()}})
    settings = ConfigParser(interpolation=None)
    for section in found.sections():
        settings[section] = {name: value for name, text in found[section].items() if (value := _within(root, text))}
    with (root / "etc/pip.conf").open("w", encoding="utf-8") as file:
        settings.write(file)


def _within(root: Path, text: str) -> str:
    """Return a setting as it is true there: a file is copied, and what else is on this machine's disk is left out."""
    words = []
    for word in text.split():
        if Path(word).is_file():
            shutil.copy(word, root / DIRECTORY)
            words.append(f"/{DIRECTORY}/{Path(word).name}")
        elif not word.startswith(("/", "file:")):
            words.append(word)
    return " ".join(words)
