"""A person at a terminal: types, and reads what appears until a deadline."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

ENTER, TAB, UP, CTRL_C, CTRL_D = "\r", "\t", "\x1b[A", "\x03", "\x04"
PROMPT = ">>> "
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[@-Z\\-_=>]")


class Terminal:
    def __init__(self, command, *, env, cwd):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**env, "PROMPT_TOOLKIT_NO_CPR": "1"},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._seen = ""

    def type(self, *keys):
        """Press keys. Only what appears from now on counts for the next `wait_for`."""
        self._seen = ""
        os.write(self._master, "".join(keys).encode())

    def wait_for(self, text, seconds=30):
        """Read until the text appears; escape sequences do not count."""
        deadline = time.monotonic() + seconds
        while text not in self.screen:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._master], [], [], left)[0]:
                raise AssertionError(f"{text!r} did not appear in {self.screen!r}")
            try:
                self._seen += os.read(self._master, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"ended before {text!r} appeared in {self.screen!r}") from None
        return self.screen

    def enter(self, code):
        """Type a line of code and Enter, and return what appears between it and the next prompt."""
        self.type(code)
        self.wait_for(code[-1])
        return self.press(ENTER)

    def press(self, key):
        """Press a key that ends the line, and return what appears between it and the next prompt."""
        self.type(key)
        self.wait_for("\n")
        self._seen = self._seen.split("\n", 1)[1]
        return self.wait_for(PROMPT)

    def wait_for_end(self, seconds=30):
        """The exit code, when the command ends by itself; reads on, so that it can."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    self._seen += os.read(self._master, 65536).decode(errors="replace")
                except OSError:  # the other side is closed, and everything was read
                    break
        return self._process.wait(max(1.0, deadline - time.monotonic()))

    @property
    def raw(self):
        return self._seen

    @property
    def screen(self):
        return _ESCAPES.sub("", self._seen)

    def close(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(10)
        os.close(self._master)
