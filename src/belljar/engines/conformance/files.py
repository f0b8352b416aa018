"""Cases: the workspace, seen from the code and from the API, is one; nothing outside it can be named."""

from __future__ import annotations

from belljar.engines.conformance.case import Case, Delete, Listing, Raises, Read, Write, case, run
from belljar.engines.conformance.expect import error, file, ok

REFUSED = Raises("PathRefused")
ESCAPES = ("../x", "a/../../x", "/etc/passwd", "/workspace/../etc/passwd", "..", "a\x00b", "", "//etc/x")

CASES: list[Case] = [
    case(
        "a file that the code makes is reported with size and type",
        run("n = open('a.txt', 'w').write('héllo')", ok(files=[file("a.txt", 6)])),
    ),
    case(
        "several files are reported, sorted",
        run(
            "for name in ('b.csv', 'a.json', 'c.bin'):\n    n = open(name, 'w').write('x')",
            ok(
                files=[
                    file("a.json", 1, "application/json"),
                    file("b.csv", 1, "text/csv"),
                    file("c.bin", 1, "application/octet-stream"),
                ]
            ),
        ),
    ),
    case(
        "a file in a new folder is reported with its folder",
        run(
            "import os\nos.makedirs('x/y')\nn = open('x/y/z.txt', 'w').write('1')",
            ok(files=[file("x/y/z.txt", 1)]),
        ),
    ),
    case(
        "a file that changed is reported again and one that did not is not",
        run("for n in 'ab':\n    k = open(n + '.txt', 'w').write(n)", ok(files=[file("a.txt", 1), file("b.txt", 1)])),
        run("k = open('a.txt', 'a').write('more')", ok(files=[file("a.txt", 5)])),
        run("open('b.txt').read()", ok(text="'b'", value="b")),
    ),
    case(
        "a file that changed and kept its size is reported",
        run("k = open('a.txt', 'w').write('1')", ok(files=[file("a.txt", 1)])),
        run("k = open('a.txt', 'w').write('2')", ok(files=[file("a.txt", 1)])),
    ),
    case(
        "a file that is deleted is not reported",
        run("k = open('a.txt', 'w').write('1')", ok(files=[file("a.txt", 1)])),
        run("import os\nos.remove('a.txt')", ok()),
    ),
    case(
        "a file that is made and deleted in one run is not reported",
        run("import os\nopen('t', 'w').close()\nos.remove('t')", ok()),
    ),
    case(
        "files made before an error are reported",
        run(
            "k = open('a.txt', 'w').write('1')\n1 / 0",
            error("ZeroDivisionError", "division by zero", line=2, files=[file("a.txt", 1)]),
        ),
    ),
    case("an empty folder is not a file", run("import os\nos.mkdir('empty')", ok())),
    case(
        "links and pipes are not reported",
        run("import os\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('pipe')", ok()),
        tags="processes",
    ),
    case(
        "files in /tmp are the code's own and are not reported",
        run("k = open('/tmp/t.txt', 'w').write('1')\nopen('/tmp/t.txt').read()", ok(text="'1'", value="1")),
    ),
    case("an empty file is reported", run("open('e.txt', 'w').close()", ok(files=[file("e.txt", 0)]))),
    case(
        "a file name in any language is reported",
        run("k = open('schöne Größe ☃.txt', 'w').write('1')", ok(files=[file("schöne Größe ☃.txt", 1)])),
    ),
    case(
        "types are told by name",
        run(
            "for n in ('p.png', 'm.md', 'h.html', 'x.xlsx'):\n    open(n, 'w').close()",
            ok(
                files=[
                    file("h.html", 0, "text/html"),
                    file("m.md", 0, "text/markdown"),
                    file("p.png", 0, "image/png"),
                    file("x.xlsx", 0, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
                ]
            ),
        ),
    ),
    case(
        "a file written through the API is read by the code",
        Write("in.txt", "a,b\n1,2\n"),
        run("open('in.txt').read()", ok(text="'a,b\\n1,2\\n'", value="a,b\n1,2\n")),
    ),
    case(
        "bytes written through the API are exact",
        Write("in.bin", bytes(range(256))),
        Read("in.bin", bytes(range(256))),
        run("open('in.bin', 'rb').read() == bytes(range(256))", ok(text="True", value=True)),
    ),
    case(
        "writing through the API makes the folders",
        Write("a/b/c.txt", "x"),
        Read("a/b/c.txt", b"x"),
        Listing("", [("a", "directory", None), ("a/b", "directory", None), ("a/b/c.txt", "file", 1)]),
    ),
    case(
        "writing through the API replaces a file", Write("a.txt", "long text"), Write("a.txt", "x"), Read("a.txt", b"x")
    ),
    case(
        "a file made by the code is read through the API",
        run("k = open('o.txt', 'wb').write(b'\\x00\\xff')", ok(files=[file("o.txt", 2)])),
        Read("o.txt", b"\x00\xff"),
    ),
    case(
        "a path may begin with the workspace",
        Write("/workspace/w.txt", "x"),
        Read("/workspace/w.txt", b"x"),
        Read("w.txt", b"x"),
    ),
    case(
        "a path may begin with a dot",
        Write("./w.txt", "x"),
        Read("w.txt", b"x"),
        Write(".hidden", "h"),
        Read(".hidden", b"h"),
    ),
    case("listing an empty workspace gives nothing", Listing("", [])),
    case(
        "listing a folder gives what is beneath it",
        Write("a/1.txt", "x"),
        Write("b/2.txt", "yy"),
        Listing("b", [("b/2.txt", "file", 2)]),
    ),
    case(
        "listing does not follow links",
        run("import os\nos.symlink('/etc', 'etc')", ok()),
        Listing("", [("etc", "symlink", None)]),
    ),
    case(
        "a deleted file is gone",
        Write("a.txt", "x"),
        Delete("a.txt"),
        Read("a.txt", Raises("FileMissing")),
        run("import os\nos.path.exists('a.txt')", ok(text="False", value=False)),
    ),
    case("a deleted folder is gone with all it has", Write("d/e/f.txt", "x"), Delete("d"), Listing("", [])),
    case(
        "deleting a link leaves what it points to",
        run("import os\nn = open('t.txt', 'w').write('t')\nos.symlink('t.txt', 'l')", ok(files=[file("t.txt", 1)])),
        Delete("l"),
        Read("t.txt", b"t"),
    ),
    case("reading a file that is missing says so", Read("nope.txt", Raises("FileMissing", ("nope.txt",)))),
    case("deleting a file that is missing says so", Delete("nope.txt", Raises("FileMissing", ("nope.txt",)))),
    case("reading a folder is refused", Write("d/x", ""), Read("d", REFUSED)),
    case("writing outside the workspace is refused", *(Write(path, "x", REFUSED) for path in ESCAPES)),
    case("reading outside the workspace is refused", *(Read(path, REFUSED) for path in ESCAPES)),
    case("deleting outside the workspace is refused", *(Delete(path, REFUSED) for path in ESCAPES)),
    case(
        "a link that leads out is not read through",
        run("import os\nos.symlink('/etc/passwd', 'l')\nos.symlink('/etc', 'd')", ok()),
        Read("l", REFUSED),
        Read("d/passwd", REFUSED),
    ),
    case(
        "a link that leads out is not written through",
        run("import os\nos.symlink('/tmp', 'd')", ok()),
        Write("d/x", "x", REFUSED),
        run("os.path.exists('/tmp/x')", ok(text="False", value=False)),
    ),
    case(
        "files given to run are there before the code and stay",
        run(
            "sorted(__import__('os').listdir('data'))", ok(text="['a.csv']", value=["a.csv"]), files={"data/a.csv": "x"}
        ),
        Read("data/a.csv", b"x"),
    ),
    case(
        "files given to run may be bytes",
        run("open('b.bin', 'rb').read()", ok(text="b'\\x00\\x01'"), files={"b.bin": b"\x00\x01"}),
    ),
    case(
        "files given to run may not leave the workspace",
        run("1", REFUSED, files={"../x": "x"}),
        run("1", ok(text="1", value=1)),
    ),
    case(
        "a file of ten megabytes goes in and out",
        Write("big.bin", b"0123456789" * 1_000_000),
        run("import os\nos.path.getsize('big.bin')", ok(text="10000000", value=10_000_000)),
        Read("big.bin", b"0123456789" * 1_000_000),
    ),
    case(
        "text is UTF-8 with newlines as they are",
        run(
            "k = open('t', 'w').write('ü\\r\\n')\nopen('t', 'rb').read()",
            ok(text="b'\\xc3\\xbc\\r\\n'", files=[file("t", 4, "application/octet-stream")]),
        ),
    ),
]
