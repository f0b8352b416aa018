"""A small table of texts, laid out as pandas does."""

from __future__ import annotations

from belljar_kernel import grid

LABELS, COLUMNS = ["first", "b"], [["1", "22"], [" <x>", "y&z"]]


def test_labels_are_to_the_left_and_cells_to_the_right():
    text = grid.as_text(LABELS, [" n", "wider"], COLUMNS)
    assert text.split("\n") == ["       n wider", "first  1   <x>", "b     22   y&z"]
    assert grid.width(LABELS, [" n", "wider"], COLUMNS) == len("       n wider")


def test_html_is_escaped_and_stripped():
    html = grid.as_html("<head>\n", LABELS, ["n", "a<b"], COLUMNS)
    assert html.startswith(
        "<head>\n      <th>n</th>\n      <th>a&lt;b</th>\n    </tr>\n  </thead>\n  <tbody>\n    <tr>\n"
    )
    rows = [part.split("</tr>")[0] for part in html.split("<tr>\n")[1:]]
    assert [row.split() for row in rows] == [
        ["<th>first</th>", "<td>1</td>", "<td>&lt;x&gt;</td>"],
        ["<th>b</th>", "<td>22</td>", "<td>y&amp;z</td>"],
    ]
    assert html.endswith("    </tr>\n  </tbody>\n</table>\n</div>")
