"""The lint session finds modules that need each other."""

from __future__ import annotations

from textwrap import dedent

from import_circles import find_circles, main, parse_imports, read_imports

KNOWN = ("house", "house.door", "house.roof", "house.wall")


def imports_of(source):
    return set(parse_imports(dedent(source), KNOWN))


def write(tmp_path, **sources):
    package = tmp_path / "src/house"
    package.mkdir(parents=True)
    for name, source in {"__init__": "", **sources}.items():
        (package / f"{name}.py").write_text(source)
    return str(tmp_path / "src")


def test_every_way_to_import_a_module_counts():
    assert imports_of("import house.door") == {"house.door"}
    assert imports_of("import house.door, house.roof as top") == {"house.door", "house.roof"}
    assert imports_of("from house import door, roof") == {"house.door", "house.roof"}
    assert imports_of("from house.wall import WIDTH, paint") == {"house.wall"}
    assert imports_of("from house import VERSION") == {"house"}


def test_other_peoples_modules_do_not_count():
    assert imports_of("import os.path\nfrom typer import Option\nfrom houses import door") == set()


def test_an_import_inside_a_function_counts():
    source = """
    class Wall:
        def paint(self):
            if self.dry:
                try:
                    from house import roof
                except ImportError:
                    pass
    """

    assert imports_of(source) == {"house.roof"}


def test_an_import_for_types_alone_counts():
    source = """
    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from house import door
    else:
        from house import wall
    """

    assert imports_of(source) == {"house.door", "house.wall"}


def test_modules_that_need_nobody_back_are_in_no_circle():
    assert find_circles({"roof": ["wall", "door"], "wall": ["floor"], "door": ["floor"], "floor": []}) == []


def test_a_module_that_needs_itself_is_a_circle():
    assert find_circles({"roof": ["roof"]}) == [("roof", "roof")]


def test_the_shortest_circle_of_modules_that_need_each_other_is_shown():
    needs = {"attic": ["roof"], "roof": ["wall"], "wall": ["floor", "door"], "door": ["wall"], "floor": ["attic"]}

    assert find_circles(needs) == [("door", "wall", "door")]


def test_each_circle_is_found_and_modules_in_front_of_one_are_not_blamed():
    needs = {"a": ["b"], "b": ["a"], "front": ["a", "d"], "c": ["d"], "d": ["e"], "e": ["c"]}

    assert find_circles(needs) == [("a", "b", "a"), ("c", "d", "e", "c")]


def test_packages_are_modules_too(tmp_path):
    source = write(tmp_path, __init__="from house.door import Door", door="from house import VERSION")

    assert read_imports([tmp_path / "src"]) == {"house": {"house.door"}, "house.door": {"house"}}
    assert main([source]) == 1


def test_a_circle_fails_and_is_named(tmp_path, capsys):
    source = write(tmp_path, door="def f():\n    import house.wall", wall="import house.door")

    assert main([source]) == 1
    assert capsys.readouterr().out == "import circle: house.door -> house.wall -> house.door\n"


def test_sources_without_a_circle_pass(tmp_path, capsys):
    source = write(tmp_path, door="import house.wall", wall="import os")

    assert main([source]) == 0
    assert capsys.readouterr().out == ""


def test_folders_that_need_each_other_are_a_circle_even_where_no_module_is(tmp_path, capsys):
    for module, source in {
        "kitchen/__init__": "",
        "kitchen/oven": "import house.cellar.coal",
        "kitchen/table": "",
        "cellar/__init__": "",
        "cellar/coal": "",
        "cellar/stairs": "from house.kitchen.table import LEG",
        "roof": "import house.kitchen.oven, house.cellar.stairs",
        "__init__": "from house.roof import RED",
    }.items():
        path = tmp_path / f"src/house/{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)

    assert main([str(tmp_path / "src")]) == 1
    assert capsys.readouterr().out == "import circle: house.cellar -> house.kitchen -> house.cellar\n"
