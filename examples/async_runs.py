"""Several sandboxes at once, awaited: each has its own Python, its own variables, its own files."""

import asyncio

from belljar import AsyncSandbox


async def count_primes(below: int) -> str:
    async with AsyncSandbox() as sandbox:
        await sandbox.run(f"below = {below}")
        ran = await sandbox.run("sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, below))")
        return f"{ran.value} primes below {below}, in {ran.usage.cpu_s:.2f} s of processor time"


async def watch() -> None:
    """Events as they happen; the last item is the Execution."""
    async with AsyncSandbox() as sandbox:
        async for event in sandbox.stream("for step in range(3): print('step', step)\nstep"):
            print(event["text"] if isinstance(event, dict) and event["type"] == "stdout" else "", end="")


async def main() -> None:
    for line in await asyncio.gather(*(count_primes(below) for below in (1_000, 10_000, 20_000))):
        print(line)
    await watch()


asyncio.run(main())
