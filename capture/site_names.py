"""What this host itself knows of its site: names and addresses that must not leave.

Read from files; no socket is opened, and no directory service is asked.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from pathlib import Path

_PASSWD = Path("/etc/passwd")
_FIB = Path("/proc/net/fib_trie")
_INET6 = Path("/proc/net/if_inet6")
_HOST_NAME = Path("/etc/hostname")
_FIRST_PERSON, _NOBODY = 1000, 65534
_ACCOUNT = re.compile(r"^([^:\n]+):[^:\n]*:(\d+):", re.MULTILINE)
_LOCAL = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")


@dataclass(frozen=True)
class SiteNames:
    """Names as they are; loopback addresses are left out, every host has them."""

    hosts: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()

    def as_originals(self) -> set[tuple[str, str]]:
        """Return class and original of each."""
        return {
            *(("host", name) for name in self.hosts),
            *(("user", name) for name in self.users),
            *(("address", name) for name in self.addresses),
        }


def read_site_names() -> SiteNames:
    """Return what this host knows: its names, its people and its addresses.

    People are the accounts of ``/etc/passwd`` from number 1000 on; those below it
    (``bin``, ``games``) are the same on every host.
    """
    hosts = {socket.gethostname(), _text(_HOST_NAME).strip()} - {"", "localhost"}
    hosts |= {name.split(".")[0] for name in hosts}
    return SiteNames(
        frozenset(hosts), frozenset(_people(_text(_PASSWD))), frozenset(_addresses())
    )


def _people(passwd: str) -> set[str]:
    found = {match[1]: int(match[2]) for match in _ACCOUNT.finditer(passwd)}
    return {name for name, uid in found.items() if _FIRST_PERSON <= uid != _NOBODY}


def _addresses() -> set[str]:
    found = set(_LOCAL.findall(_text(_FIB)))
    for line in _text(_INET6).splitlines():
        digits = line.split(" ", 1)[0]
        found.add(str(ipaddress.IPv6Address(int(digits, 16))))
    return {text for text in found if not ipaddress.ip_address(text).is_loopback}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
