"""Attacks on the network: the host's sockets, its loopback, and everything beyond, with no network allowed."""

from __future__ import annotations

from belljar.attacks.case import EVERYWHERE, Cases, Trial

attack = Cases()
UNREACHABLE = ("ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EPERM", "EACCES", "ENOENT", "EADDRNOTAVAIL")


@attack("N13", "the host's unix sockets, abstract or by path, cannot be reached")
def reach_unix_sockets(trial: Trial) -> str:
    execution = trial.run("""
        names = ["\\0" + _args["abstract"], _args["socket"], "\\0/tmp/.X11-unix/X0"]
        names += ["/run/" + name for name in ("docker.sock", "podman/podman.sock", "containerd/containerd.sock")]
        names += ["/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"]
        found = {}
        for name in names:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
                found["%s %d" % (name, kind)] = tried(lambda: socket.socket(socket.AF_UNIX, kind).connect(name))
        found
    """)
    return trial.expect_refused(execution, *UNREACHABLE)


@attack("E01", "with no network allowed, no name resolves and no address answers", engines=EVERYWHERE)
def reach_the_network(trial: Trial) -> str:
    execution = trial.run("""
        import urllib.request
        def resolve(name):
            try: return socket.getaddrinfo(name, 80)
            except socket.gaierror as failure: raise ConnectionRefusedError(errno.ECONNREFUSED, str(failure))
        def fetch(url):
            try: return urllib.request.urlopen(url, timeout=1).status
            except urllib.error.URLError as failure: raise ConnectionRefusedError(errno.ECONNREFUSED, str(failure))
        found = {name: tried(resolve, name) for name in ("example.org", "metadata.google.internal")}
        found |= {url: tried(fetch, url) for url in ("http://example.org/", "http://127.0.0.1:%d/" % _args["tcp"])}
        found
    """)
    return trial.expect_refused(execution, *UNREACHABLE)


@attack("E09", "raw TCP, UDP and IPv6 have no route out, not even to the host's loopback", engines=EVERYWHERE)
def bypass_the_proxy(trial: Trial) -> str:
    execution = trial.run("""
        def reach(family, kind, address):
            with socket.socket(family, kind) as end:
                end.settimeout(1)
                end.connect(address)
                end.send(b"hello")
                return end.recv(1)  # a refusal of a datagram shows here
        found = {}
        hosts = {"169.254.169.254": 80, "1.1.1.1": 443, "10.0.0.1": 22, "224.0.0.1": 99}
        for host, port in [("127.0.0.1", _args["tcp"]), *hosts.items()]:
            found["tcp %s" % host] = tried(reach, socket.AF_INET, socket.SOCK_STREAM, (host, port))
        for host, port in [("127.0.0.1", _args["udp"]), ("8.8.8.8", 53), ("1.1.1.1", 443), ("255.255.255.255", 67)]:
            found["udp %s" % host] = tried(reach, socket.AF_INET, socket.SOCK_DGRAM, (host, port))
        for host in ("2606:4700:4700::1111", "fe80::1"):
            found["tcp %s" % host] = tried(reach, socket.AF_INET6, socket.SOCK_STREAM, (host, 443))
        found["icmp"] = tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1).connect(("127.0.0.1", 0)))
        found
    """)
    return trial.expect_refused(execution, *UNREACHABLE, "EINVAL", "EPROTONOSUPPORT", "EAFNOSUPPORT")


@attack("E03", "the proxy refuses the host's own addresses and metadata services in every spelling")
def ask_the_proxy(trial: Trial) -> str:
    execution = trial.run("""
        def ask(*parts):
            with socket.create_connection(("127.0.0.1", 3128), 2) as end:
                for part in parts: end.sendall(part)
                return b"".join(iter(lambda: end.recv(4096), b""))
        hosts = ["127.0.0.1", "2130706433", "0177.0.0.1", "0x7f000001", "127.1", "localhost", "[::1]", "0"]
        hosts += ["[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "127.0.0.1@example.org", "127.0.0.1%00.example.org"]
        hosts += ["169.254.169.254", "2852039166", "metadata.google.internal"]
        found = {}
        for host in hosts:
            target = b"%s:%d" % (host.encode(), _args["tcp"])
            for name, request in (("GET", b"GET http://%s/" % target), ("CONNECT", b"CONNECT %s" % target)):
                answer = ask(request + b" HTTP/1.1\\r\\nHost: " + target + b"\\r\\n\\r\\n")
                found["%s %s" % (name, host)] = answer[9:12].decode()
        found["socks"] = ask(b"\\5\\1\\0", b"\\5\\1\\0\\1\\x7f\\0\\0\\1" + struct.pack(">H", _args["tcp"])).hex()[4:8]
        found
    """)
    return trial.expect_refused(execution, "403", "400", "0502")


@attack("E11", "a flood of connections to the proxy is turned away, and its port cannot be taken", timeout_s=6)
def flood_the_proxy(trial: Trial) -> str:
    execution = trial.run("""
        held = []
        for number in range(900):
            end = socket.socket()
            end.settimeout(0.5)
            try:
                end.connect(("127.0.0.1", 3128))
                end.send(b"GET http://" + b"x" * number)
            except OSError: pass
            held.append(end)
        def take(address, *options):
            with socket.socket() as end:
                for option in options: end.setsockopt(socket.SOL_SOCKET, option, 1)
                end.bind(address)
        found = {"bind": tried(take, ("127.0.0.1", 3128))}
        found["share"] = tried(take, ("0.0.0.0", 3128), socket.SO_REUSEADDR, socket.SO_REUSEPORT)
        found
    """)
    trial.expect_usable()
    return trial.expect_refused(execution, "EADDRINUSE")
