"""What the quick python has as `encodings.aliases`: the real table is made when a name other than UTF-8's is looked up.

Nothing may be imported here that python does not have when it has hardly started.
"""

import sys


class Aliases:
    """Answers `encodings.search_function`, which asks for nothing else."""

    def get(self, name, default=None):  # type: ignore[no-untyped-def]  # typing is not to be had here
        """Return the module of an encoding that goes by this name."""
        encodings = sys.modules["encodings"]
        # With one directory nobody has called `packaged.complete_encodings` yet, and python is about to start.
        if name == "utf_8" or len(encodings.__path__) < 2:
            return default
        del sys.modules["encodings.aliases"]
        from encodings.aliases import aliases as real

        encodings._aliases = real  # type: ignore[attr-defined]
        return real.get(name, default)


aliases = Aliases()
