"""Generate the reference pages from the code: `python docs/generate.py`, or `--check` to compare them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from enum import EnumMeta
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory
from typing import Any

import typer

from amd_ctk.cli.root import app
from amd_ctk.doctor.run import CHECKS, check_names
from amd_device_spec.settings import SETTINGS, Settings
from amdgpu_discovery.errors import DriverUnavailable, ToolkitError
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host, load_profile, profile_names
from field_texts import about_fields

DOCS = Path(__file__).parent
# The meaning of each exit code; an error with a new code needs a line here.
CODE_MEANINGS = {
    1: "Any other failure; the message says what failed.",
    2: "An invalid command line, or a name, format or file in it that cannot be used.",
    3: "You may not do this, or the service that could do it does not run.",
    4: "A request for GPUs that this host cannot meet as it is written.",
    5: "A file that cannot be read, written or understood.",
    6: "A spec or profile with an invalid structure.",
    7: "There is no runc or crun to call.",
    8: "Invalid settings; the defaults are not used instead.",
    9: "A container or job of this name exists.",
    10: "A lock was not free in time, or an image requires what its container does not get.",
    11: "The GPU Tracker is disabled, or did not do all of what was asked.",
    12: "The wait for GPUs is over, or the service is gone.",
    13: "A part of the toolkit is not installed; the message says how to install it.",
    14: "The service that gives out GPUs does not answer, or has failed.",
    126: "The command cannot be run.",
    127: "The command does not exist.",
}
# The table of settings stands between these.
SETTINGS_BEGIN = "<!-- table written by docs/generate.py -->\n\n"
SETTINGS_END = "\n<!-- end of the table -->\n"
NOTE = "<!-- written by docs/generate.py; change the code and run it again -->\n"

PACKAGES = (
    *("amdgpu_discovery", "amd_device_spec", "amd_gpu_tracker", "amd_container_runtime", "amd_ctk"),
    *("amd_gpu_images", "amd_gpu_sharing", "amdgpu_simulator"),
)
# The packages that export more than their version.
FRONT_PAGES = ("amdgpu_discovery", "amd_device_spec", "amd_gpu_tracker", "amdgpu_simulator")

# The beginning of a decision's page.
DECISION = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\n"
    r"Date: (?P<date>\d{4}-\d\d-\d\d)\. Status: (?P<status>accepted|superseded by \[\d+\]\([\w-]+\.md\))\."
)

# Typer marks a paragraph of help that keeps its lines with this.
VERBATIM = "\b\n"
# Typer's own options, which the page explains once.
COMPLETION_OPTIONS = ("--install-completion", "--show-completion")


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check print those that differ from the code."""
    pages = {
        "decisions/index.md": decisions_page(),
        "reference/cli.md": cli_page(),
        "reference/config.md": config_page(),
        "reference/doctor.md": doctor_page(),
        "reference/exit-codes.md": exit_codes_page(),
        "reference/profiles.md": profiles_page(),
        **{f"reference/python/{name}.md": python_page(name) for name in FRONT_PAGES},
    }
    if arguments == ["--check"]:
        stale = [name for name, text in pages.items() if (DOCS / name).read_text(encoding="utf-8") != text]
        for name in stale:
            print(f"docs/{name} is out of date (run 'python docs/generate.py')", file=sys.stderr)
        return 1 if stale else 0
    for name, text in pages.items():
        (DOCS / name).write_text(text, encoding="utf-8")
    return 0


def decisions_page() -> str:
    """Return the list of decisions and their status."""
    pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    return "\n".join(
        [
            "# Decisions",
            "",
            NOTE,
            "Hard choices, and choices that look odd without their reasons. Each page describes the situation, the",
            "choice and its consequences. Decisions are numbered in the order in which they were made. A superseded",
            "decision stays and names its successor. A missing number was merged into a later decision or never used.",
            "",
            "| | decision | date | status |",
            "|--:|---|---|---|",
            *(_decision_row(page) for page in pages),
            "",
        ]
    )


def cli_page() -> str:
    """Return the page of all commands and options."""
    return "\n".join(
        [
            "# Command line",
            "",
            NOTE,
            "Every command has `-h` and `--help`. A group without a command prints its help. Results go to",
            "standard output, messages to standard error. [Exit codes](exit-codes.md) have a page of their own. As in",
            "AMD's toolkit, `help` as a word and long options with one dash work. `amd-ctk --version` prints the",
            "version in one line. `--install-completion` installs completion for your shell: bash, zsh or fish; TAB",
            "starts a program only for values. Packages include it; after an upgrade with pip, install it again.",
            "Each block shows the syntax first, then examples.",
            "",
            "If you installed only the distribution `amd-gpu-tracker`, use `amd-gpu-tracker` instead of",
            "`amd-ctk gpu-tracker`.",
            "",
            *_command_lines(typer.main.get_command(app), "amd-ctk"),
        ]
    )


