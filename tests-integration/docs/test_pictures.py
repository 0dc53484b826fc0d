"""The pictures are made from the text beside them and from what programs print."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from support.documentation import CHECKOUT

PICTURES = sorted((CHECKOUT / "docs/pictures").glob("*.svg"))


def test_the_pictures_are_those_of_their_text_and_programs():
    words = [sys.executable, CHECKOUT / "docs/pictures.py", "--check"]

    answer = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_loads_nothing_from_elsewhere(picture):
    root = ElementTree.parse(picture).getroot()

    named = [value for element in root.iter() for name, value in element.attrib.items() if name.endswith("href")]
    assert (named, "@import" in picture.read_text(), "@font-face" in picture.read_text()) == ([], False, False)
