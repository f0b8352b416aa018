"""Checklist rows B: the agent's sandbox of seed 001, as far as the library goes."""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path

from tests.shop import wheel

from belljar import AsyncSandbox
from belljar.engines.conformance import CASES


def test_b02_variables_and_imports_persist_across_calls(fresh):
    fresh.run("import statistics as st\ndata = [1, 2, 3]")
    assert fresh.run("st.mean(data)").value == 2


def test_b04_awaiting_a_run_of_two_plus_two_prints_four():
    async def main() -> str:
        async with AsyncSandbox() as sandbox:
            return (await sandbox.run("print(2 + 2)")).stdout

    assert asyncio.run(main()) == "4\n"


def test_b05_mean_and_median_are_on_two_lines(shared, program):
    assert shared.run(program("statistics_report.py")).stdout == "Mean: 3\nMedian: 3\n"


def test_b06_the_parabola_is_one_png_of_more_than_one_colour(shared, program, decoded):
    ex = shared.run(program("parabola.py"))
    assert (ex.status, ex.stderr, len(ex.results)) == ("ok", "", 1)
    assert decoded(ex.results[0])["more_than_one_colour"] is True


def test_b07_several_figures_are_captured_once_in_order_with_their_titles(shared, decoded):
    ex = shared.run(
        "import matplotlib.pyplot as plt\n"
        "plt.figure(figsize=(2, 1)); plt.plot([1, 2]); plt.title('shown'); plt.show()\n"
        "plt.figure(figsize=(3, 1)); plt.plot([2, 1]); plt.title('saved'); plt.savefig('saved.png')\n"
        "plt.figure(figsize=(4, 1)); plt.plot([3, 3]); plt.title('left open')\n"
        "None"
    )
    widths = [decoded(result)["width"] for result in ex.results]
    assert len(widths) == 3
    assert widths == sorted(widths)
    assert [file.path for file in ex.files] == ["saved.png"]
    titles = [str(result.extra) for result in ex.results]
    assert all(title in text for title, text in zip(("shown", "saved", "left open"), titles, strict=True))


def test_b08_pil_images_are_captured_as_png(shared, decoded):
    shown = shared.run("from PIL import Image\nImage.new('RGB', (6, 4), 'red').show()")
    last = shared.run("Image.new('RGB', (5, 3), 'blue')")
    assert [decoded(result)["width"] for result in shown.results] == [6]
    assert [decoded(result)["height"] for result in last.results] == [3]


def test_b09_a_dataframe_gives_rows_columns_dtypes_shape_and_a_table(shared):
    ex = shared.run("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': [0.5, None]})")
    result = ex.results[0]
    assert result.data == {
        "shape": [2, 2],
        "columns": ["a", "b"],
        "dtypes": ["int64", "float64"],
        "records": [{"a": 1, "b": 0.5}, {"a": 2, "b": None}],
    }
    assert "<table" in result.html
    assert "NaN" in result.text


def test_b11_an_exception_is_no_success_has_its_traceback_on_stderr_and_leaves_the_process_alive(shared):
    before = shared.run("import os\nos.getpid()").value
    ex = shared.run("{}['missing']")
    assert ex.status == "error"
    assert ex.stderr.startswith("Traceback (most recent call last):\n")
    assert "KeyError: 'missing'" in ex.stderr
    assert shared.run("os.getpid()").value == before


def test_b12_system_commands_and_host_paths_are_confined(shared, tmp_path: Path):
    (tmp_path / "host.txt").write_text("canary-91c2")
    ex = shared.run(
        "import os, subprocess\nos.system(f'cat {_args}')\n"
        "print(subprocess.run(['ls', os.path.dirname(_args)], capture_output=True, text=True).stdout)\n"
        "print(os.path.exists(_args))",
        args=str(tmp_path / "host.txt"),
    )
    assert "canary-91c2" not in ex.stdout + ex.stderr
    assert ex.stdout.split() == ["False"]


