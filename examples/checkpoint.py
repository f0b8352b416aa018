"""Save a sandbox, let it go, and continue from its state in two new ones, each on its own."""

from belljar import Checkpoint, Sandbox

with Sandbox() as sandbox:
    sandbox.run("import statistics\nscores = [3, 4, 5]\ndef mean(): return statistics.mean(scores)")
    sandbox.run("lines = (line for line in ['a generator', 'cannot be saved'])")
    saved = sandbox.checkpoint("three scores").to_bytes()

checkpoint = Checkpoint.from_bytes(saved)
print(f"{len(saved):,} bytes with {', '.join(checkpoint.saved)}")
for name, reason in checkpoint.skipped.items():
    print(f"without {name}: {reason}")

for score in (0, 100):
    with Sandbox.restore(checkpoint) as sandbox:
        execution = sandbox.run(f"scores.append({score})\nmean()")
        print(f"with {score}: {execution.text} ({execution.state})")
