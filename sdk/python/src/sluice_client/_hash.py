"""Hashes of identifiers, equal in every SDK."""

import hashlib
import ipaddress
import re

from ._errors import HashError

# White space as the service and the other SDKs define it. str.strip has another list.
_SPACE = "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
# White space, control characters, U+FFFD and surrogates: none of them is part of an address.
_BAD = re.compile("[" + _SPACE + "\u0000-\u001f\u007f-\u009f\ufffd\ud800-\udfff]")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"{_BYTE}(?:\.{_BYTE}){{3}}")


def _text(address: object) -> str:
    if not isinstance(address, str):
        raise TypeError("the address to hash is None" if address is None else "the address to hash is no string")
    return address


def hash_email(address: str) -> str:
    """email_sha256 of an address: white space around it cut off, letters lowered, SHA-256 in lower-case hex.

    Nothing else is normalised: dots and +tags are part of the address.
    """
    text = _lower(_text(address).strip(_SPACE))
    if _DIGEST.fullmatch(text):
        raise HashError("ALREADY_HASHED")
    local, found, domain = text.partition("@")
    if not (local and found and domain) or "@" in domain or _BAD.search(text):
        raise HashError("NOT_EMAIL")
    return _sha256(text)


def hash_ipv4(address: str) -> str:
    """ip of an IPv4 address: its dotted form, SHA-256 in lower-case hex.

    An IPv4 address written inside IPv6 (::ffff:192.0.2.1) counts as IPv4. Leading zeros, which some read as octal, are
    rejected.
    """
    text = _text(address).strip(_SPACE)
    if _DIGEST.fullmatch(text.lower()):
        raise HashError("ALREADY_HASHED")
    if not _IPV4.fullmatch(text):
        text = _mapped(text)
    return _sha256(text)


def _mapped(text: str) -> str:
    bare, percent, zone = text.partition("%")
    last = bare.rpartition(":")[2]
    if (percent and not zone) or ("." in last and not _IPV4.fullmatch(last)):
        raise HashError("NOT_IPV4")
    try:
        inside = ipaddress.IPv6Address(bare).ipv4_mapped
    except ValueError:
        inside = None
    if inside is None:
        raise HashError("NOT_IPV4") from None
    return str(inside)


def _lower(text: str) -> str:
    """Maps each letter to one letter, so that no letter depends on its neighbours."""
    return "".join(letter.lower()[0] for letter in text)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
