"""The figures by which the structure of a distribution is judged."""

from __future__ import annotations

from import_floors import count_floors, main


def test_a_module_stands_above_the_highest_that_it_needs():
    assert count_floors({"roof": {"wall", "door"}, "wall": {"door"}, "door": set()}) == 3
    assert count_floors({}) == 0


def test_the_figures_of_a_distribution_are_printed(tmp_path, capsys):
    for module, source in {
        "__init__": "from house.roof import RED",
        "kitchen/__init__": "",
        "kitchen/oven": "import house.cellar.coal, house.kitchen.table",
        "kitchen/table": "",
        "cellar/__init__": "",
        "cellar/coal": "",
        "roof": "import house.kitchen.oven, house.kitchen.table",
    }.items():
        path = tmp_path / f"my-house/src/house/{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)

    assert main([str(tmp_path / "my-house/src")]) == 0
    assert capsys.readouterr().out == ("my-house: 4 modules, 3 floors, 4 arrows, 3 of them between 3 wings (2 pairs)\n")
