"""Names: what a well-known import name is called on a package index, and what has no build for the wasm engine."""

from __future__ import annotations

import re

from belljar.packages.base import PREINSTALLED

# Import names whose distribution is called otherwise.
DISTRIBUTIONS = {
    "attr": "attrs", "Bio": "biopython", "bs4": "beautifulsoup4", "cairo": "pycairo", "Crypto": "pycryptodome",
    "cv2": "opencv-python", "dateutil": "python-dateutil", "docx": "python-docx", "dotenv": "python-dotenv",
    "faiss": "faiss-cpu", "fitz": "pymupdf", "git": "GitPython", "googleapiclient": "google-api-python-client",
    "jose": "python-jose", "jwt": "PyJWT", "kafka": "kafka-python", "ldap": "python-ldap", "magic": "python-magic",
    "markdown_it": "markdown-it-py", "mpl_toolkits": "matplotlib", "multipart": "python-multipart",
    "MySQLdb": "mysqlclient", "nacl": "PyNaCl", "OpenGL": "PyOpenGL", "OpenSSL": "pyOpenSSL", "PIL": "pillow",
    "pkg_resources": "setuptools", "pptx": "python-pptx", "psycopg2": "psycopg2-binary", "pylab": "matplotlib",
    "pythoncom": "pywin32", "ruamel": "ruamel.yaml", "serial": "pyserial", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "slugify": "python-slugify", "snappy": "python-snappy", "socks": "PySocks",
    "talib": "TA-Lib", "telegram": "python-telegram-bot", "umap": "umap-learn", "usb": "pyusb",
    "websocket": "websocket-client", "win32api": "pywin32", "wx": "wxPython", "yaml": "pyyaml", "zmq": "pyzmq",
}  # fmt: skip

# Import names that code often has; a typo is measured against these.
WELL_KNOWN = frozenset(
    {
        "aiohttp", "altair", "arrow", "astropy", "bokeh", "boto3", "botocore", "catboost", "celery", "click",
        "cloudpickle", "cryptography", "cvxpy", "cython", "dask", "datasets", "django", "duckdb", "faker", "fastapi",
        "flask", "gensim", "geopandas", "gymnasium", "h5py", "httpx", "hypothesis", "igraph", "imageio", "IPython",
        "jax", "jinja2", "joblib", "jsonschema", "keras", "langchain", "lightgbm", "loguru", "lxml", "markdown",
        "markupsafe", "matplotlib", "mlflow", "msgpack", "mypy", "networkx", "nltk", "numba", "numexpr", "numpy",
        "openai", "openpyxl", "orjson", "pandas", "pandas_ta", "paramiko", "patsy", "plotly", "polars", "prophet",
        "psutil", "pyarrow", "pydantic", "pygame", "pygments", "pymongo", "pymysql", "pypdf", "PyPDF2", "pytest",
        "pytz", "pywt", "rapidfuzz", "redis", "regex", "reportlab", "requests", "rich", "rpds", "scipy", "seaborn",
        "selenium", "setuptools", "shap", "shapely", "simpy", "six", "sortedcontainers", "spacy", "sqlalchemy",
        "starlette", "statsmodels", "streamlit", "sympy", "tables", "tabulate", "tensorflow", "textblob", "tiktoken",
        "toml", "torch", "torchvision", "tornado", "tqdm", "transformers", "typer", "ujson", "uvicorn", "websockets",
        "wordcloud", "xarray", "xgboost", "xlrd", "xlsxwriter", "yfinance",
    }
    | DISTRIBUTIONS.keys()
)  # fmt: skip

# Distributions that a package index has no build of for WebAssembly, and why.
NO_BUILD = {
    "flask": "it needs markupsafe, which has compiled parts",
    "jinja2": "it needs markupsafe, which has compiled parts",
    "markupsafe": "it has compiled parts",
    "numba": "it compiles to machine code",
    "pandas-ta": "it needs numba, which compiles to machine code",
    "pip": "a sandbox has no network to install from",
    "psutil": "it asks the operating system, and there is none inside",
    "pyarrow": "it has compiled parts",
    "pyyaml": "it has compiled parts",
    "rpds-py": "it has compiled parts",
    "tensorflow": "it has compiled parts",
    "torch": "it has compiled parts",
}


def distribution_of(module: str) -> str:
    """What the distribution of an import name is called, as far as that is known."""
    return normal(DISTRIBUTIONS.get(module, module))


def normal(name: str) -> str:
    """A distribution's name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_possible(distribution: str) -> bool:
    """Whether a package can be called so; an index is never asked for what cannot."""
    return re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", distribution) is not None


def on_every_python() -> frozenset[str]:
    """What the base set has on every CPython."""
    return frozenset(normal(name) for name in PREINSTALLED if ";" not in name)
