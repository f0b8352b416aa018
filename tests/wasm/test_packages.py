"""The science set under WebAssembly: every package is really used, most of them loaded after the snapshot."""

from __future__ import annotations

import pytest
from tests.wasm.conftest import Probe

from belljar import Sandbox, compose
from belljar.engines.conformance import picture

USES = {
    "numpy": ("import numpy as np\nnp.linalg.solve(np.array([[2.0, 1], [1, 3]]), [3.0, 5]).round(6).tolist()", [0.8, 1.4]),
    "pandas": (
        "import pandas as pd\npd.DataFrame({'k': list('aab'), 'v': [1, 2, 3]}).groupby('k')['v'].sum().to_dict()",
        {"a": 3, "b": 3},
    ),
    "pandas dates": (
        "import pandas as pd\npd.date_range('2026-01-31', periods=3, freq='ME').strftime('%d %b').tolist()",
        ["31 Jan", "28 Feb", "31 Mar"],
    ),
    "scipy": (
        "from scipy import optimize, stats\n"
        "root = optimize.brentq(lambda x: x**2 - 2, 0, 2)\n"
        "[round(root, 6), round(float(stats.norm.cdf(1.96)), 4)]",
        [1.414214, 0.975],
    ),
    "scipy.sparse": (
        "from scipy.sparse import csr_array\nfrom scipy.sparse.linalg import spsolve\n"
        "spsolve(csr_array([[4.0, 0], [0, 2.0]]).tocsc(), [8.0, 6.0]).tolist()",
        [2.0, 3.0],
    ),
    "sklearn": (
        "import numpy as np\nfrom sklearn.linear_model import LinearRegression\n"
        "x = np.arange(10.0).reshape(-1, 1)\nfit = LinearRegression().fit(x, 3 * x[:, 0] + 1)\n"
        "[round(float(fit.coef_[0]), 6), round(float(fit.intercept_), 6)]",
        [3.0, 1.0],
    ),
    "sklearn forest": (
        "from sklearn.datasets import load_iris\nfrom sklearn.ensemble import RandomForestClassifier\n"
        "x, y = load_iris(return_X_y=True)\n"
        "RandomForestClassifier(10, random_state=0).fit(x, y).score(x, y) > 0.95",
        True,
    ),
    "sympy": (
        "import sympy\nx = sympy.symbols('x')\nstr(sympy.integrate(x * sympy.cos(x), x))",
        "x*sin(x) + cos(x)",
    ),
    "PIL": (
        "import io\nfrom PIL import Image\nfile = io.BytesIO()\n"
        "Image.new('RGB', (8, 4), 'red').resize((4, 2)).save(file, 'JPEG')\n"
        "read = Image.open(file)\n[read.format, *read.size]",
        ["JPEG", 4, 2],
    ),
    "lxml": (
        "from lxml import etree\ntree = etree.fromstring('<a><b n=\"1\">x</b><b>y</b></a>')\n"
        "[str(tree.xpath('//b[@n]/text()')[0]), len(tree)]",
        ["x", 2],
    ),
    "bs4": (
        "from bs4 import BeautifulSoup\n"
        "[BeautifulSoup('<p>Hi <b>you</b>', parser).b.text for parser in ('lxml', 'html.parser')]",
        ["you", "you"],
    ),
    "openpyxl": (
        "import pandas as pd\npd.DataFrame({'x': [1, 2], 'y': ['a', 'ü']}).to_excel('o.xlsx', engine='openpyxl', index=False)\n"
        "pd.read_excel('o.xlsx').to_dict('list')",
        {"x": [1, 2], "y": ["a", "ü"]},
    ),
    "xlsxwriter": (
        "import xlsxwriter, openpyxl\nbook = xlsxwriter.Workbook('w.xlsx')\nsheet = book.add_worksheet('S')\n"
        "sheet.write(0, 0, 12.5)\nbook.close()\nopenpyxl.load_workbook('w.xlsx')['S']['A1'].value",
        12.5,
    ),
    "docx": (
        "import docx\npaper = docx.Document()\npaper.add_heading('Title')\npaper.save('d.docx')\n"
        "docx.Document('d.docx').paragraphs[0].text",
        "Title",
    ),
    "pptx": (
        "import pptx\nshow = pptx.Presentation()\nshow.slides.add_slide(show.slide_layouts[6])\nshow.save('p.pptx')\n"
        "len(pptx.Presentation('p.pptx').slides)",
        1,
    ),
    "pydantic": (
        "import pydantic\nclass Point(pydantic.BaseModel):\n    x: int\nPoint(x='3').model_dump()",
        {"x": 3},
    ),
    "jsonschema": (
        "import jsonschema\n[error.message for error in jsonschema.Draft7Validator({'type': 'object'}).iter_errors(1)]",
        ["1 is not of type 'object'"],
    ),
    "tabulate": ("from tabulate import tabulate\ntabulate([[1, 2]], ['a', 'b'], tablefmt='plain')", "  a    b\n  1    2"),
    "regex": ("import regex\nregex.findall(r'\\p{Lu}', 'Æble Øre æ')", ["Æ", "Ø"]),
    "requests": ("import requests\nrequests.Request('GET', 'http://h/', params={'q': 'ü'}).prepare().url", "http://h/?q=%C3%BC"),
    "httpx": ("import httpx\nstr(httpx.URL('http://h/a').join('b'))", "http://h/b"),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_package_works(value: Probe, name: str):
    code, expected = USES[name]
    assert value(code) == expected


def test_plots_come_as_png_and_on_request_as_svg(wasm: Sandbox):
    ran = wasm.run(
        "import io, matplotlib.pyplot as plt\nplt.figure(figsize=(3, 2))\nplt.plot([1, 4, 9])\n"
        "plt.savefig('plot.svg')\nplt.savefig('plot.pdf')\nplt.show()"
    )
    assert (ran.status, ran.stderr, len(ran.results)) == ("ok", "", 1)
    assert picture.describe("png", ran.results[0].png)["more_than_one_colour"] is True
    assert b"<svg" in wasm.files.read("plot.svg")
    assert wasm.files.read("plot.pdf").startswith(b"%PDF")


def test_seaborn_draws_a_table(wasm: Sandbox):
    ran = wasm.run(
        "import pandas as pd, seaborn as sns\n"
        "sns.barplot(pd.DataFrame({'x': ['a', 'b'], 'y': [1, 2]}), x='x', y='y').set_title('bars')"
    )
    assert ran.status == "ok", ran.error
    assert picture.describe("png", ran.results[-1].png)["more_than_one_colour"] is True


def test_compiled_modules_in_and_out_of_the_snapshot_share_their_types(value: Probe):
    code = "import numpy as np, scipy.linalg as la\n[type(la.lu(np.eye(2))[0]) is np.ndarray, la.det(2 * np.eye(3)).round(6)]"
    assert value(code) == [True, 8.0]


RAISED = {
    "numpy, from the snapshot": ("import numpy as np\nnp.ones(3) + np.ones(4)", "ValueError"),
    "pandas, from the snapshot": ("import pandas as pd\npd.to_datetime('no date')", "DateParseError"),
    "scipy, loaded later": ("import scipy.linalg as la\nla.cho_factor([[1.0, 2], [2, 1]])", "LinAlgError"),
    "lxml, loaded later": ("from lxml import etree\netree.fromstring('<a>')", "XMLSyntaxError"),
    "pydantic, loaded later": ("import pydantic\npydantic.TypeAdapter(int).validate_python('x')", "ValidationError"),
    "the standard library": ("import json\njson.loads('{')", "JSONDecodeError"),
    "zlib": ("import zlib\nzlib.decompress(b'nonsense')", "error"),
}


@pytest.mark.parametrize("source", RAISED)
def test_exceptions_of_compiled_code_arrive_and_harm_nothing(wasm: Sandbox, source: str):
    code, name = RAISED[source]
    ran = wasm.run(code)
    assert (ran.status, ran.error.name, ran.state) == ("error", name, "kept")
    assert wasm.run("1 + 1").value == 2


def test_time_zones_are_there(value: Probe):
    code = "import pandas as pd\npd.Timestamp('2026-03-29 01:30', tz='UTC').tz_convert('Europe/Oslo').isoformat()"
    assert value(code) == "2026-03-29T03:30:00+02:00"
    code = (
        "import zoneinfo, datetime\ndatetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('Asia/Tokyo')).isoformat()"
    )
    assert value(code) == "2026-07-01T00:00:00+09:00"


def test_every_package_that_is_listed_is_there_in_that_version(wasm: Sandbox):
    listed = dict(package.split("==") for package in compose.base_environment("wasm").packages)
    ran = wasm.run(
        "from importlib import metadata\n{name: metadata.version(name) for name in _args}", args=sorted(listed)
    )
    assert ran.value == listed


def test_errors_of_floating_point_are_values_and_not_warnings(value: Probe):
    # WebAssembly has no floating-point flags, which numpy looks at. docs/limitations/wasm.md says so.
    assert value("import numpy as np\nnp.isnan(np.linalg.inv(np.zeros((2, 2)))).all().item()") is True
    assert value("np.isinf(np.float64(1) / 0).item()") is True
