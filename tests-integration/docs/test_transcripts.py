from __future__ import annotations

import pytest

from support.transcripts import BrokenPage, Section, Step, fence_languages, is_match, parse_page

PAGE = """\
Some words.

<!-- commands run on: mi210-4 -->
```console
$ amd-ctk version
Version: ...
$ amd-ctk gpu list \\
    --json
```

1. In a list:

   <!-- exits: 4 -->
   ```console
   $ true
   $ cat > answer <<'END'
   > 42
   > END
   $ false
   no
     indented
   ```

<!-- commands run on: one-gpu with docker in a clone -->
```text
$ not a command
```
```console
$ docker ps
```
"""


def test_a_page_is_read_into_sections_and_steps() -> None:
    assert parse_page(PAGE) == [
        Section(
            line=3,
            profile="mi210-4",
            steps=[
                Step("amd-ctk version", line=5, expected="Version: ..."),
                Step("amd-ctk gpu list \\\n    --json", line=7),
                Step("true", line=15),
                Step("cat > answer <<'END'\n42\nEND", line=16),
                Step("false", line=19, expected="no\n  indented", exit_code=4),
            ],
        ),
        Section(line=24, profile="one-gpu", needs_docker=True, in_clone=True, steps=[Step("docker ps", line=29)]),
    ]


def test_commands_before_any_comment_have_no_host() -> None:
    assert parse_page("```console\n$ true\n```\n") == [Section(line=1, steps=[Step("true", line=2)])]


def test_a_python_session_is_run_as_a_doctest() -> None:
    command = "python3 -m doctest -o ELLIPSIS /dev/stdin <<'END'\n>>> 1 + 1\n2\nEND"

    assert parse_page("```pycon\n>>> 1 + 1\n2\n```\n") == [Section(line=1, steps=[Step(command, line=2)])]


def test_a_page_without_commands_has_no_sections() -> None:
    assert parse_page("# Words\n\n```json\n{}\n```\n") == []


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("```console\n$ true\n", "line 1: a fence that does not end"),
        ("```console\nhello\n```\n", "line 2: output without a command: hello"),
        ("<!-- commands run on mi210-4 -->\n", "line 1: not understood: <!-- commands run on mi210-4 -->"),
        ("<!-- exits: four -->\n", "line 1: not understood: <!-- exits: four -->"),
    ],
)
def test_a_page_nobody_can_run_is_refused(page: str, problem: str) -> None:
    with pytest.raises(BrokenPage) as refusal:
        parse_page(page)

    assert str(refusal.value) == problem


def test_lines_after_an_empty_continuation_still_belong_to_the_command() -> None:
    page = "```console\n$ cat <<'END'\n> one\n>\n> two\n> END\none\n\ntwo\n```\n"

    assert parse_page(page)[0].steps == [Step("cat <<'END'\none\n\ntwo\nEND", line=2, expected="one\n\ntwo")]


def test_the_language_of_every_fence_is_known() -> None:
    assert fence_languages("```\nx\n```\n\n  ```bash\n  ```\n") == [(1, ""), (5, "bash")]


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("", ""),
        ("one\ntwo", "one\ntwo\n"),
        ("GPU Id", "GPU Id     \n"),
        ("built in ...", "built in /tmp/x\n"),
        ("0 ... 4", "0 1 2 3 4\n"),
        ("one\n...\nfour", "one\ntwo\nthree\nfour\n"),
        ("one\n...\ntwo", "one\ntwo\n"),
        ("...", ""),
    ],
)
def test_output_shown_on_a_page_matches(expected: str, printed: str) -> None:
    assert is_match(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("", "something\n"),
        ("one", "one\ntwo\n"),
        ("one\ntwo", "one\n"),
        ("a.c", "abc\n"),
        ("  indented", "indented\n"),
        ("0 ... 4", "0 1\n2 4\n"),
    ],
)
def test_anything_else_does_not_match(expected: str, printed: str) -> None:
    assert not is_match(expected, printed)
