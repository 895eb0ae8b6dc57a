"""Circuits in Amaranth, one unit a file; `labextras.offload.hardware` simulates, places and draws them.

Values travel in streams: a unit gives ``payload`` and ``valid``, the one behind it gives ``ready``, and a value moves
in every cycle in which both are 1. ``input`` and ``output`` are a unit's streams; a unit that holds others has them as
attributes, so that whoever simulates it finds their streams.
"""
