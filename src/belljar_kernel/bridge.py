"""The kernel on engines that call it: the text of a Request in, texts of Events out. Only WebAssembly imports this."""

from __future__ import annotations

import gc
import importlib
import io
import linecache
import sys

import belljar_kernel
from belljar_kernel import codec, offline, reseed, waiting
from belljar_kernel.configuration import rehearse
from belljar_kernel.entry import hello
from belljar_kernel.kernel import Kernel
from belljar_kernel.mail import mail
from belljar_kernel.protocol import FRAME_BYTES
from belljar_kernel.streams import DescriptorStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CLIENTS = ("http.client", "urllib.request")  # a second to import, and what every HTTP client begins with
SCIENCE = ("numpy", "pandas", "matplotlib.pyplot")
_kernel: Kernel | None = None
_send: Callable[[str], None]
_len, _ValueError = len, ValueError


def prepare(science: bool | None = None) -> None:
    """Do what is the same in every sandbox, so that a snapshot has it: the kernel, HTTP clients, the science stack.

    Where there is no snapshot (None) nothing is imported ahead.
    """
    global _kernel
    _tidy_path()
    waiting.install()
    offline.install()
    for name in () if science is None else (*CLIENTS, *(SCIENCE if science else ())):
        importlib.import_module(name)
    if science:
        _draw()
    _kernel = Kernel(DescriptorStreams())
    mail.denials, mail.calls = _kernel.denials, _kernel.calls
    _kernel.calls.connect(mail)
    _kernel.watch(offline.patches())
    _kernel.watch_imports()
    if science is not None:
        _ask()
    rehearse(_kernel)
    belljar_kernel.digest()
    for folder in sys.path_importer_cache.keys() - set(sys.path):
        del sys.path_importer_cache[folder]  # of packages already imported; every run would walk them
    linecache.clearcache()
    gc.collect()
    gc.freeze()


def start(send: Callable[[str], None], wait: Callable[[float, bool], bool], take: Callable[[], Any]) -> str:
    """Come alive in a sandbox of our own, and return the text of the hello."""
    global _send
    if _kernel is None:
        prepare()
    assert _kernel is not None
    _send = send
    _tidy_path()
    mail.connect(take, waiting.wait_for_message)
    waiting.connect(wait, _kernel.calls)
    reseed.after_fork()
    importlib.invalidate_caches()
    _kernel.interrupts.install()
    return codec.encode(hello()).decode("ascii")


def handle(request: str) -> None:
    """Answer one Request."""
    assert _kernel is not None
    try:
        document = codec.decode(request.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        document = "not JSON"
    _kernel.handle(document, _emit)


def trial() -> str:
    """Whether an interpreter out of a snapshot works: "ok", or what does not."""
    if "pandas" in sys.modules:
        numpy, pandas = importlib.import_module("numpy"), importlib.import_module("pandas")
        table = pandas.DataFrame({"a": [1, 2, 3], "b": list("xyz")})
        if table.describe().loc["mean", "a"] != 2.0 or len(table.to_html()) < 100:
            return "pandas"
        if abs(numpy.linalg.det(numpy.array([[2.0, 1.0], [1.0, 3.0]])) - 5.0) > 1e-9:
            return "numpy"
        if _draw() < 1000:
            return "matplotlib"
    try:
        [][1]
    except IndexError:
        pass
    return "ok" if _kernel is not None else "no kernel"


def _tidy_path() -> None:
    """The current folder is the kernel's to put in, by its name; Pyodide adds it at every boot."""
    sys.path[:] = [folder for folder in sys.path if folder]


def _emit(document: dict[str, Any]) -> None:
    text = codec.encode(document).decode("ascii")
    if _len(text) > FRAME_BYTES:
        raise _ValueError("too large for a frame")
    _send(text)


def _ask() -> None:
    """Ask once for what is refused, so that the first refusal of a sandbox is fast."""
    urllib: Any = importlib.import_module("urllib.request")
    try:
        urllib.urlopen("http://example.invalid/")
    except OSError:
        pass
    urllib._opener = None  # it has looked for proxies in the environment, which was not the sandbox's yet


def _draw() -> int:
    """Draw once what most code draws first, so that fonts and caches are there; the size of the picture."""
    pyplot = importlib.import_module("matplotlib.pyplot")
    picture = io.BytesIO()
    figure, axes = pyplot.subplots()
    axes.plot([0, 1])
    axes.set_title("title")
    figure.savefig(picture, format="png")
    pyplot.close("all")
    return len(picture.getvalue())
