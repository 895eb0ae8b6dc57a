"""labextras: one folder for each topic that goes beyond tf.data on one machine; ignore it until you need it.

An extra knows labkit, and no other extra (but the card, which preprocesses as `labextras.offload` does).
"""
