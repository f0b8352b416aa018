"""A small table whose cells are text already, laid out as pandas lays it out: as plain text and as html."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def as_text(labels: Sequence[str], headers: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    """Labels of the rows to the left, columns to the right. All lie on one line; see `width`."""
    first = max(map(len, labels))
    parts = [[" " * first, *(label.ljust(first) for label in labels)]]
    for header, cells in zip(headers, columns, strict=True):
        wide = _widest(header, cells)
        parts.append([header.rjust(wide), *(cell.rjust(wide) for cell in cells)])
    return "\n".join([" ".join(line) for line in zip(*parts, strict=True)])


def width(labels: Sequence[str], headers: Sequence[str], columns: Sequence[Sequence[str]]) -> int:
    """How wide its text is."""
    return max(map(len, labels)) + sum(_widest(*column) + 1 for column in zip(headers, columns, strict=True))


def as_html(head: str, labels: Sequence[str], headers: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    """The table behind a head, which ends where the names of its columns begin."""
    rows = [_row(label, cells) for label, *cells in zip(labels, *columns, strict=True)]
    names = "".join([f"      <th>{_escaped(name)}</th>\n" for name in headers])
    body = "".join(rows)
    return f"{head}{names}    </tr>\n  </thead>\n  <tbody>\n{body}  </tbody>\n</table>\n</div>"


def _row(label: str, cells: Iterable[str]) -> str:
    inner = "".join([f"      <td>{_escaped(cell)}</td>\n" for cell in cells])
    return f"    <tr>\n      <th>{_escaped(label)}</th>\n{inner}    </tr>\n"


def _escaped(cell: str) -> str:
    return cell.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").strip()


def _widest(header: str, cells: Sequence[str]) -> int:
    return max(len(header), max(map(len, cells)))
