"""A run that is interrupted in the middle."""

from __future__ import annotations

import threading
import time

from belljar import Execution, Sandbox


def interrupted(sandbox: Sandbox, code: str) -> Execution:
    """Run it and interrupt when it has said that it is on and gone a little further."""
    on = threading.Event()

    def stop() -> None:
        on.wait(30)
        time.sleep(0.2)
        sandbox.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    ran = sandbox.run(code, on_event=lambda event: on.set())
    thread.join()
    return ran
