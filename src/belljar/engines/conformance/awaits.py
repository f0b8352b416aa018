"""Cases: await, async for and async with work at the top, and the loop is one from run to run."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, case, run
from belljar.engines.conformance.expect import error, ok

CASES: list[Case] = [
    case("await at the top", run("import asyncio\nawait asyncio.sleep(0)\nprint('ok')", ok("ok\n"))),
    case(
        "an awaited last expression is the result",
        run("import asyncio\nasync def f(): return 42\nawait f()", ok(text="42", value=42)),
    ),
    case(
        "gather at the top",
        run(
            "import asyncio\nasync def sq(x): return x * x\nawait asyncio.gather(*(sq(i) for i in range(4)))",
            ok(text="[0, 1, 4, 9]", value=[0, 1, 4, 9]),
        ),
    ),
    case(
        "async for at the top",
        run(
            "async def gen():\n    for i in range(3):\n        yield i\nasync for i in gen():\n    print(i)",
            ok("0\n1\n2\n"),
        ),
    ),
    case(
        "async with at the top",
        run(
            "class C:\n    async def __aenter__(self): print('in'); return 5\n"
            "    async def __aexit__(self, *a): print('out')\nasync with C() as c:\n    print(c)",
            ok("in\n5\nout\n"),
        ),
    ),
    case(
        "an async comprehension at the top",
        run("async def gen():\n    yield 1\n    yield 2\n[x async for x in gen()]", ok(text="[1, 2]", value=[1, 2])),
    ),
    case(
        "names assigned beside an await are kept",
        run("import asyncio\nx = await asyncio.sleep(0, 'slept')", ok()),
        run("x", ok(text="'slept'", value="slept")),
    ),
    case(
        "a task made in one run is awaited in the next",
        run(
            "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 'done'\n"
            "t = asyncio.create_task(f())\nawait asyncio.sleep(0)",
            ok(),
        ),
        run("await t", ok(text="'done'", value="done")),
    ),
    case(
        "an event made in one run is used in the next",
        run("import asyncio\nq = asyncio.Queue()\nawait q.put(7)", ok()),
        run("await q.get()", ok(text="7", value=7)),
    ),
    case(
        "asyncio.run works at the top",
        run("import asyncio\nasync def f(): return 3\nasyncio.run(f())", ok(text="3", value=3)),
    ),
    case(
        "an error in an awaited function shows its frames",
        run(
            "async def f():\n    raise ValueError('late')\nawait f()",
            error(
                "ValueError",
                "late",
                line=2,
                frames=[(3, "<module>", "await f()"), (2, "f", "raise ValueError('late')")],
            ),
        ),
    ),
    case(
        "a coroutine that is not awaited is only shown",
        run("async def f(): return 1\nc = f()\nc.close()\ntype(c).__name__", ok(text="'coroutine'", value="coroutine")),
    ),
]
