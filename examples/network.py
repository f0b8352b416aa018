"""A sandbox reaches the hosts that its policy lists, and is told why it does not reach others."""

import http.server
import threading

from belljar import Policy, Sandbox


class Greeter(http.server.BaseHTTPRequestHandler):
    """A service of this machine, so that the example needs no internet."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"welcome")

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Greeter)
threading.Thread(target=server.serve_forever, daemon=True).start()
host = f"127.0.0.1:{server.server_port}"  # what is not public is listed by its address

with Sandbox("native", policy=Policy(network=[host])) as sb:
    ex = sb.run("import requests\nrequests.get(_args).text", args=f"http://{host}/")
    print("listed:", ex.value)

    ex = sb.run("requests.get('https://elsewhere.example/')")
    print("not listed:", ex.error.name if ex.error else ex.status)
    for denial in ex.denials:
        print(f"  {denial.target}: {denial.rule}")

with Sandbox("native") as sb:
    ex = sb.run("import socket\nsocket.create_connection(('192.0.2.1', 443))")
    print("no list:", ex.error.value if ex.error else ex.status)
