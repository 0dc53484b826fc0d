"""Tables of docs/reference that tests write, with one column of answers for each engine or system."""

from __future__ import annotations

from pathlib import Path

BEGIN = "<!-- The table is written by nox -s {session}; change the tests, not the table. -->"
END = "<!-- End of the table. -->"
NOT_ASKED = "-"


class EngineAnswers:
    """Collects answers for a table."""

    def __init__(self, session: str = "engines") -> None:
        self._begin = BEGIN.format(session=session)
        self._versions: dict[str, str] = {}
        self._answers: dict[tuple[str, str], str] = {}

    def note(self, engine: str, version: str, question: str, answer: str) -> None:
        """Record the answer of an engine."""
        self._versions[engine] = version
        self._answers[question, engine] = answer

    def keep(self, page: str, engine: str) -> None:
        """Take an engine's column from the table of a page, if it has one."""
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in self._table_of(page).splitlines()]
        for column, title in enumerate(rows[0] if rows else []):
            name, _, version = title.partition("<br>")
            if name == engine:
                for row in rows[2:]:
                    self.note(engine, version, row[0], row[column])

    def keep_others(self, page: str) -> None:
        """Take the columns of untested engines, and the order of rows and columns, from the table of a page."""
        asked, answers = self._versions, self._answers
        self._versions, self._answers = {}, {}
        head, *_ = self._table_of(page).splitlines() or [""]
        for cell in head.split("|")[2:-1]:
            self.keep(page, cell.partition("<br>")[0].strip())
        kept = {key: answer for key, answer in self._answers.items() if key[1] not in asked}
        self._versions, self._answers = self._versions | asked, kept | answers

    def format(self) -> str:
        """Return the table, with a row for each question that has an answer: a test that passes now has none."""
        head = [f"{engine}<br>{version}" for engine, version in self._versions.items()]
        answered = {question for (question, _), answer in self._answers.items() if answer != NOT_ASKED}
        questions = [question for question in dict.fromkeys(each for each, _ in self._answers) if question in answered]
        rows = [["", *head], ["---"] * (len(head) + 1), *(self._row(question) for question in questions)]
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)

    def write_into(self, page: str) -> None:
        """Replace the table between the marks of a page."""
        text = Path(page).read_text(encoding="utf-8")
        before, _, rest = text.partition(self._begin)
        _, _, after = rest.partition(END)
        Path(page).write_text(f"{before}{self._begin}\n\n{self.format()}\n\n{END}{after}", encoding="utf-8")

    def _table_of(self, page: str) -> str:
        """Return the table between the marks of a page."""
        _, _, rest = Path(page).read_text(encoding="utf-8").partition(self._begin)
        return rest.partition(END)[0].strip()

    def _row(self, question: str) -> list[str]:
        return [question, *(self._answers.get((question, engine), NOT_ASKED) for engine in self._versions)]
