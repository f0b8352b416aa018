"""`python -m belljar_kernel FD [WORKSPACE]`: a kernel in a process of its own."""

import sys

from belljar_kernel.entry import prepare, serve

if __name__ == "__main__":
    serve(int(sys.argv[1]), prepare(*sys.argv[2:3]))
