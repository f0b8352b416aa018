# The rule of this package: it runs inside the outer wall, with the environment's Python, before and around the kernel.
# It imports the standard library and belljar_kernel only, never belljar. No user code runs before every wall is closed.
"""The native engine's jail: launcher, zygote, keeper, and the walls that a kernel closes behind itself."""
