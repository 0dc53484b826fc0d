"""Find words that are not plain technical English. Example: python checks/words.py README.md docs packages/*/src

Of Python files comments, strings and names are read, of all others every line.
"""

from __future__ import annotations

import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

# Words that this project once used in a sense of its own, and what AMD's, Docker's and Podman's manuals say instead.
BETTER = {
    "anew": "again",
    "mend": "fix, repair",
    "ours": "the name of the thing",
    "recipe": "options",
    "shall": "must, will",
    "survey": "scan",
    "whoever": "the user who",
}
WORD = re.compile(rf"\b({'|'.join(BETTER)})(?:s|ed|ing)?\b", re.IGNORECASE)
SUFFIXES = (".py", ".md", ".toml", ".yml", ".service", ".1", ".8")
TEXTS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def main(paths: list[str]) -> int:
    """Print every such word in these files and directories; 1 if there is one."""
    found = [f"{file}:{line}: {sentence}" for file in find_files(map(Path, paths)) for line, sentence in check(file)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files to read, by name."""
    for path in paths:
        yield from sorted(inner for inner in path.rglob("*") if inner.suffix in SUFFIXES) if path.is_dir() else [path]


def check(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the line of each such word, and what to write instead."""
    for line, text in read_python_texts(file) if file.suffix == ".py" else read_lines(file):
        for match in WORD.finditer(text):
            yield line, f"'{match[0]}' is not a word of manuals: write {BETTER[match[1].lower()]}"


def read_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers."""
    yield from enumerate(file.read_text(encoding="utf-8").splitlines(), 1)


def read_python_texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yield each line of the comments, strings and names of a module with its number; names as words."""
    with tokenize.open(file) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.NAME:
                yield token.start[0], token.string.replace("_", " ")
            elif token.type in TEXTS:
                # What stands in braces in an f-string is code.
                yield from enumerate(re.sub(r"{[^{}]*}", "{}", token.string).splitlines(), token.start[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
