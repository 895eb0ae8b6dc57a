"""Classes of protobuf for messages that are written down as a table: no compiler, and no TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def message_classes(messages: Mapping[str, Mapping[str, tuple[int, str]]], syntax: str = "proto2") -> dict[str, Any]:
    """Return protobuf's class for each message of a table; fields that it does not name are kept as they are.

    Parameters
    ----------
    messages : mapping of str to mapping
        For each message its fields by name: number and type, which is ``int64``, ``bytes``, ``string`` or another
        message of the table, with a ``*`` behind it for one that comes many times.
    syntax : {"proto2", "proto3"}
        In the second, a 0 is as good as absent, many numbers are packed, and a string is UTF-8.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="table.proto", syntax=syntax)
    kinds = descriptor_pb2.FieldDescriptorProto
    plain = {"int64": kinds.TYPE_INT64, "bytes": kinds.TYPE_BYTES, "string": kinds.TYPE_STRING}
    for message, fields in messages.items():
        described = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            one, label = kind.rstrip("*"), kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            field = described.field.add(name=name, number=number, label=label, type=plain.get(one, kinds.TYPE_MESSAGE))
            if one in messages:
                field.type_name = one
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in messages}
