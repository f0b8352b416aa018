"""A sandbox that outlives its process: the first one is killed outright, the second goes on where that was."""

import os
import signal
import subprocess
import sys

from belljar import Sandbox

if sys.argv[1:] == ["first"]:
    sandbox = Sandbox(durable=True, name="diary")
    sandbox.run("days = ['monday']")
    sandbox.hibernate()  # saved, and its memory is free
    print(sandbox.run("days").text, "in a sandbox that slept:", sandbox.id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

first = subprocess.run([sys.executable, __file__, "first"], stdout=subprocess.PIPE, text=True)
print(first.stdout, end="")
print("the first process was ended by signal", -first.returncode)

sandbox = Sandbox.connect(first.stdout.split()[-1])
execution = sandbox.run("days.append('tuesday')\ndays")
print(execution.text, f"({execution.state}: {execution.state_reason})")
sandbox.close()
