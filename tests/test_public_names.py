"""What `newsstudio_ditto.api` offers is what it says it offers."""

import inspect

from newsstudio_ditto import api


def test_all_names_exactly_what_the_module_defines_or_hands_on() -> None:
    handed_on = {"PacketBuild", "build_packet"}
    own = {
        name
        for name, value in vars(api).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == api.__name__
    }
    assert set(api.__all__) == own | handed_on
    assert list(api.__all__) == sorted(api.__all__)


def test_every_public_name_is_explained() -> None:
    assert all(inspect.getdoc(getattr(api, name)) for name in api.__all__)
