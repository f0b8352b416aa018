"""HTTP clients and the proxy: those that do not look for one are told, and a refusal is an exception in each of them.

Acts when the code imports a client, and imports none itself.
"""

from __future__ import annotations

import errno
import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OWN_HEADERS = ("Belljar-Denied", "Belljar-Unreachable")  # of the proxy alone: it lets no server send them


def patches() -> dict[str, Callable[[Any], None]]:
    """What to do with which module."""
    return {
        "http.client": _patch_http_client,
        "urllib.request": _patch_urllib,
        "urllib3.poolmanager": _patch_urllib3,
        "httpx": _patch_httpx,
        "aiohttp.client": _patch_aiohttp,
    }


def _patch_http_client(module: Any) -> None:
    """For urllib, urllib3 and requests: refused plain requests; tunnels fail by themselves, with the same words.

    For code that uses it directly: the way through the proxy.
    """
    begin_plainly, connect_plainly = module.HTTPResponse.begin, module.HTTPConnection.connect

    @functools.wraps(begin_plainly)
    def begin(response: Any) -> None:
        begin_plainly(response)
        if response.headers is not None and _is_from_proxy(response.headers):
            reason = response.reason
            response.close()
            raise ConnectionRefusedError(errno.ECONNREFUSED, reason)

    @functools.wraps(connect_plainly)
    def connect(connection: Any) -> None:
        from urllib.parse import urlsplit

        if connection._tunnel_host is None:
            scheme = "http" if connection.default_port == 80 else "https"
            host = f"[{connection.host}]" if ":" in connection.host else connection.host
            proxy = _proxy_for(f"{scheme}://{host}:{connection.port}")
            if proxy is not None:
                connection.set_tunnel(connection.host, connection.port)
                connection.host, connection.port = connection._get_hostport(urlsplit(proxy).netloc, None)
        connect_plainly(connection)

    module.HTTPResponse.begin, module.HTTPConnection.connect = begin, connect


def _patch_urllib(module: Any) -> None:
    original = module.AbstractHTTPHandler.do_open

    @functools.wraps(original)
    def do_open(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except ConnectionRefusedError as refused:
            raise module.URLError(refused) from None

    module.AbstractHTTPHandler.do_open = do_open


def _patch_urllib3(module: Any) -> None:
    """A PoolManager goes through the proxy as a ProxyManager does; it does not look for one by itself."""
    plain = module.PoolManager
    original = plain.urlopen

    @functools.wraps(original)
    def urlopen(pools: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_for(url) if pools.proxy is None else None
        if proxy is None:
            return original(pools, method, url, *args, **kwargs)
        through = vars(pools).setdefault("_belljar_through", {})
        if proxy not in through:
            through[proxy] = module.ProxyManager(proxy, headers=pools.headers, **pools.connection_pool_kw)
        return through[proxy].urlopen(method, url, *args, **kwargs)

    plain.urlopen = urlopen


def _patch_httpx(module: Any) -> None:
    """Its clients read the variables, and meet a refused tunnel as a ProxyError; only plain requests are left."""
    sync, later = module.HTTPTransport, module.AsyncHTTPTransport
    handle, handle_later = sync.handle_request, later.handle_async_request

    def refusal(response: Any, request: Any) -> Any:
        return module.ConnectError(response.reason_phrase, request=request)

    @functools.wraps(handle)
    def handle_request(transport: Any, request: Any) -> Any:
        response = handle(transport, request)
        if _is_from_proxy(response.headers):
            response.close()
            raise refusal(response, request)
        return response

    @functools.wraps(handle_later)
    async def handle_async_request(transport: Any, request: Any) -> Any:
        response = await handle_later(transport, request)
        if _is_from_proxy(response.headers):
            await response.aclose()
            raise refusal(response, request)
        return response

    sync.handle_request, later.handle_async_request = handle_request, handle_async_request


def _patch_aiohttp(module: Any) -> None:
    """It reads the variables when it is asked to, which it is unless the code says otherwise."""
    session = module.ClientSession
    initialise, request = session.__init__, session._request

    @functools.wraps(initialise)
    def begin(client: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("trust_env", True)
        initialise(client, *args, **kwargs)

    @functools.wraps(request)
    async def _request(*args: Any, **kwargs: Any) -> Any:
        response = await request(*args, **kwargs)
        if _is_from_proxy(response.headers):
            response.close()
            raise module.ClientOSError(errno.ECONNREFUSED, response.reason)
        return response

    session.__init__, session._request = begin, _request


def _is_from_proxy(headers: Any) -> bool:
    """Whether a response stands for a connection that there is not."""
    return any(name in headers for name in OWN_HEADERS)


def _proxy_for(url: str) -> str | None:
    """The proxy that the variables name for a URL."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    is_itself = proxy is not None and urlsplit(proxy).netloc == parts.netloc
    return None if is_itself or not parts.hostname or proxy_bypass(parts.netloc) else proxy
