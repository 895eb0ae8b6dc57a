"""What the tests share that read and write through a card."""

from __future__ import annotations

import cards
import pytest


@pytest.fixture(scope="module")
def folder():
    """A short place for the sockets of a file's cards."""
    from labextras import card

    with cards.own_folder() as place:
        card.register()
        yield place
