"""Measurements behind ``newsstudio-ditto bench``: every figure beside the reference's way, in one run."""
