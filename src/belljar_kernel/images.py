"""`Image.show()` of Pillow and `fig.show()` of plotly, which would open a viewer that a sandbox does not have."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def patch_pillow(module: Any, show: Callable[[Any], None]) -> None:
    """Make `Image.show()` show here."""

    def show_image(image: Any, *_: object, **__: object) -> None:
        """Show this image."""
        show(image)

    module.Image.show = show_image


def patch_plotly(module: Any, show: Callable[[Any], None]) -> None:
    """Make `fig.show()` and `plotly.io.show(fig)` show here."""

    def show_figure(fig: Any, *_: object, **__: object) -> None:
        """Show this figure."""
        show(fig)

    module.show = show_figure
