"""Cases: every open matplotlib figure and every shown image arrives once, in order, and is closed after the run."""

from __future__ import annotations

from typing import Any

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import error, file, ok, result
from belljar.execution import Result

PLOT = "import matplotlib.pyplot as plt\n"
SHAPE = (
    PLOT + "def shape(wide):\n    fig = plt.figure(figsize=(wide, 1))\n"
    "    fig.add_axes([0, 0, 1, 1], xticks=[], yticks=[])\n    return fig\n"
)
PILLOW = "from PIL import Image\n"


def picture(width: int, height: int, colours: bool = True) -> Any:
    """What the normaliser leaves of an image."""
    return {"format": "png", "width": width, "height": height, "more_than_one_colour": colours}


def figure(wide: int, number: int = 1, main: bool = False, title: str = "") -> Result:
    """A figure made by `shape(wide)`: it is an inch high, and a frame of a tenth is around it."""
    text = f"<Figure size {100 * wide}x100 with 1 Axes>"
    extra = {"metadata": {"title": title, "number": number}}
    return result(text, main=main, png=picture(100 * wide + 20, 120), extra=extra)


FIGURES: list[Case] = [
    case("a figure that is shown arrives as a PNG", run(SHAPE + "fig = shape(2)\nplt.show()", ok(results=[figure(2)]))),
    case("a figure that is left open arrives too", run(SHAPE + "fig = shape(2)", ok(results=[figure(2)]))),
    case(
        "a figure arrives with its title",
        run(SHAPE + "fig = shape(2)\nt = plt.title('y = x²', y=0.2)", ok(results=[figure(2, title="y = x²")])),
    ),
    case(
        "a figure that was shown does not arrive again",
        run(SHAPE + "fig = shape(2)\nplt.show()\nplt.show()", ok(results=[figure(2)])),
    ),
    case(
        "two figures arrive in order",
        run(SHAPE + "a, b = shape(2), shape(3)", ok(results=[figure(2), figure(3, number=2)])),
    ),
    case(
        "figures that are shown one by one arrive between displayed objects",
        run(
            SHAPE + "a = shape(2); plt.show()\ndisplay('between')\nb = shape(3); plt.show()",
            ok(results=[figure(2), result("'between'"), figure(3)]),
        ),
    ),
    case(
        "a figure as the last expression is the main result and arrives once",
        run(SHAPE + "shape(2)", ok(results=[figure(2, main=True)])),
    ),
    case("a figure that is displayed arrives once", run(SHAPE + "display(shape(2))", ok(results=[figure(2)]))),
    case("a figure that the code closed does not arrive", run(PLOT + "lines = plt.plot([1])\nplt.close()", ok())),
    case(
        "a figure that was saved is a file and a result",
        run(
            SHAPE + "fig = shape(2)\nplt.savefig('plot.svg')\nopen('plot.svg', 'w').write('<svg/>')",
            ok(results=[result("6", main=True), figure(2)], value=6, files=[file("plot.svg", 6, "image/svg+xml")]),
        ),
    ),
    case(
        "figures are closed after the run",
        run(SHAPE + "fig = shape(2)", ok(results=[figure(2)])),
        run("plt.get_fignums()", ok(text="[]", value=[])),
    ),
    case(
        "a figure that is drawn before an error arrives",
        run(
            SHAPE + "fig = shape(2)\n1 / 0",
            error("ZeroDivisionError", "division by zero", line=7, results=[figure(2)]),
        ),
    ),
    case(
        "a figure of a run does not arrive again in the next",
        run(SHAPE + "fig = shape(2)", ok(results=[figure(2)])),
        run("1", ok(text="1", value=1)),
    ),
    case(
        "the last expression is the main result and an open figure comes after it",
        run(SHAPE + "fig = shape(2)\nlen(fig.axes)", ok(results=[result("1", main=True), figure(2)], value=1)),
    ),
    case(
        "choosing a backend without a screen keeps figures coming",
        run(
            "import matplotlib\nmatplotlib.use('Agg')\n" + SHAPE + "fig = shape(2)\nplt.show()",
            ok(results=[figure(2)]),
        ),
    ),
    case(
        "a figure made without pyplot is shown when it is the last expression",
        run(
            "from matplotlib.figure import Figure\nf = Figure(figsize=(2, 1))\n"
            "ax = f.add_axes([0, 0, 1, 1], xticks=[], yticks=[])\nf",
            ok(
                results=[
                    result(
                        "<Figure size 200x100 with 1 Axes>",
                        main=True,
                        png=picture(220, 120),
                        extra={"metadata": {"title": ""}},
                    )
                ]
            ),
        ),
    ),
    case(
        "a seaborn or pandas plot is a figure like any other",
        run(
            PLOT + "import pandas as pd\nax = pd.Series([1, 2]).plot(figsize=(2, 1), xticks=[], yticks=[])\n"
            "ax.set_position([0, 0, 1, 1])",
            ok(results=[figure(2)]),
        ),
    ),
]
IMAGES: list[Case] = [
    case(
        "a PIL image as the last expression is a PNG",
        run(
            PILLOW + "Image.new('RGB', (8, 4), 'red')",
            ok(
                results=[
                    result("<PIL.Image.Image image mode=RGB size=8x4 at 0x0000>", main=True, png=picture(8, 4, False))
                ]
            ),
        ),
    ),
    case(
        "a PIL image that is shown is a PNG",
        run(
            PILLOW + "im = Image.new('RGB', (8, 4), 'red')\nim.putpixel((1, 1), (0, 0, 255))\nim.show()",
            ok(results=[result("<PIL.Image.Image image mode=RGB size=8x4 at 0x0000>", png=picture(8, 4))]),
        ),
    ),
    case(
        "PIL images in other modes are PNGs too",
        run(
            PILLOW + "for mode in ('L', 'RGBA', '1', 'P'):\n    display(Image.new(mode, (3, 2)))",
            ok(
                results=[
                    result(f"<PIL.Image.Image image mode={mode} size=3x2 at 0x0000>", png=picture(3, 2, False))
                    for mode in ("L", "RGBA", "1", "P")
                ]
            ),
        ),
    ),
]
CASES: list[Case] = [
    *(Case(each.name, each.steps, each.tags, ("matplotlib",), each.limits) for each in FIGURES),
    *(Case(each.name, each.steps, each.tags, ("PIL",), each.limits) for each in IMAGES),
]
