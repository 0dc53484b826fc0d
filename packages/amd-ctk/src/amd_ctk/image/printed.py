"""Read an image from a program that prints an archive of it, as engines and skopeo do."""

from __future__ import annotations

import io
import resource
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO

from amd_ctk.image.bounds import GIBIBYTE, ImageError, Progress
from amd_ctk.image.contents import Image
from amd_ctk.image.docker_archive import read_archive
from amd_ctk.image.idle import MOST_WORDS, Watched
from amd_ctk.image.registry_programs import last_words
from amdgpu_discovery.errors import reason

# What Go's library calls EFBIG.
TOO_LARGE = "file too large"


def read_saved(engine: str, name: str, progress: Progress, *, deep: bool) -> Image:
    """Return an image that an engine has, which is asked to save it; nothing is written to disk. ImageError."""
    if name.startswith("-"):
        raise ImageError(f"{engine}:{name} does not name an image")
    return read_printed([engine, "save", name], f"{engine}:{name}", progress, deep=deep)


def read_printed(
    words: Sequence[str], name: str, progress: Progress, *, deep: bool, largest_file: int = resource.RLIM_INFINITY
) -> Image:
    """Return the image in an archive that a program prints; ImageError calls it `name`.

    The program writes no file that is larger than `largest_file`.
    """
    # A full pipe would stop the engine.
    with TemporaryFile() as errors, _print(words, errors, largest_file) as printing:
        try:
            return read_archive(io.BufferedReader(Watched(printing)), name, progress, deep=deep)
        except ImageError as error:
            printing.terminate()
            raise _refusal(_words_in(errors), words[0], name, largest_file) or error from error
        except BaseException:
            printing.terminate()
            raise


def _print(words: Sequence[str], errors: IO[bytes], largest_file: int) -> subprocess.Popen[bytes]:
    try:
        printing = subprocess.Popen(list(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    except OSError as error:
        raise ImageError(f"{words[0]} cannot be run: {reason(error)}") from error
    # It may have ended; else it has yet to connect to a registry before it can write.
    with suppress(ProcessLookupError):
        resource.prlimit(printing.pid, resource.RLIMIT_FSIZE, (largest_file, largest_file))
    return printing


def _words_in(errors: IO[bytes]) -> str:
    errors.seek(0)
    return last_words(errors.read(MOST_WORDS).decode("utf-8", "replace"))


def _refusal(words: str, program: str, name: str, largest_file: int) -> ImageError | None:
    """Return the error for a program that printed these words, None where it printed nothing."""
    if words.endswith(TOO_LARGE):
        size = f"{largest_file / GIBIBYTE:.1f} GiB, half of the free space in /var/tmp"
        return ImageError(
            f"a layer of {name} takes more than {size}",
            hint="free some space there, or pull the image and name docker:NAME or podman:NAME",
        )
    return ImageError(f"{program} cannot save it: {words}") if words else None
