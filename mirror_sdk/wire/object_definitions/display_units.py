"""The notation of units for people. Data and the wire have the codes: ``Cel``, ``m/s2``, ``Ohm``.

The table is our own. Libraries that read UCUM, such as ucumvert, need a parser and pint, and do not know the codes that
only SenML has: ``%RH``, ``lat``, ``/100``, ``count``.

Source: the IANA registry of SenML units (https://www.iana.org/assignments/senml; RFC 8428 section 12.1, RFC 8798), the
units of the OMA LwM2M registry (https://github.com/OpenMobileAlliance/lwm2m-registry), and ``[degF]`` of UCUM. The
notation is that of the SI brochure, 9th edition.
"""

from __future__ import annotations

from collections.abc import Mapping

DISPLAY_UNITS: Mapping[str, str] = {
    "Cel": "°C",
    "[degF]": "°F",
    "deg": "°",
    "lat": "° lat",
    "lon": "° lon",
    "Ohm": "Ω",
    "m2": "m²",
    "m3": "m³",
    "m/s2": "m/s²",
    "m3/s": "m³/s",
    "W/m2": "W/m²",
    "cd/m2": "cd/m²",
    "kg/m3": "kg/m³",
    "ug/m3": "µg/m³",
    # A small letter l is easily read as the digit 1.
    "l": "L",
    "l/s": "L/s",
    "g/l": "g/L",
    "mg/l": "mg/L",
    "ug/l": "µg/L",
    # Without the dot, "vars" reads like the plural of "var".
    "VAs": "VA·s",
    "vars": "var·s",
    "Ws": "W·s",
    "Bspl": "B SPL",
    "beat/min": "bpm",
    "%RH": "% RH",
    "%EL": "%",
    "/100": "%",
    "/1000": "‰",
    "EL": "s",
    # Pure numbers.
    "/": "",
    "count": "",
}
"""The notation of each code that people write differently; empty for pure numbers. People write other codes as is."""


def display_unit(code: str) -> str:
    """Return a unit as people write it. An unknown code, and a unit that is in this form already, is unchanged.

    >>> [display_unit(code) for code in ("Cel", "m/s2", "1/min", "furlong")]
    ['°C', 'm/s²', '1/min', 'furlong']
    """
    return DISPLAY_UNITS.get(code, code)
