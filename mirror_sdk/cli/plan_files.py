"""CSV files of planned writes, with the columns device, path and value."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirror_sdk._formatting import visible_line, with_formula, without_formula
from mirror_sdk.cli.output_files import replacing
from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import lookup
from mirror_sdk.values import InstanceValues, PythonValue, encode, written

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("device", "path", "value")
_EXCERPT_LENGTH = 80


def read_planned(file: Path) -> pd.DataFrame:
    """Read the planned writes from a file.

    Each value remains a string, which the plan parses or rejects.

    Raises:
        BadParameter: The file is not a CSV file in UTF-8 with these columns.
    """
    try:
        return _read(file)
    except UnicodeDecodeError as error:
        has_mark = error.object[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}
        encoding = "UTF-16" if has_mark else "WINDOWS-1252"
        raise _wrong(
            f"{file.name} is not a CSV file in UTF-8: byte 0x{error.object[error.start]:02x} is not valid;"
            f" save it as 'CSV UTF-8' in the spreadsheet, or convert a file from Windows with 'iconv -f {encoding} -t"
            " UTF-8 FILE'"
        ) from error
    except csv.Error as error:
        raise _wrong(f"{file.name} is not a CSV file in UTF-8: {error}; save it as 'CSV UTF-8'") from error


def _read(file: Path) -> pd.DataFrame:
    import pandas as pd

    with file.open(newline="", encoding="utf-8-sig") as lines:
        heading = lines.readline()
        rows = csv.DictReader(chain([heading], lines), delimiter=delimiter_of(heading))
        missing = {*_COLUMNS} - set(rows.fieldnames or [])
        if missing:
            excerpt = visible_line(", ".join(rows.fieldnames or []))[:_EXCERPT_LENGTH]
            found = f"its columns are {excerpt}" if excerpt else "the file is empty"
            raise _wrong(f"{file.name} has no column {' or '.join(sorted(missing))}; {found}")
        planned: dict[int, tuple[str, ...]] = {}
        for row in rows:
            cells = [row[name] for name in _COLUMNS]
            if None in cells:
                raise _wrong(f"line {rows.line_num} of {file.name} is too short; it needs {', '.join(_COLUMNS)}")
            # A decimal comma may have split a number, so that only its first part is the value.
            if any(row.get(None) or ()):
                raise _wrong(
                    f"line {rows.line_num} of {file.name} has more cells than the first line; write a number with a"
                    " point, like 21.5, and put a string with a comma into quotes"
                )
            # Spreadsheets leave empty rows after the last one.
            if any(cells):
                planned[rows.line_num] = tuple(map(with_formula, cells))
    index = pd.Index(list(planned), name="line")
    return pd.DataFrame(list(planned.values()), index=index, columns=["device_id", "path", "value"], dtype=object)


def delimiter_of(heading: str) -> str:
    """Return the delimiter of a heading.

    Spreadsheets write semicolons if numbers have a decimal comma.
    """
    return max(",;\t", key=lambda mark: len({*_COLUMNS}.intersection(*csv.reader([heading], delimiter=mark))))


def write_planned(values: Iterable[tuple[str, str, PythonValue | InstanceValues]], file: Path) -> None:
    """Write device, path and value as rows that a plan parses to the same values.

    Values that cannot be written in this way are reported.
    """
    rows = []
    for device, path, value in values:
        try:
            payload, _ = encode(value, path)
            # A value of an undeclared resource is sent as the text it is.
            text = written(value) if lookup(path) else payload.decode()
        except (InvalidValue, UnicodeDecodeError) as error:
            click.echo(f"{path} of {device} is left out of {file}: {error}", err=True)
        else:
            rows.append([without_formula(cell) for cell in (device, path, text)])
    with replacing(file) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as lines:
        csv.writer(lines).writerows([_COLUMNS, *rows])


def _wrong(message: str) -> click.BadParameter:
    return click.BadParameter(message, param_hint="FILE")
