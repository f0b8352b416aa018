"""Ten lines: run code, keep state, read the result."""

from belljar import Sandbox

with Sandbox() as sandbox:
    sandbox.run("import pandas as pd; df = pd.DataFrame({'x': [1, 2, 3]})")
    ran = sandbox.run("df.describe()")  # `df` is still there
    print(ran.text)
    print(sandbox.run("df['x'].sum()").value + 1)  # plain values come back as plain values
    print(sandbox.run("print('to stdout'); 6 * 7").stdout, end="")
