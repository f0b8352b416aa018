from __future__ import annotations

import os


def test_each_run_starts_in_the_workspace(guest):
    guest.run("import os\nos.mkdir('sub')\nos.chdir('sub')")
    assert guest.run("os.getcwd()").done["value"] == str(guest.workspace)


def test_a_folder_for_one_run_is_made(guest):
    assert guest.run("import os\nos.getcwd()", cwd="a/b").done["value"] == str(guest.workspace / "a/b")
    assert guest.run("os.getcwd()").done["value"] == str(guest.workspace)


def test_a_folder_that_cannot_be_is_an_error_of_the_run(guest):
    (guest.workspace / "file").write_text("")
    assert guest.run("1", cwd="file").error["name"] == "NotADirectoryError"
    assert guest.run("1").text == "1"


def test_modules_of_the_workspace_are_imported(guest):
    (guest.workspace / "shapes").mkdir()
    (guest.workspace / "shapes/__init__.py").write_text("from shapes.square import area\n")
    (guest.workspace / "shapes/square.py").write_text("def area(x): return x * x\n")
    assert guest.run("import shapes\nshapes.area(3)").text == "9"


def test_a_module_written_by_an_earlier_cell_is_found(guest):
    guest.run(
        "try:\n    import lately\nexcept ImportError:\n    pass\nwith open('lately.py', 'w') as f: f.write('x = 3')"
    )
    assert guest.run("import lately\nlately.x").text == "3"


def test_environment_for_one_run_is_taken_back(guest):
    assert guest.run("import os\nos.environ['COLOUR']", env={"COLOUR": "red"}).done["value"] == "red"
    assert guest.run("os.environ.get('COLOUR'), os.getenv('COLOUR')").text == "(None, None)"


def test_what_code_did_to_those_variables_is_taken_back_and_the_rest_kept(guest):
    guest.run("import os\nos.environ['KEPT'] = '1'\nos.environ['SHARED'] = 'mine'")
    guest.run("del os.environ['SHARED']\nos.environ['ALSO'] = '2'", env={"SHARED": "run"})
    assert guest.run("[os.environ.get(n) for n in ('KEPT', 'SHARED', 'ALSO')]").done["value"] == ["1", "mine", "2"]


def test_a_replaced_environ_is_put_back(guest):
    guest.run("import os\nos.environ = {}")
    assert guest.run("os.environ['X']", env={"X": "1"}).done["value"] == "1"


def test_pythonpath_of_a_run_is_effective_and_for_that_run_only(guest):
    (guest.workspace / "lib").mkdir()
    (guest.workspace / "lib/deep_thought.py").write_text("answer = 42")
    assert guest.run("import sys\nn = len(sys.path)").done["status"] == "ok"
    assert guest.run("import deep_thought\ndeep_thought.answer", env={"PYTHONPATH": "lib"}).text == "42"
    assert guest.run("len(sys.path) - n").text == "0"


def test_configure_replaces_the_environment_and_sets_the_path(guest):
    packages = guest.workspace.parent / "packages"
    packages.mkdir()
    (packages / "installed_thing.py").write_text("x = 1")
    (guest.workspace / "mods").mkdir()
    (guest.workspace / "mods/own_thing.py").write_text("y = 2")
    os.environ["BELLJAR_LEFT_OVER"] = "1"
    env = {"HOME": "/workspace", "PYTHONPATH": "mods"}
    assert guest.request(type="configure", env=env, path=[str(packages)], data_bytes=None).events == [
        {"type": "done", "id": 1}
    ]
    answered = guest.run("import os, installed_thing, own_thing\n(installed_thing.x, own_thing.y, dict(os.environ))")
    assert answered.done["value"] == [1, 2, env]


def test_configured_packages_never_shadow_the_standard_library(guest):
    packages = guest.workspace.parent / "packages"
    packages.mkdir()
    (packages / "sndhdr_or_so.py").write_text("")
    (packages / "colorsys.py").write_text("raise ImportError('a backport')")
    guest.request(type="configure", env={}, path=[str(packages)])
    assert (
        guest.run("import sys\nsys.modules.pop('colorsys', None)\nimport colorsys, sndhdr_or_so").done["status"] == "ok"
    )


def test_configuring_again_replaces_the_path(guest):
    guest.request(type="configure", env={}, path=["/first"])
    guest.request(type="configure", env={}, path=["/second"])
    assert guest.run("import sys\n['/first' in sys.path, '/second' in sys.path]").done["value"] == [False, True]


def test_hooks_and_streams_that_code_replaced_are_put_back(guest):
    guest.run(
        "import sys\nsys.stdout = sys.stderr = sys.stdin = None\nsys.excepthook = sys.displayhook = print\nsys.argv = []"
    )
    answered = guest.run("import sys\nprint('here', sys.argv)\nsys.excepthook is sys.__excepthook__")
    assert (answered.stdout, answered.text) == ("here ['main.py']\n", "True")


def test_the_data_limit_makes_a_memory_error(process):
    process.request(type="configure", env={}, path=[], data_bytes=64 << 20, results_bytes=1 << 20, warm=False)
    answered = process.run("x = bytearray(200 << 20)")
    assert answered.error["code"] == "MEMORY_ERROR"
    assert process.run("len(bytearray(10 << 20))").done["status"] == "ok"
