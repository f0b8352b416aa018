"""Cases: every open matplotlib figure and every shown image arrives once, in order, and is closed after the run."""

from __future__ import annotations

from typing import Any

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import error, file, ok, result
from belljar.execution import Result

PLOT = "import matplotlib.pyplot as plt\n"
PILLOW = "from PIL import Image\n"


def picture(width: int, height: int, colours: bool = True) -> Any:
    """What the normaliser leaves of an image."""
    return {"format": "png", "width": width, "height": height, "more_than_one_colour": colours}


def figure(width: int = 640, height: int = 480, axes: int = 1, main: bool = False, **more: Any) -> Result:
    """A figure of this size; its text is matplotlib's own."""
    text = f"<Figure size {width}x{height} with {axes} Axes>"
    return result(text, main=main, png=picture(width, height, axes > 0), **more)


FIGURES: list[Case] = [
    case(
        "a figure that is shown arrives as a PNG",
        run(
            PLOT + "plt.plot([1, 4, 9])\nplt.show()",
            ok(results=[figure()]),
        ),
    ),
    case(
        "a figure that is left open arrives too",
        run(
            PLOT + "lines = plt.plot([1, 4, 9])",
            ok(results=[figure()]),
        ),
    ),
    case(
        "a figure that is shown and is then left open arrives once",
        run(
            PLOT + "fig, ax = plt.subplots()\nax.plot([1, 2])\nplt.show()\nplt.show()\nfig.show()",
            ok(results=[figure()]),
        ),
    ),
    case(
        "two figures arrive in order",
        run(
            PLOT
            + "a = plt.figure(figsize=(2, 1)); ax = a.add_subplot()\nb = plt.figure(figsize=(3, 1)); ax = b.add_subplot()",
            ok(results=[figure(200, 100), figure(300, 100)]),
        ),
    ),
    case(
        "figures that are shown one by one arrive between displayed objects",
        run(
            PLOT + "plt.figure(figsize=(2, 1)).add_subplot(); plt.show()\ndisplay('between')\n"
            "plt.figure(figsize=(3, 1)).add_subplot(); plt.show()",
            ok(results=[figure(200, 100), result("'between'"), figure(300, 100)]),
        ),
    ),
    case(
        "a figure as the last expression is the main result and arrives once",
        run(
            PLOT + "fig, ax = plt.subplots(figsize=(2, 1))\nfig",
            ok(results=[figure(200, 100, main=True)]),
        ),
    ),
    case(
        "a figure that is displayed arrives once",
        run(
            PLOT + "fig, ax = plt.subplots(figsize=(2, 1))\ndisplay(fig)",
            ok(results=[figure(200, 100)]),
        ),
    ),
    case(
        "a figure that the code closed does not arrive",
        run(
            PLOT + "plt.plot([1])\nplt.close()",
            ok(),
        ),
    ),
    case(
        "a figure that was saved is a file and a result",
        run(
            PLOT
            + "fig, ax = plt.subplots(figsize=(2, 1))\nplt.savefig('plot.svg', metadata={'Date': None})\nimport os\n"
            "open('plot.svg', 'w').write('<svg/>')",
            ok(
                results=[result("6", main=True), figure(200, 100)],
                value=6,
                files=[file("plot.svg", 6, "image/svg+xml")],
            ),
        ),
    ),
    case(
        "figures are closed after the run",
        run(
            PLOT + "fig, ax = plt.subplots(figsize=(2, 1))",
            ok(results=[figure(200, 100)]),
        ),
        run("plt.get_fignums()", ok(text="[]", value=[])),
    ),
    case(
        "a figure that is drawn before an error arrives",
        run(
            PLOT + "fig, ax = plt.subplots(figsize=(2, 1))\n1 / 0",
            error("ZeroDivisionError", "division by zero", line=3, results=[figure(200, 100)]),
        ),
    ),
    case(
        "a figure of a run does not arrive again in the next",
        run(
            PLOT + "fig, ax = plt.subplots(figsize=(2, 1))",
            ok(results=[figure(200, 100)]),
        ),
        run("1", ok(text="1", value=1)),
    ),
    case(
        "the lines that plot returns are the main result and the figure comes too",
        run(
            PLOT + "fig, ax = plt.subplots(figsize=(2, 1))\nlen(ax.plot([1, 2]))",
            ok(results=[result("1", main=True), figure(200, 100)], value=1),
        ),
    ),
    case(
        "a figure with several axes is one picture",
        run(
            PLOT + "fig, ax = plt.subplots(2, 2, figsize=(2, 2))",
            ok(results=[figure(200, 200, axes=4)]),
        ),
    ),
    case(
        "choosing another backend without a screen keeps figures coming",
        run(
            "import matplotlib\nmatplotlib.use('Agg')\n" + PLOT + "fig, ax = plt.subplots(figsize=(2, 1))\nplt.show()",
            ok(results=[figure(200, 100)]),
        ),
    ),
]
IMAGES: list[Case] = [
    case(
        "a PIL image as the last expression is a PNG",
        run(
            PILLOW + "Image.new('RGB', (8, 4), 'red')",
            ok(results=[result("<PIL.Image.Image image mode=RGB size=8x4>", main=True, png=picture(8, 4, False))]),
        ),
    ),
    case(
        "a PIL image that is shown is a PNG",
        run(
            PILLOW + "im = Image.new('RGB', (8, 4), 'red')\nim.putpixel((1, 1), (0, 0, 255))\nim.show()",
            ok(results=[result("<PIL.Image.Image image mode=RGB size=8x4>", png=picture(8, 4))]),
        ),
    ),
    case(
        "PIL images in other modes are PNGs too",
        run(
            PILLOW + "for mode in ('L', 'RGBA', '1', 'P', 'CMYK'):\n    display(Image.new(mode, (3, 2)))",
            ok(
                results=[
                    result(f"<PIL.Image.Image image mode={mode} size=3x2>", png=picture(3, 2, False))
                    for mode in ("L", "RGBA", "1", "P", "CMYK")
                ]
            ),
        ),
    ),
]
CASES: list[Case] = [
    *(Case(each.name, each.steps, each.tags, ("matplotlib",), each.limits) for each in FIGURES),
    *(Case(each.name, each.steps, each.tags, ("PIL",), each.limits) for each in IMAGES),
]
