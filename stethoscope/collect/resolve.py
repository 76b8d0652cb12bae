"""From a host name to an open TCP connection, with a short time limit and without blocking the loop."""

from __future__ import annotations

import asyncio
import socket
import time

from stethoscope.collect.link import LinkFailure
from stethoscope.collect.words import not_connected
from stethoscope.model.frame import LinkState

TCP_S = 5.0
"""A node that does not complete a TCP handshake in this time is unreachable."""
KEEP_S = 60.0
"""Resolved names are kept for so long."""

_Address = tuple[int, tuple[object, ...]]


class Resolver:
    """Name look-ups of a fleet; each name once a minute."""

    def __init__(self) -> None:
        """Know no name yet."""
        self._known: dict[tuple[str, int, int], tuple[float, list[_Address]]] = {}

    async def connect(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> socket.socket:
        """Return a connected non-blocking socket; LinkFailure says why there is none."""
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            addresses = await self._addresses(host, port, family)
        except OSError as error:
            raise not_connected(error, host) from None
        limit_s = TCP_S / min(len(addresses), 3)
        failure: LinkFailure | None = None
        for address_family, address in addresses[:3]:
            try:
                return await _open(address_family, address, limit_s)
            except TimeoutError:
                failure = LinkFailure(LinkState.UNREACHABLE, f"{where}: no answer in {limit_s:.0f} s")
            except OSError as error:
                failure = not_connected(error, where)
        assert failure is not None
        raise failure

    async def _addresses(self, host: str, port: int, family: int) -> list[_Address]:
        key = (host, port, family)
        known = self._known.get(key)
        if known is not None and time.monotonic() - known[0] < KEEP_S:
            return known[1]
        try:
            found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            loop = asyncio.get_running_loop()
            found = list(await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM))
        addresses: list[_Address] = [(int(entry[0]), entry[4]) for entry in found]
        self._known[key] = (time.monotonic(), addresses)
        return addresses


async def _open(family: int, address: tuple[object, ...], limit_s: float) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(limit_s):
            await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
