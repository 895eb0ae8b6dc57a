"""faulty_brighten: `brighten` with a fault that only a consumer that rests brings to light. An exercise; do not use it.

Formula    as brighten, for the bytes that arrive

port       as brighten

Cycles     interval 1, latency 1, as long as the consumer takes a byte in every cycle.
Limit      as brighten.
"""

from .brighten import Brighten


class FaultyBrighten(Brighten):
    """Adds `delta` and clips, and says that it is ready when it is not."""

    def elaborate(self, platform):
        """Return the circuit."""
        m = super().elaborate(platform)
        m.d.comb += self.input.ready.eq(1)  # the fault: while the register is full, what comes in is lost
        return m
