"""Error raised for invalid preprocessing."""

from matloom.errors import UserError


class RawDataError(UserError):
    """Error raised for an invalid definition of preprocessing, or raw data that does not fit it."""

    hint = "docs/preprocessing.md lists the fields of each kind and their values"
