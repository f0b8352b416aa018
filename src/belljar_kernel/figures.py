"""Figures of matplotlib: each open one is shown once, in order, and closed. Looks for matplotlib; never imports it."""

from __future__ import annotations

import io
import os
import sys

from belljar_kernel.formats import base64_of, text_of
from belljar_kernel.genuine import is_kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from belljar_kernel.display import Display

    Bundles = tuple[dict[str, Any], dict[str, Any]]


class Figures:
    """What is known about the figures of one kernel."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._shown: list[Any] = []
        self._backend: str | None = None

    def patch_matplotlib(self, module: Any) -> None:
        """Choose a backend that needs no screen, unless the environment has chosen one."""
        if "MPLBACKEND" not in os.environ:
            module.use("agg")

    def patch_pyplot(self, module: Any) -> None:
        """Make `plt.show()` and `fig.show()` show here, where a backend without a screen would only warn."""

        def show(*_: object, **__: object) -> None:
            """Show all open figures and close them."""
            for figure in self.open_figures():
                self._display.publish(*self._take(figure))

        def show_one(figure: Any, *_: object, **__: object) -> None:
            """Show this figure and close it."""
            self._display.publish(*self._take(figure))

        module.show = show
        module.Figure.show = show_one

    def begin(self, backend: str | None) -> None:
        """Start a run; `backend` is MPLBACKEND when the sandbox or the run sets it."""
        self._shown = []
        self._backend = self._use(backend) if backend else None

    def end(self) -> None:
        """Forget the figures of the run, and put the backend back."""
        self._shown = []
        backend, self._backend = self._backend, None
        if backend:
            self._use(backend)

    def bundle_of(self, value: object, main: bool) -> Bundles | None:
        """The bundle of a figure that is shown by name; None when the value is not a figure."""
        if "matplotlib.figure" not in sys.modules or not is_kind_of(value, "matplotlib.figure", "Figure"):
            return None
        if main and any(value is figure for figure in self._shown):
            return {"text/plain": text_of(value)}, _metadata(value)
        return self._take(value)

    def open_figures(self) -> list[Any]:
        """The open figures, by number."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return []
        managers = pyplot._pylab_helpers.Gcf.figs
        return [managers[number].canvas.figure for number in sorted(managers)]

    def capture(self, complain: Callable[[BaseException], None]) -> None:
        """Show and close what the code left open. A figure that cannot be drawn is a complaint, not an error."""
        for figure in self.open_figures():
            try:
                self._display.publish(*self._take(figure))
            except Exception as error:
                complain(error)

    def _take(self, figure: Any) -> Bundles:
        try:
            metadata = _metadata(figure)
            picture = io.BytesIO()
            figure.savefig(picture, format="png", bbox_inches="tight")
            data = {"text/plain": text_of(figure), "image/png": base64_of(picture.getvalue())}
        finally:
            self._shown.append(figure)
            pyplot = sys.modules.get("matplotlib.pyplot")
            if pyplot is not None:
                pyplot.close(figure)
        return data, metadata

    def _use(self, backend: str) -> str | None:
        matplotlib = sys.modules.get("matplotlib")
        if matplotlib is None:
            return None
        try:
            before = str(matplotlib.get_backend())
            matplotlib.use(backend)
        except Exception:
            return None  # a backend for a screen that is not there
        return before


def _metadata(figure: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"title": ""}
    try:
        titles = [figure._suptitle.get_text()] if figure._suptitle is not None else []
        titles += [axes.get_title() for axes in figure.axes]
        metadata["title"] = next((str(title)[:1000] for title in titles if title), "")
        manager = figure.canvas.manager
        if manager is not None:
            metadata["number"] = int(manager.num)
    except Exception:
        pass
    return metadata
