"""Files of variables with valid and invalid lines: their texts by path."""

from __future__ import annotations

DIRECTORY = "/box/odd"
BOM = b"\xef\xbb\xbf"
_TEXTS = (
    b"AMD_VISIBLE_DEVICES=3\n",
    b"AMD_VISIBLE_DEVICES=3",
    BOM + b"AMD_VISIBLE_DEVICES=3\n",
    BOM + b"# comment\nAMD_VISIBLE_DEVICES=3\n",
    BOM + b"AMD_VISIBLE_DEVICES\n",
    b"AMD_LABEL=x\n" + BOM + b"AMD_VISIBLE_DEVICES=3\n",
    b"AMD_VISIBLE_DEVICES=3\r\nAMD_LABEL=x\r\n",
    b"AMD_VISIBLE_DEVICES\r\n",
    b"\n\n  \n\t\n",
    b"",
    b"=3\n",
    b" =3\n",
    b"=\n",
    b"AMD_VISIBLE_DEVICES =3\n",
    b"AMD_VISIBLE_DEVICES= 3\n",
    b"AMD_VISIBLE_DEVICES=3 \n",
    b"  AMD_VISIBLE_DEVICES=3\n",
    b"\tAMD_VISIBLE_DEVICES=3\n",
    b"AMD VISIBLE=3\n",
    b"export AMD_VISIBLE_DEVICES=3\n",
    b"AMD_VISIBLE_DEVICES='3'\n",
    b'AMD_VISIBLE_DEVICES="3"\n',
    b"AMD_VISIBLE_DEVICES=3 # comment\n",
    b"#AMD_VISIBLE_DEVICES=3\n  # AMD_LABEL=x\n",
    b"AMD_*\n",
    b"*\n",
    b"AMD_*=1\n",
    b"AMD_*_DEVICES\n",
    b" AMD_*\n",
    b"AMD_CALLER\n",
    b"AMD_CALLER \n",
    b"NOSUCH\n",
    b"AMD_VISIBLE_DEVICES\n",
    b"AMD_VISIBLE_DEVICES=\n",
    b"AMD_VISIBLE_DEVICES=$AMD_CALLER\n",
    b"AMD_VISIBLE_DEVICES=${1GPU}\n",
    b"${1GPU}\n",
    b"AMD_VISIBLE_DEVICES: 3\n",
    b"AMD_VISIBLE_DEVICES=0\nAMD_VISIBLE_DEVICES=1\n",
    b"AMD_LABEL=\xff\xfe\nAMD_VISIBLE_DEVICES=3\n",
    b"AMD_LABEL=\x00\nAMD_VISIBLE_DEVICES=3\n",
    b"\xff\xfeA\x00M\x00D\x00",
    b"AMD_VISIBLE_DEVICES=3\x0b\n",
    b"AMD_VISIBLE_DEVICES=3\rAMD_LABEL=x\n",
    b"LONG=" + b"x" * 70000 + b"\nAMD_VISIBLE_DEVICES=3\n",
    b"AMD_LABEL=a\\\nAMD_VISIBLE_DEVICES=3\n",
    b"\xc2\xa0AMD_VISIBLE_DEVICES=3\n",
    b"AMD_VISIBLE_DEVICES=3\n=4\n",
)
TEXT_BY_PATH = {f"{DIRECTORY}/{number}.env": text for number, text in enumerate(_TEXTS)}
# The last three are no files: a missing one, a directory, and no path.
ENV_FILES = (*TEXT_BY_PATH, f"{DIRECTORY}/none.env", DIRECTORY, "")
