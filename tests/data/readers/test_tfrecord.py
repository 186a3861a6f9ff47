"""TFRecord: checksums against the bitwise definition, framing and wire format written by hand, every byte flipped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calm_pde.data.readers.tfrecord import Record, crc32c, features, masked, records
from calm_pde.errors import FileError
from tests.data.readers.files import bitwise_crc32c, delimited, example, framed, random


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"123456789", 0xE3069283),  # the check value of the catalog
        (bytes(32), 0x8A9136AA),  # and those of RFC 3720
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"", 0),
    ],
)
def test_published_checksums(data, crc):
    assert crc32c(data) == crc


@given(st.binary(max_size=80))
def test_checksum_of_short_messages(data):
    assert crc32c(data) == bitwise_crc32c(data)


@pytest.mark.parametrize("length", [1019, 1020, 1021, 65536, 131067, 131068, 131073, 200_001])
def test_checksum_where_the_number_of_lanes_changes(length):
    data = random(length, length // 4 + 1).tobytes()[:length]
    assert crc32c(memoryview(data)) == bitwise_crc32c(data)


def test_mask():
    assert masked(0) == 0xA282EAD8
    assert masked(0x8A9136AA) == ((0x8A9136AA >> 15 | (0x8A9136AA << 17) & 0xFFFFFFFF) + 0xA282EAD8) % 2**32


PAYLOADS = [example({"a": b"first", "b": b""}), example({"a": bytes(300), "long name": b"x" * 200}), example({})]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "some.tfrecord"
    path.write_bytes(b"".join(framed(payload) for payload in PAYLOADS))
    return path


def everything(path, verify=True):
    with path.open("rb") as file:
        return [features(path, file, record, verify) for record in records(path)]


def test_records_are_found_and_read(path):
    assert everything(path) == [{"a": b"first", "b": b""}, {"a": bytes(300), "long name": b"x" * 200}, {}]
    starts = [0, len(PAYLOADS[0]) + 16]
    assert records(path)[:2] == [Record(i, starts[i] + 12, len(PAYLOADS[i])) for i in range(2)]


def test_counting_reads_no_payload(path):
    whole = bytearray(path.read_bytes())
    whole[12 : 12 + len(PAYLOADS[0])] = bytes(len(PAYLOADS[0]))
    path.write_bytes(whole)
    assert len(records(path)) == 3


def test_every_flipped_byte_is_noticed_and_its_record_named(path):
    whole = path.read_bytes()
    ends = [sum(len(payload) + 16 for payload in PAYLOADS[: i + 1]) for i in range(3)]
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        number = next(i for i, end in enumerate(ends) if place < end)
        with pytest.raises(FileError, match=rf"some\.tfrecord, record {number}: .*checksum"):
            everything(path)


def test_every_truncation_within_a_record_is_noticed(path):
    whole = path.read_bytes()
    ends = [0, *(sum(len(payload) + 16 for payload in PAYLOADS[: i + 1]) for i in range(3))]
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        if length and length in ends:  # a whole number of records is a file of its own right
            assert len(everything(path)) == ends.index(length)
        else:
            with pytest.raises(FileError, match=r"some\.tfrecord"):
                everything(path)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (delimited(1, b"\x0a\xff"), "runs beyond its message"),
        (b"\x0a" + b"\xff" * 11, "more than ten bytes"),
        (b"\x0b", "wire type 3"),
        (delimited(1, delimited(1, delimited(1, b"\xff\xfe") + delimited(2, b""))), "codec"),
        (b"\x80", "runs beyond its message"),
    ],
)
def test_a_payload_that_is_no_example(path, payload, problem):
    path.write_bytes(framed(payload))
    with pytest.raises(FileError, match=rf"some\.tfrecord, record 0: .*{problem}"):
        everything(path)


def test_other_fields_are_passed_over(path):
    feature = delimited(2, b"\x08\x01" + delimited(1, delimited(1, b"one") + delimited(1, b"two")))
    entry = b"\x19" + bytes(8) + delimited(1, b"name") + b"\x25" + bytes(4) + feature
    path.write_bytes(framed(b"\x10\x85\x01" + delimited(1, delimited(1, entry)) + delimited(7, b"later")))
    assert everything(path) == [{"name": b"onetwo"}]


def test_without_verification_a_damaged_payload_passes(path):
    whole = bytearray(path.read_bytes())
    whole[path.read_bytes().index(b"first")] = ord("F")
    path.write_bytes(whole)
    assert everything(path, verify=False)[0]["a"] == b"First"