def test_b14_csv_json_and_excel_go_in_and_out(fresh):
    rows = [{"name": "a", "n": 1}, {"name": "ü", "n": 2}]
    fresh.files.write_all({"in.csv": "name,n\na,1\nü,2\n", "in.json": json.dumps(rows)})
    ex = fresh.run(
        "import json, pandas as pd\ntable = pd.read_csv('in.csv')\nassert json.load(open('in.json')) == table.to_dict('records')\n"
        "table.to_excel('out.xlsx', index=False)\nback = pd.read_excel('out.xlsx')\nback.to_csv('out.csv', index=False)\n"
        "back.to_json('out.json', orient='records')"
    )
    assert ex.error is None
    assert [file.path for file in ex.files] == ["out.csv", "out.json", "out.xlsx"]
    assert fresh.files.read("out.csv") == fresh.files.read("in.csv")
    assert json.loads(fresh.files.read("out.json")) == rows
    assert fresh.files.read("out.xlsx").startswith(b"PK")


def test_b15_cells_keep_state_count_up_have_their_own_output_and_can_be_run_again(fresh):
    cell = "n = globals().get('n', 0) + 1\nprint('run', n)\nn"
    runs = [fresh.run(cell) for _ in range(3)]
    assert [ex.execution_count for ex in runs] == [1, 2, 3]
    assert [ex.stdout for ex in runs] == ["run 1\n", "run 2\n", "run 3\n"]
    assert [ex.value for ex in runs] == [1, 2, 3]


def test_b16_completion_knows_modules_and_the_users_own_objects(fresh):
    fresh.run("import math\nclass Car:\n    def drive(self): ...\n    wheels = 4\ncar = Car()")

    def completed(code: str) -> list[str]:
        return [code[: c.start] + c.text + code[c.end :] for c in fresh.complete(code, len(code))]

    assert completed("math.sq") == ["math.sqrt"]
    assert {"car.drive", "car.wheels"} <= set(completed("car."))
    assert completed("import json\njson.dum") == ["import json\njson.dump", "import json\njson.dumps"]


def test_b18_a_package_of_ones_own_comes_from_an_index_or_as_an_uploaded_wheel(shop, fresh):
    shop.sell(wheel("satsuma", "1.2", {"satsuma.py": "v = 12"}))
    assert fresh.install("satsuma") == ["satsuma==1.2"]
    name, content = wheel("ugli", "3.4", {"ugli.py": "v = 34"})
    fresh.files.write(name, content)
    assert fresh.run(f"import sys, satsuma\nsys.path.insert(0, {name!r})\nimport ugli\nsatsuma.v + ugli.v").value == 46


def test_b21_quotes_docstrings_unicode_and_backslashes_survive(shared):
    texts = [
        '"""',
        "'''",
        "\\n",
        "\n",
        "\\",
        "\t\\t",
        "ünï 🐍 ☃",
        "r'\\d+'",
        "{x} %s $HOME",
        "\x00\x7f",
        "a\r\nb",
        "",
        " ",
    ]
    for text in texts:
        ex = shared.run(f"s = {text!r}\nprint(s, end='')\ns")
        assert (ex.stdout, ex.value) == (text, text)
        assert shared.run("_args", args=text).value == text
    ex = shared.run("def f():\n    '''Say \"hi\".\n\n    C:\\\\new\n    '''\nprint(f.__doc__.split()[1])")
    assert ex.stdout == '"hi".\n'


def test_b22_conformance_has_hundreds_of_cases_and_no_test_of_the_checklist_is_skipped():
    assert len(CASES) >= 200
    here = Path(__file__).parent
    for file in sorted(here.glob("test_*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert not names & {"skip", "skipif", "xfail", "importorskip"}, file.name


def test_b23_reset_forgets_earlier_names(fresh):
    fresh.run("x = 1")
    fresh.reset()
    ex = fresh.run("x")
    assert (ex.error.name, ex.error.value) == ("NameError", "name 'x' is not defined")
