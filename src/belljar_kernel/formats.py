"""A value in every format it can be shown in: a Jupyter MIME bundle. Asks the value's class, guards the answers."""

from __future__ import annotations

import sys

from belljar_kernel import codec
from belljar_kernel.genuine import class_attribute, is_exactly, is_kind_of
from belljar_kernel.protocol import TABLE_MIME
from belljar_kernel.slots import is_exact
from belljar_kernel.tables import Table, table_of
from belljar_kernel.tracebacks import cap
from belljar_kernel.value import DOCUMENT_BYTES, NotPlainError, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Bundle = dict[str, Any]

TEXT_CHARS = 64 * 1024
HTML_CHARS = 2 * 1024 * 1024
_BINARY = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
_TEXT_ONLY = (int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset)
_METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)


def bundle_of(value: object) -> tuple[Bundle, Bundle]:
    """The formats of a value, plain text first, and their metadata.

    Raises:
        Exception: whatever the value's own `__repr__` raises.
    """
    rich, metadata = _rich(value)
    text = rich.pop("text/plain", None)
    data = {"text/plain": text if text is not None else text_of(value), **rich}
    return data, metadata


def text_of(value: object) -> str:
    """repr(), capped. Of long builtin sequences only as much is made as can be shown."""
    if is_exact(value, list, tuple, str, bytes, bytearray) and len(value) > TEXT_CHARS:  # type: ignore[arg-type]
        text = repr(value[:TEXT_CHARS])  # type: ignore[index]
        return text[:TEXT_CHARS] + f"\n… {len(value)} items in all"  # type: ignore[arg-type]
    return cap(str.__str__(repr(value)), TEXT_CHARS)


def checked(data: object) -> Bundle:
    """Only what may be sent: formats by name, text as strings, binary as base64, JSON as plain data."""
    sent: Bundle = {}
    if type(data) is not dict:
        return sent
    for mime, content in data.items():
        if type(mime) is str and "/" in mime:
            try:
                content = _checked_content(mime, content)
            except (NotPlainError, ValueError):
                continue
            if content is not None:
                sent[mime] = content
    return sent


def _checked_content(mime: str, content: Any) -> Any:
    if mime == "application/json" or mime.endswith("+json"):
        if type(content) is str and mime != "application/json":
            content = codec.decode(content.encode("utf-8", "surrogatepass"))
        return plain(content, DOCUMENT_BYTES)
    if issubclass(type(content), bytes):
        if mime in _BINARY:
            return base64_of(content)
        content = content.decode("utf-8", "replace")
    if not issubclass(type(content), str):
        return None
    text = str.__str__(content)
    if mime == "text/plain":
        return cap(text, TEXT_CHARS)
    return text if mime != "text/html" or len(text) <= HTML_CHARS else None


def base64_of(content: bytes) -> str:
    """Binary content as the protocol carries it."""
    import binascii

    return binascii.b2a_base64(content, newline=False).decode("ascii")


def _rich(value: object) -> tuple[Bundle, Bundle]:
    if value is None or issubclass(type(value), type) or is_exact(value, *_TEXT_ONLY):
        return {}, {}
    data: Bundle = {}
    metadata: Bundle = {}
    _merge(_call(value, "_repr_mimebundle_", include=None, exclude=None), data, metadata)
    table = table_of(value)
    shown = table.rendered() if table is not None else {}
    for mime, content in checked(shown).items():
        data.setdefault(mime, content)
    for method, mime in _METHODS:
        if mime not in data and mime not in shown and not (mime == "image/jpeg" and "image/png" in data):
            answer = _call(value, method)
            if type(answer) is tuple and len(answer) == 2:
                answer, extra = answer
                if type(extra) is dict:
                    metadata.update(_plain_or_empty({mime: extra}))
            if answer is not None:
                data.update(checked({mime: answer}))
    for mime, content in _special(value, table).items():
        data.setdefault(mime, content)
    return data, metadata


def _merge(answer: object, data: Bundle, metadata: Bundle) -> None:
    if type(answer) is tuple and len(answer) == 2:
        answer, extra = answer
        metadata.update(_plain_or_empty(extra))
    data.update(checked(answer))


def _plain_or_empty(extra: object) -> Bundle:
    try:
        clean = plain(extra, 1_000_000)
    except NotPlainError:
        return {}
    return clean if type(clean) is dict else {}


def _call(value: object, method: str, **arguments: object) -> Any:
    if class_attribute(value, method) is None:
        return None
    try:
        bound = getattr(value, method)
        return bound(**arguments) if callable(bound) else None
    except Exception:
        return None


def _special(value: Any, table: Table | None) -> Bundle:
    try:
        if is_exactly(value, "pandas", "Series"):
            table = table_of(value.to_frame("value" if value.name is None else value.name))
        if table is not None:
            return {TABLE_MIME: table.data()}
        if is_kind_of(value, "plotly.basedatatypes", "BaseFigure"):
            return checked({"application/vnd.plotly.v1+json": value.to_json()})
        if "altair" in sys.modules and class_attribute(value, "to_dict") and _is_altair(value):
            return _vega(value.to_dict())
    except Exception:
        pass
    return {}


def records_in(data: Bundle) -> list[dict[str, Any]] | None:
    """The records of the table in a bundle, when there is one."""
    table = data.get(TABLE_MIME)
    return table["records"] if type(table) is dict and type(table.get("records")) is list else None


def _is_altair(value: object) -> bool:
    return is_kind_of(value, "altair.vegalite.v5.api", "TopLevelMixin") or is_kind_of(
        value, "altair.vegalite.v6.api", "TopLevelMixin"
    )


def _vega(chart: Any) -> Bundle:
    schema = str(chart.get("$schema", ""))
    version = schema.rsplit("/v", 1)[-1].split(".", 1)[0]
    return checked({f"application/vnd.vegalite.v{version if version.isdigit() else 5}+json": chart})
