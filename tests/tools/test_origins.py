"""The allow-list compares URLs as text, in the one form that all parsers read alike."""

from __future__ import annotations

import pytest

from forge_proxy.tools.origins import check_entry, check_url, is_listed
from tests.folding import folded

ALLOWED = tuple(
    map(
        check_entry,
        ("https://tools.example.com", "http://127.0.0.1:9000/", "HTTPS://*.Corp.example", "http://[::1]:80"),
    )
)


@pytest.mark.parametrize(
    "url",
    [
        "https://tools.example.com",
        "https://tools.example.com/weather?units=metric",
        "HTTPS://Tools.Example.com:443/weather",
        "http://127.0.0.1:9000/x",
        "https://a.corp.example/",
        "https://b-1.corp.example:443/",
        "http://[::1]/x",
    ],
)
def test_a_url_of_a_listed_origin_is_listed(url: str) -> None:
    assert is_listed(url, ALLOWED)


@pytest.mark.parametrize(
    "url",
    [
        "http://tools.example.com",
        "https://tools.example.com:8443/",
        "https://tools.example.com.evil.example/",
        "https://eviltools.example.com/",
        "http://127.0.0.1/",
        "http://127.0.0.1:9001/",
        "http://localhost:9000/",
        "https://corp.example/",
        "https://a.b.corp.example/",
        "https://acorp.example/",
        "http://a.corp.example/",
    ],
)
def test_a_url_of_another_origin_is_not_listed(url: str) -> None:
    assert not is_listed(url, ALLOWED)


@folded
@pytest.mark.parametrize(
    "url",
    [
        "",
        "tools.example.com",
        "ftp://tools.example.com/",
        "file:///etc/passwd",
        "https://user@tools.example.com/",
        "https://tools.example.com@evil.example/",
        "https://evil.example\\@tools.example.com/",
        "https://tools.example.com\\.evil.example/",
        "https://tools.example.com/#fragment",
        "https://tools.example.com#@evil.example/",
        "https://tools.example.com./",
        "https://tools.example.com:/",
        "https://tools.example.com:0/",
        "https://tools.example.com:99999/",
        "https://tools.example.com:\u0664\u0664\u0663/",
        "https://tool\u017f.example.com/",
        "https://tools.example.com/\u00e4",
        "https://tools.example.com/a b",
        " https://tools.example.com/",
        "https://tools.example.com/\n",
        "https:tools.example.com/",
        "https:///tools.example.com/",
        "https://*.corp.example/",
        "https://tools%2eexample.com/",
        "http://2130706433/",
        "http://127.1/",
        "http://127.0.0.01/",
        "http://0177.0.0.1/",
        "http://0x7f000001/",
        "http://a.0x7f/",
        "http://tools.example.127/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[fe80::1%25eth0]/",
        "http://[:::]/",
        "http://224.0.0.1/",
    ],
)
def test_an_ambiguous_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected a URL such as https://"):
        check_url(url)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("*", "expected an origin such as"),
        ("tools.example.com", "expected an origin such as"),
        ("https://*", "expected an origin such as"),
        ("https://tools.*.com", "expected an origin such as"),
        ("https://tools.example.com/weather", "expected an origin such as"),
        ("https://key@tools.example.com", "expected an origin such as"),
        ("https://*.com", "is too wide"),
        ("http://2130706433:9000", "expected an origin such as"),
        ("http://0.0.0.0:9000", "expected an origin such as"),
    ],
)
def test_an_invalid_entry_is_refused(entry: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_entry(entry)