def config_page() -> str:
    """Return the page of settings with its table; people write the rest of the page."""
    page = (DOCS / "reference/config.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(SETTINGS_BEGIN)
    _, _, after = rest.partition(SETTINGS_END)
    about = about_fields(Settings)
    rows = [f"| [`{key}`](#{key}) | {_values(key)} | {about[key.replace('-', '_')]} |" for key in SETTINGS]
    table = "\n".join(["| key | values; the first is the default | what it sets |", "|---|---|---|", *rows])
    return f"{before}{SETTINGS_BEGIN}{table}\n{SETTINGS_END}{after}"


def _values(key: str) -> str:
    """Return the values that a setting takes, beginning with its default."""
    setting = SETTINGS[key]
    if setting.choices:
        return ", ".join(f"`{word}`" for word in setting.choices)
    default = f"`{json.dumps(setting.default)}`"
    kind = f"{setting.kind} of {setting.unit}" if setting.unit else setting.kind
    return f"{default}; {kind}, such as `{setting.example}`"


def doctor_page() -> str:
    """Return the list of doctor's checks: the question of each, and why it matters."""
    return "\n".join(
        [
            "# Checks of amd-ctk doctor",
            "",
            NOTE,
            "The checks are in the order of the report, which leaves out checks that do not apply to a host. Those",
            "that begin with `inside-` look into the container that `--container` names.",
            "[How to use it](../how-to/doctor.md) explains the states.",
            "",
            "| id | question | why it matters | more |",
            "|---|---|---|---|",
            *map(_check_row, check_names()),
            "",
        ]
    )


def exit_codes_page() -> str:
    """Return the page of exit codes and the errors that use them."""
    return "\n".join(
        [
            "# Exit codes",
            "",
            NOTE,
            "Every program exits with 0 on success. On failure it prints one message on standard error and exits with",
            "one of these codes. [Messages](messages.md) explains the messages of the runtime.",
            "",
            "| code | meaning | errors in Python |",
            "|--:|---|---|",
            *(_code_row(code, names) for code, names in sorted(_error_names_by_code().items())),
            "",
            "`amd-container-runtime` executes runc when its work is done; the exit code is then runc's.",
            "`docker run` shows the message and exits with its own code: 125 for every refusal by the runtime.",
            "",
            "In Python, each error is an `amdgpu_discovery.errors.ToolkitError` with `message`, `hint` and",
            "`exit_code`.",
            "",
        ]
    )


def profiles_page() -> str:
    """Return the page of the simulated hosts that can be built by name."""
    rows = [_profile_row(name) for name in profile_names()]
    return "\n".join(
        [
            "# Simulated hosts",
            "",
            NOTE,
            "`amd-ctk simulate build PROFILE DIR` builds any of these;",
            "[how to simulate hosts](../how-to/simulate-hosts.md) explains their use. Every partition counts as a GPU.",
            "",
            "| profile | GPUs | description |",
            "|---|--:|---|",
            *rows,
            "",
        ]
    )


def python_page(package: str) -> str:
    """Return the page of a package; the site builder replaces `:::` with its docstrings."""
    module = import_module(package)
    return "\n".join(
        [
            f"# {package}",
            "",
            NOTE,
            "[How to use it from Python](../../how-to/python.md) has examples. The site builder fills in this page",
            f"from the docstrings; in a checkout, `python -m pydoc {package}.{module.__all__[0]}` shows the same.",
            "",
            f"::: {package}",
            "    options:",
            "      heading_level: 2",
            f"      members: [{', '.join(module.__all__)}]",
            "",
        ]
    )


def _errors() -> list[type[ToolkitError]]:
    for package in PACKAGES:
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    return sorted(_subclasses(ToolkitError), key=lambda error: (error.exit_code, error.__name__))


def _error_names_by_code() -> dict[int, list[str]]:
    """Return the errors by exit code. The parser's errors for a wrong command line have no class here."""
    names: dict[int, list[str]] = {2: []}
    for error in _errors():
        names.setdefault(error.exit_code, []).append(f"`{error.__name__}`")
    return names


def _code_row(code: int, names: list[str]) -> str:
    return f"| {code} | {CODE_MEANINGS[code]} | {', '.join(names)} |"


def _subclasses(error: type[ToolkitError]) -> set[type[ToolkitError]]:
    return {error}.union(*(_subclasses(below) for below in error.__subclasses__()))


def _profile_row(name: str) -> str:
    with TemporaryDirectory() as directory:
        host = build_host(directory, name)
        try:
            gpus = str(len(locate_gpus(host)))
        except DriverUnavailable:
            gpus = "-"
    return f"| `{name}` | {gpus} | {load_profile(name).about} |"


def _check_row(name: str) -> str:
    check = CHECKS[name]
    page = check.see.partition("#")[0]
    return f"| `{name}` | {check.question} | {check.why} | [{Path(page).stem}](../{check.see}) |"


def _decision_row(page: Path) -> str:
    found = DECISION.match(page.read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit(f"docs/decisions/{page.name} does not begin as the others do: a title, date and status")
    return f"| {found['number']} | [{found['title']}]({page.name}) | {found['date']} | {found['status']} |"


def _command_lines(command: Any, words: str, depth: int = 2) -> Iterator[str]:
    """Yield the section of a command and its subcommands, in the order of the help."""
    prose, _, as_it_stands = (command.help or "").partition(VERBATIM)
    usage = as_it_stands.replace(VERBATIM, "").strip() or _usage(command, words)
    examples = (command.epilog or "").removeprefix(f"{VERBATIM}Examples:\n").splitlines()
    # The bare command is no example.
    shown = "\n".join([usage, *(example for example in examples if example not in (words, usage))])
    yield from (f"{'#' * depth} {words}", "", _sentences(prose), "")
    # The heading already shows it.
    if shown not in (words, f"{words} COMMAND ..."):
        yield from ("```text", shown, "```", "")
    rows = [_parameter_line(parameter) for parameter in command.params if _is_shown(parameter)]
    if rows:
        yield from (*rows, "")
    for name, child in getattr(command, "commands", {}).items():
        # The page mentions once that `help` works everywhere.
        if not child.hidden and name != "help":
            yield from _command_lines(child, f"{words} {name}", depth=min(depth + 1, 4))


def _sentences(text: str) -> str:
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _usage(command: Any, words: str) -> str:
    shown = [parameter for parameter in command.params if _is_shown(parameter)]
    arguments = [_placeholder(parameter) for parameter in shown if not _is_option(parameter)]
    options = ["[OPTIONS]"] if len(arguments) < len(shown) else []
    group = ["COMMAND ..."] if getattr(command, "commands", {}) else []
    return " ".join([words, *options, *arguments, *group])


def _is_shown(parameter: Any) -> bool:
    return not getattr(parameter, "hidden", False) and parameter.opts[0] not in COMPLETION_OPTIONS


def _is_option(parameter: Any) -> bool:
    return bool(parameter.opts[0].startswith("-"))


def _parameter_line(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in _names(parameter))
    text = " ".join((getattr(parameter, "help", None) or "").split())
    default = getattr(parameter.default, "value", parameter.default)
    shown = f" Default: `{default}`." if isinstance(default, str) and default else ""
    return f"- {names}: {text}{shown}"


def _names(parameter: Any) -> list[str]:
    if not _is_option(parameter):
        return [_placeholder(parameter)]
    value = "" if parameter.is_flag else f" {_placeholder(parameter)}"
    return [f"{name}{value}" for name in (*parameter.opts, *parameter.secondary_opts)]


def _placeholder(parameter: Any) -> str:
    choices = _choices(parameter)
    if choices and not parameter.metavar:
        return "/".join(choices)
    name = (parameter.metavar or parameter.name).upper().removesuffix("...")
    name += "..." if parameter.nargs == -1 else ""
    return name if parameter.required or _is_option(parameter) or name.startswith("[") else f"[{name}]"


def _choices(parameter: Any) -> list[str]:
    """Return the choices of an option, from older and newer Typer; [] if it accepts any value."""
    if hasattr(parameter, "type_descriptor"):
        kind = parameter.type_descriptor.annotation
        members: dict[str, Any] = dict(kind.__members__) if isinstance(kind, EnumMeta) else {}
        return [member.value for member in members.values()]
    return [str(getattr(choice, "value", choice)) for choice in getattr(parameter.type, "choices", ())]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
