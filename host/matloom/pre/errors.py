"""Error of invalid preprocessing."""

from matloom.errors import UserError


class RawDataError(UserError):
    """Error of a definition of preprocessing, or of raw data that does not fit it."""

    hint = "docs/preprocessing.md lists the fields of each kind and their values"
