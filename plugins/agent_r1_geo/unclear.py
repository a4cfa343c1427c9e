"""What `geo` neither says nor asks, since sources disagree or GeoNames's file is behind; codes of ISO 3166."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FORMER = _words("AN CS")
"""Countries that GeoNames still lists and that are no more."""

NO_STATES = _words(
    "AI AQ AS AW AX BL BM BQ BV CC CK CW CX EH FK FO GF GG GI GL GP GS GU HK HM IM IO JE KY MF MO MP MQ MS NC NF NU "
    "PF PM PN PR PS RE SH SJ SX TC TF TK TW UM VG VI WF XK YT"
)
"""Territories of other states, and those that many states do not recognise."""

AMBIGUOUS_ALIASES = _words("Congo")
"""Names by pycountry that another country has as well."""

UNCLEAR: dict[str, frozenset[str]] = {
    "capital": _words("BI BJ BO CI GQ IL KI LK ME MY NR PW SZ TZ YE ZA"),
    "continent": _words("AM AZ CY EG GE ID KZ RU TL TR"),
    "currency": _words("BG CU SL SV ZW"),
    "neighbours": _words("CA CU DK GB IL MA US"),
}
"""Countries whose fact is left out. Capital: several, moved, or the seat of government is elsewhere. Continent: on two,
or counted to either. Currency: new, or not the only one. Neighbours: a border that is disputed, new or of a base."""

DISPUTED_CITIES = _words(
    "Donetsk Hargeysa Horlivka Jammu Jerusalem Kerch Kherson Luhansk Makiyivka Mariupol Melitopol Sebastopol "
    "Sevastopol Simferopol Sokhumi Srinagar Tiraspol Yevpatoriya"
)
"""Cities that more than one state claims or holds."""

WITH_ARTICLE = (
    r"(The |United |Democratic |Republic |Central African |Dominican |Vatican)|"
    r".*(Islands|Bahamas|Comoros|Gambia|Maldives|Philippines|Seychelles)$"
)
"""Countries that English names with `the`."""
