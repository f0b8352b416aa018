from __future__ import annotations

import base64

import pytest

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("science")]


@pytest.fixture
def process(start, science):
    """A kernel in a process of its own that has the science stack."""
    return start("-m", "belljar_kernel", path=science)


def figures(answered):
    found = []
    for event in answered.results:
        if "image/png" in event["data"]:
            assert base64.b64decode(event["data"]["image/png"]).startswith(b"\x89PNG")
            found.append((event["metadata"].get("title"), event["main"]))
    return found


@pytest.fixture(autouse=True)
def plotting(guest):
    guest.run("import matplotlib.pyplot as plt\nplt.close('all')")


def test_a_figure_left_open_is_shown_once_and_closed(guest):
    answered = guest.run("plt.plot([1, 2]); plt.title('squares');")
    assert figures(answered) == [("squares", False)]
    assert answered.results[0]["data"]["text/plain"].startswith("<Figure size")
    assert figures(guest.run("len(plt.get_fignums())")) == []


def test_show_shows_all_open_figures_in_order_without_a_warning(guest):
    code = "for n in (3, 1, 2):\n    plt.figure(n); plt.title(f'number {n}')\nplt.show()\nprint('after', plt.get_fignums())"
    answered = guest.run(code)
    assert figures(answered) == [("number 1", False), ("number 2", False), ("number 3", False)]
    assert [event["metadata"]["number"] for event in answered.results] == [1, 2, 3]
    assert (answered.stdout, answered.stderr) == ("after []\n", "")
    assert [event["type"] for event in answered.events] == ["result", "result", "result", "stdout", "done"]


def test_savefig_neither_prevents_nor_doubles(guest):
    answered = guest.run("plt.plot([1]); plt.suptitle('saved'); plt.savefig('a.png'); plt.savefig('b.png')")
    assert figures(answered) == [("saved", False)]
    assert [file["path"] for file in answered.done["files"]] == ["a.png", "b.png"]


def test_a_figure_as_the_last_expression_is_the_main_result_once(guest):
    answered = guest.run("fig, ax = plt.subplots()\nax.set_title('main')\nfig")
    assert figures(answered) == [("main", True)]
    assert guest.run("plt.get_fignums()").text == "[]"
    assert figures(guest.run("fig")) == [("main", True)]


def test_a_figure_that_was_shown_is_not_shown_again_by_its_name(guest):
    answered = guest.run("fig = plt.figure()\nplt.show()\nfig")
    assert len(figures(answered)) == 1
    assert answered.text.startswith("<Figure size")


def test_display_of_a_figure_shows_it_once(guest):
    assert figures(guest.run("fig = plt.figure()\nplt.title('d')\ndisplay(fig)")) == [("d", False)]


def test_figures_are_shown_after_an_error_and_before_done(guest):
    answered = guest.run("plt.figure(); plt.title('partial')\n1/0")
    assert figures(answered) == [("partial", False)]
    assert answered.error["name"] == "ZeroDivisionError"


def test_show_of_one_figure_shows_that_one(guest):
    answered = guest.run("a = plt.figure(); plt.title('a')\nb = plt.figure(); plt.title('b')\nb.show()")
    assert figures(answered) == [("b", False), ("a", False)]
    assert answered.stderr == ""


def test_a_figure_that_cannot_be_drawn_is_a_complaint(guest):
    answered = guest.run("plt.figure(); plt.title('$\\\\nonsense{$')\nplt.figure(); plt.title('fine')")
    assert figures(answered) == [("fine", False)]
    assert answered.done["status"] == "ok"
    assert "ValueError" in answered.stderr
    assert guest.run("plt.get_fignums()").text == "[]"


def test_show_of_a_figure_that_cannot_be_drawn_is_an_error(guest):
    assert guest.run("plt.title('$\\\\nonsense{$')\nplt.show()").error["name"] == "ValueError"


def test_a_figure_without_pyplot_is_shown_by_value(guest):
    assert figures(
        guest.run("from matplotlib.figure import Figure\nf = Figure()\nf.subplots().set_title('bare')\nf")
    ) == [("bare", True)]


def test_the_backend_of_a_run_is_honoured_and_taken_back(guest):
    answered = guest.run("import matplotlib\nplt.figure(); matplotlib.get_backend().lower()", env={"MPLBACKEND": "svg"})
    assert answered.text == "'svg'"
    assert len(figures(answered)) == 1
    assert guest.run("matplotlib.get_backend().lower()").text == "'agg'"


def test_a_fresh_import_in_a_process_of_its_own_is_captured_as_well(process):
    code = "from matplotlib.pyplot import *\nimport matplotlib\nplot([1, 2]); title('fresh')\nshow()\nmatplotlib.get_backend().lower()"
    answered = process.run(code)
    assert figures(answered) == [("fresh", False)]
    assert (answered.text, answered.stderr) == ("'agg'", "")


def test_seaborn_and_pandas_plots_are_captured(guest):
    assert len(figures(guest.run("import pandas as pd\npd.Series([1, 2]).plot();"))) == 1
