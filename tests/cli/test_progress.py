import sys

from tests.cli.terminal import Terminal

from belljar.surfaces.cli.progress import progress

WORK = """
import time
from belljar.surfaces.cli.progress import progress
with progress() as report:
    report("resolving [bold]", None)
    time.sleep(0.3)
    report("downloading", 0.5)
    time.sleep(0.3)
print("done")
"""


def test_without_a_terminal_each_stage_is_one_plain_line(capsys):
    with progress() as report:
        for stage, fraction in [
            ("resolving", None),
            ("downloading\x1b[2J", 0.1),
            ("downloading\x1b[2J", 0.9),
            ("ready", 1.0),
        ]:
            report(stage, fraction)
    assert capsys.readouterr().err == "belljar: resolving\nbelljar: downloading\\x1b[2J\nbelljar: ready\n"


def test_a_terminal_gets_a_bar_that_goes_away(environment, home):
    terminal = Terminal([sys.executable, "-c", WORK], env=environment, cwd=home)
    terminal.wait_for("resolving [bold]")
    terminal.wait_for("downloading")
    terminal.wait_for("done")
    assert terminal.wait_for_end() == 0
    terminal.close()
