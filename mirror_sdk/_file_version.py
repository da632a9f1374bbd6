"""The format version in each kind of file of the SDK: a file of another version is rejected with one message."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from mirror_sdk._protocol.operation_base import first_fault


class _Versioned(BaseModel):
    version: int | None = None


def file_fault(content: bytes, fault: ValidationError, version: int) -> str:
    """Return why a file was rejected: because of its format version, or because of its first invalid member.

    The version takes precedence, because files of other versions have other members.

    Args:
        content: The JSON of the file.
        fault: The errors found in it.
        version: The supported format version.
    """
    try:
        found = _Versioned.model_validate_json(content).version
    except ValidationError:
        return first_fault(fault)
    if found == version:
        return first_fault(fault)
    has = "no format version" if found is None else f"format version {found}"
    return f"the file has {has}, and this version of mirror_sdk reads format version {version}"
