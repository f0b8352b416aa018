# _args is automatically available
name = _args.get("name", "World")
print(f"Hello, {name}!")
