"""The check of the format version in the files of the SDK, with the same error message for all kinds of files."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from mirror_sdk._protocol.operation_base import first_fault


class _Versioned(BaseModel):
    version: int | None = None


def file_fault(content: bytes, fault: ValidationError, version: int) -> str:
    """Return the reason why a file was rejected: its format version or, if that is right, its first invalid member.

    The version is checked first, because a file of another version usually also has other members.

    Args:
        content: The file's content as JSON.
        fault: The validation errors of the file.
        version: The format version that this release supports.
    """
    try:
        found = _Versioned.model_validate_json(content).version
    except ValidationError:
        return first_fault(fault)
    if found == version:
        return first_fault(fault)
    has = "no format version" if found is None else f"format version {found}"
    return f"the file has {has}, and this version of mirror_sdk reads format version {version}"
