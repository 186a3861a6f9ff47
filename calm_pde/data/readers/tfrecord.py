"""TFRecord files: the framing with its checksums, and the protobuf message inside, with numpy alone."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from calm_pde.data.readers.base import DOWNLOAD_AGAIN, damage_named, existing_file, looks_like
from calm_pde.errors import FileError

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reflected
_ALL_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
_LANES = (1 << 14, 1 << 7)  # 64 KiB of states stay near the core; then few enough for a plain loop
_HEAD, _TAIL = 12, 4  # bytes before and after a payload
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Record(NamedTuple):
    """Where the payload of one record stands in its file."""

    number: int
    start: int
    length: int


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C of the bytes, vectorized: with A the step over four zero bytes and w the words, crc = ¬A Σᵢ Aⁿ⁻¹⁻ⁱ wᵢ over GF(2).

    Zeros put before a message change no sum, so it is padded to whole rows; a row at a time is folded into as many states.
    """
    message = len(data) + 4  # one word before it takes the place of the initial state
    words = np.zeros(-(-message // 4), dtype="<u4")
    for lanes in _LANES:
        if len(words) >= 2 * lanes:
            words = np.zeros(-(-len(words) // lanes) * lanes, dtype="<u4")
            break
    octets = words.view(np.uint8)
    octets[len(octets) - len(data) :] = np.frombuffer(data, dtype=np.uint8)
    octets[len(octets) - message : len(octets) - len(data)] = np.frombuffer(struct.pack("<I", _word_before()), dtype=np.uint8)
    for lanes in _LANES:
        if len(words) >= 2 * lanes:
            words = _folded(words.reshape(-1, lanes))
    low, high = _step_tables(1)
    state = 0
    for word in words.tolist():
        state = int(low[state & 0xFFFF]) ^ int(high[state >> 16]) ^ word
    return int(low[state & 0xFFFF]) ^ int(high[state >> 16]) ^ _ALL_ONES


def _folded(rows: np.ndarray) -> np.ndarray:
    """Σᵣ Aˡ⁽ᴿ⁻¹⁻ʳ⁾ wᵣ of the R rows of l words."""
    low, high = _step_tables(rows.shape[1])
    state = rows[0].copy()
    halves = state.view("<u2").reshape(-1, 2)
    for row in rows[1:]:
        np.bitwise_xor(low[halves[:, 0]], high[halves[:, 1]], out=state)
        np.bitwise_xor(state, row, out=state)
    return state


@cache
def _step_tables(words: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the step over that many zero words takes the low and the high half of a state."""
    images = [(1 << bit) >> 1 if bit else _POLYNOMIAL for bit in range(32)]  # one zero bit
    bits = 1
    while bits < 32 * words:
        images = [_image(images, image) for image in images]
        bits *= 2
    tables = np.zeros((2, 1 << 16), dtype="<u4")
    for bit in range(16):
        for half in range(2):
            tables[half, 1 << bit : 2 << bit] = tables[half, : 1 << bit] ^ np.uint32(images[16 * half + bit])
    return tables[0], tables[1]


def _image(images: list[int], state: int) -> int:
    result = 0
    for bit in range(32):
        if state >> bit & 1:
            result ^= images[bit]
    return result


@cache
def _word_before() -> int:
    """The word that takes the state from zero to all ones, where a CRC starts: 32 bit steps backward."""
    state = _ALL_ONES
    for _ in range(32):
        state = ((state ^ _POLYNOMIAL) << 1 | 1) & _ALL_ONES if state >> 31 else state << 1
    return state


def masked(crc: int) -> int:
    """rotate(crc, 15 bits right) + 0xA282EAD8, modulo 2³²."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL_ONES


def records(path: Path) -> list[Record]:
    """Where every record stands: hops from length to length, payloads unread, lengths checked against their checksums."""
    existing_file(path)
    found: list[Record] = []
    with damage_named(path), path.open("rb") as file:
        size, start = path.stat().st_size, 0
        while start < size:
            file.seek(start)
            head = file.read(_HEAD)
            part = f"record {len(found)}"
            if len(head) < _HEAD:
                raise FileError(path, f"ends within the length, at byte {size}", part=part, fix=DOWNLOAD_AGAIN)
            length, crc = struct.unpack("<QI", head)
            if masked(crc32c(head[:8])) != crc:
                kind = "" if found else f": the file is {looks_like(path)}, or damaged"
                raise FileError(path, f"the checksum of its length does not fit{kind}", part=part, fix=DOWNLOAD_AGAIN)
            end = start + _HEAD + length + _TAIL
            if end > size:
                raise FileError(path, f"needs bytes up to {end}, but the file ends at {size}", part=part, fix=DOWNLOAD_AGAIN)
            found.append(Record(len(found), start + _HEAD, length))
            start = end
    if not found:
        raise FileError(path, "is empty, expected at least one record", fix=DOWNLOAD_AGAIN)
    return found


def features(path: Path, file: BinaryIO, record: Record, verify: bool = True) -> dict[str, bytes]:
    """The named byte strings of the `tf.train.Example` in a record, after its checksum was verified."""
    part = f"record {record.number}"
    with damage_named(path, part):
        file.seek(record.start)
        framed = memoryview(file.read(record.length + _TAIL))
        if len(framed) < record.length + _TAIL:
            raise FileError(path, "the file ends within it", part=part, fix=DOWNLOAD_AGAIN)
        payload = framed[: record.length]
        if verify and masked(crc32c(payload)) != int.from_bytes(framed[record.length :], "little"):
            raise FileError(path, "the checksum of its payload does not fit: it is damaged", part=part, fix=DOWNLOAD_AGAIN)
        return dict(_example(payload))


def _example(payload: memoryview) -> Iterator[tuple[str, bytes]]:
    """Example.features = 1, Features.feature = 1 (a map: key = 1, value = 2), Feature.bytes_list = 1, BytesList.value = 1."""
    for entries in _submessages(payload, 1):
        for entry in _submessages(entries, 1):
            name = b"".join(_submessages(entry, 1)).decode()
            lists = [values for feature in _submessages(entry, 2) for values in _submessages(feature, 1)]
            yield name, b"".join(value for values in lists for value in _submessages(values, 1))


def _submessages(message: memoryview, wanted: int) -> Iterator[memoryview]:
    """The length-delimited fields of one number; others are passed over, as the wire format asks."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, wire = key >> 3, key & 7
        length = 0
        if wire == _VARINT:
            _, place = _varint(message, place)
        elif wire == _BYTES:
            length, place = _varint(message, place)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"the protobuf wire type {wire} at byte {place} does not exist")
        if place + length > len(message):
            raise ValueError(f"a protobuf field at byte {place} runs beyond its message")
        if wire == _BYTES and number == wanted:
            yield message[place : place + length]
        place += length


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """The number at a place, seven bits a byte from the lowest on, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError("a protobuf number runs beyond its message")
        octet = message[place]
        place += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value, place
    raise ValueError("a protobuf number has more than ten bytes")
