"""The one check of numeric options."""

from newsstudio_ditto.errors import UsageError


def require_range(name: str, value: float, low: float, high: float) -> None:
    """Raise :class:`UsageError` with the range unless ``low <= value <= high`` (NaN never passes)."""
    if not low <= value <= high:
        raise UsageError(f"{name} is {value}", f"give a value from {low:g} to {high:g}")
