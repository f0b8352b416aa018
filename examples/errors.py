"""What the code did wrong is data; what Belljar could not do is an exception."""

from belljar import ExecutionFailed, InvalidRequest, Limits, Sandbox

with Sandbox(limits=Limits(timeout_s=1)) as sandbox:
    ran = sandbox.run("total = 41\nprices = [1, 2]\nprices[7]")
    assert ran.error is not None
    print(ran.status, "-", ran.error.name, "on line", ran.error.line, "-", ran.error.code)
    print(ran.error.traceback)

    ran = sandbox.run("while True: pass")
    print(ran.status, "after", round(ran.usage.wall_s), "s; variables are", ran.state)

    ran = sandbox.run("import os; os.abort()")
    print(ran.status, "- exit code", ran.exit_code, "- variables are", ran.state)

    ran = sandbox.run("1 + 1")
    print(ran.status, "-", ran.text, "-", ran.state_reason)

    try:
        sandbox.run("1 / 0").raise_for_status()
    except ExecutionFailed as failed:
        print("raised on request:", failed)

    try:
        sandbox.run("   ")
    except InvalidRequest as refused:
        print("refused:", refused)
