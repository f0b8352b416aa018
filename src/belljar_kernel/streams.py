"""Standard streams of the user's code. They never raise on a lone surrogate: it is written as a backslash escape."""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from io import BufferedWriter, BytesIO, FileIO, RawIOBase, TextIOWrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from _typeshed import ReadableBuffer

    Write = Callable[[str, str], None]


class Streams:
    """Standard output and error, kept over runs unless the code closed them; standard input, new for each run."""

    def __init__(self) -> None:
        self._out = self._open(1)
        self._err = self._open(2)

    def install(self, stdin: str | None) -> None:
        """Make these the streams of `sys`. Without `stdin` reading is at its end at once."""
        if not _usable(self._out):
            self._out = self._open(1)
        if not _usable(self._err):
            self._err = self._open(2)
        content = BytesIO((stdin or "").encode("utf-8", "surrogatepass"))
        sys.stdin = sys.__stdin__ = TextIOWrapper(content, "utf-8", "surrogatepass")  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = self._out  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self._err  # type: ignore[misc]

    def complain(self, text: str) -> None:
        """Write to standard error, after all that went to standard output."""
        self.flush()
        try:
            self._err.write(text)
            self._err.flush()
        except (OSError, ValueError):
            pass

    def flush(self) -> None:
        """Send on what waits in buffers; that a stream is closed or gone is not the kernel's failure."""
        for stream in (self._out, self._err):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass

    def _open(self, number: int) -> TextIOWrapper:
        raise NotImplementedError


class DescriptorStreams(Streams):
    """Over descriptors 1 and 2, where output of C code and of child processes goes as well."""

    _flush_c: Callable[[], object] | None = None

    def flush(self) -> None:
        """Flush what Python holds, and what C holds when the code can have called C itself."""
        super().flush()
        if "ctypes" in sys.modules:
            try:
                self._flush_c = self._flush_c or _c_flush(sys.modules["ctypes"])
                self._flush_c()
            except Exception:
                pass  # no C library to ask: nothing waits in it

    def _open(self, number: int) -> TextIOWrapper:
        raw = FileIO(number, "wb", closefd=False)
        return TextIOWrapper(BufferedWriter(raw), "utf-8", "backslashreplace", newline="\n", line_buffering=True)


class EventStreams(Streams):
    """For engines without descriptors: text goes to `write(name, text)`, which makes events of it."""

    def __init__(self, write: Write) -> None:
        self._write = write
        super().__init__()

    def _open(self, number: int) -> TextIOWrapper:
        raw = _EventFile("stdout" if number == 1 else "stderr", number, self._write)
        return TextIOWrapper(BufferedWriter(raw), "utf-8", "backslashreplace", newline="\n", line_buffering=True)


class _EventFile(RawIOBase):
    def __init__(self, stream: str, number: int, write: Write) -> None:
        self.name = stream
        self._number = number
        self._write = write
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, data: ReadableBuffer) -> int:
        content = bytes(data)
        text = self._decoder.decode(content)
        if text:
            self._write(self.name, text)
        return len(content)


def _c_flush(ctypes: Any) -> Callable[[], object]:
    library = ctypes.CDLL(None)
    # Only this stream: flushing all of them would wait for one that another thread reads.
    stdout = ctypes.c_void_p.in_dll(library, "stdout")
    flush = library.fflush
    return lambda: flush(stdout)


def _usable(stream: TextIOWrapper) -> bool:
    try:
        return not stream.closed
    except ValueError:  # detached
        return False
