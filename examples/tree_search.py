"""An agent tries three ways at every step, each in a fork of the same live sandbox, and goes on with the best one."""

from belljar import Sandbox

START = """
import math
xs = [i / 10 for i in range(100)]
ys = [0.5 * x * x - 3 * x + 2 + math.sin(x) for x in xs]
terms = []
def error():
    return sum((y - sum(c * f(x) for c, f in terms)) ** 2 for x, y in zip(xs, ys)) / len(xs)
def add(f):  # the coefficient that leaves the smallest error
    rest = [y - sum(c * g(x) for c, g in terms) for x, y in zip(xs, ys)]
    terms.append((sum(r * f(x) for r, x in zip(rest, xs)) / sum(f(x) ** 2 for x in xs), f))
"""
IDEAS = {"square": "lambda x: x * x", "linear": "lambda x: x", "sine": "math.sin"}

best = Sandbox()
best.run(START)
print(f"error at the start: {best.run('error()').value:.2f}")
path = []
for step in range(1, 4):
    attempts = dict(zip(IDEAS, best.fork(len(IDEAS)), strict=True))
    errors = {name: attempts[name].run(f"add({IDEAS[name]})\nerror()").value for name in attempts}
    winner = min(errors, key=errors.__getitem__)
    print(f"step {step}: " + ", ".join(f"{name} {error:.2f}" for name, error in errors.items()) + f" -> {winner}")
    checkpoint = attempts[winner].checkpoint(f"step {step}: {winner}")  # to come back to, also after this program
    path.append(checkpoint)
    for name, attempt in attempts.items():
        if name != winner:
            attempt.close()
    best.close()
    best = attempts[winner]
print(" > ".join(f"{saved.name}" for saved in path))
assert [saved.parent for saved in path] == [None, path[0].id, path[1].id]
best.close()
