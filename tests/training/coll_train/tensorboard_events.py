# SPDX-License-Identifier: Apache-2.0
# Reads TensorBoard's files from their format alone (TensorFlow's record_writer.cc and event.proto):
# what is not exactly that is a ValueError.
import struct


def crc32c(data):
    """Bit by bit, from the polynomial."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def take(data, size):
    if len(data) < size:
        raise ValueError(f"{size} bytes are missing: the file ends after {len(data)}")
    return data[:size], data[size:]


def checked(data, size):
    """Data, and the masked CRC behind it."""
    body, data = take(data, size)
    crc, data = take(data, 4)
    if struct.unpack("<I", crc)[0] != masked(crc32c(body)):
        raise ValueError(f"the CRC of {body!r} is wrong")
    return body, data


def records(data):
    while data:
        length, data = checked(data, 8)
        body, data = checked(data, struct.unpack("<Q", length)[0])
        yield body


def varint(data):
    value = 0
    for place in range(10):
        byte, data = take(data, 1)
        value |= (byte[0] & 127) << 7 * place
        if byte[0] < 128:
            return value, data
    raise ValueError("a varint has no end")


def fields(data):
    """(number, value) of a protobuf message: bytes, but a number where it is a varint."""
    while data:
        key, data = varint(data)
        number, encoding = key >> 3, key & 7
        if encoding == 0:
            value, data = varint(data)
        elif encoding == 2:
            size, data = varint(data)
            value, data = take(data, size)
        elif encoding in (1, 5):
            value, data = take(data, 8 if encoding == 1 else 4)
        else:
            raise ValueError(f"there is no encoding {encoding}")
        yield number, value


def scalars(summary):
    found = {}
    for number, value in fields(summary):
        scalar = dict(fields(value))
        if number != 1 or set(scalar) != {1, 2}:
            raise ValueError(f"a summary has {number}: {scalar}")
        tag = scalar[1].decode()
        if tag in found:
            raise ValueError(f"{tag} is there twice")
        found[tag] = struct.unpack("<f", scalar[2])[0]
    return found


def events(path):
    """Events of a file behind the first, which names the format: each a dictionary of wall_time,
    step, and either scalars or session (its status)."""
    with open(path, "rb") as file:
        first, *rest = (dict(fields(record)) for record in records(file.read()))
    if set(first) != {1, 3} or first[3] != b"brain.Event:2":
        raise ValueError(f"the file begins with {first}")
    found = []
    for event in rest:
        if set(event) not in ({1, 2, 5}, {1, 2, 7}):
            raise ValueError(f"an event has {event}")
        kind = ({"scalars": scalars(event[5])} if 5 in event
                else {"session": dict(fields(event[7]))[1]})
        found.append({"wall_time": struct.unpack("<d", event[1])[0], "step": event[2], **kind})
    return found
