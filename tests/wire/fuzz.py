"""Fuzz the AMQP 0-9-1 codec: whatever comes in ends in a value or a declared error.

    PYTHONPATH=src python -m tests.wire.fuzz [--inputs 1000000] [--seed 1]

Half of the inputs are valid frames, tables, properties and SASL responses with a few bytes
changed, cut, doubled or inserted; the other half is noise, of which some has a valid start. Prints
how many inputs were refused with which code, and how much memory the run has gained. Any other
exception, or more than 1 MiB gained for each million inputs, ends it with an error and the seed.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections import Counter
from pathlib import Path

from warren.limits import INITIAL_FRAME_BYTES_MAX
from warren.message.amqp091.edits import with_headers
from warren.message.amqp091.scan import validate_properties
from warren.wire import sasl
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ChannelException, ConnectionException
from warren.wire.amqp091.frame import FRAME_HEADER, FRAME_METHOD, FrameReader, content_frames
from warren.wire.amqp091.frame import method_frame as build_method_frame
from warren.wire.amqp091.properties import Properties, decode_properties, parse_header
from warren.wire.amqp091.spec import decode_method
from warren.wire.amqp091.table import (
    Decimal,
    Float,
    SignedInt,
    Table,
    Timestamp,
    decode_table,
    encode_table,
    validate_table,
)

GROWTH_BYTES_MAX = 1 << 20
"""Memory that a million inputs may leave behind."""

TABLE: Table = {
    "x-max-length": SignedInt(7),
    "long": -1,
    "text": "text é",
    "bytes": b"\x00\xff",
    "when": Timestamp(1_700_000_000),
    "price": Decimal(2, 1999),
    "share": 0.25,
    "single": Float(0.5),
    "nothing": None,
    "yes": True,
    "x-death": [{"queue": "q", "count": 1, "routing-keys": ["a", "b"]}, [[[]]]],
}
PROPERTIES = Properties(
    content_type="text/plain",
    headers=TABLE,
    delivery_mode=2,
    priority=3,
    correlation_id="1",
    expiration="60000",
    timestamp=1_700_000_000,
    app_id="fuzz",
).encode()


def take_table(data: bytes) -> None:
    """A table's entries; the two functions that read them must agree."""
    valid = True
    try:
        validate_table(data, 0, len(data))
    except ConnectionException:
        valid = False
    try:
        table = decode_table(data, 0, len(data))
    except ConnectionException:
        assert not valid, "decode_table refuses what validate_table takes"
        raise
    assert valid, "decode_table takes what validate_table refuses"
    encode_table(table)


def take_properties(data: bytes) -> None:
    """Properties bytes, through every function that reads them."""
    validate_properties(data, 0, len(data))
    decode_properties(data, 0, len(data)).encode()
    with_headers(data, {"x-delivery-count": 1})


def take_stream(data: bytes) -> None:
    """A stream of frames, with what is in them."""
    reader = FrameReader(INITIAL_FRAME_BYTES_MAX)
    half = len(data) // 2
    for piece in (data[:half], data[half:]):
        reader.feed(piece)
        while reader.next():
            if reader.kind == FRAME_METHOD:
                decode_method(reader.buffer, reader.start, reader.end).encode()
            elif reader.kind == FRAME_HEADER:
                start = parse_header(reader.buffer, reader.start, reader.end)[1]
                take_properties(reader.buffer[start : reader.end])


def take_sasl(data: bytes) -> None:
    """A response of either mechanism."""
    if data.startswith(b"\x00"):
        sasl.decode_plain(data)
    else:
        sasl.decode_amqplain(data)


TAKERS = (take_table, take_properties, take_stream, take_sasl)


def valid_inputs() -> list[list[bytes]]:
    """For each taker, inputs that it accepts."""
    streams = [build_method_frame(1, method().encode()) for method in spec.METHODS]
    declare = spec.QueueDeclare(queue="q", durable=True, arguments=TABLE)
    streams.append(build_method_frame(1, declare.encode()))
    publish = spec.BasicPublish(exchange="e", routing_key="k", mandatory=True)
    streams.append(content_frames(1, publish, PROPERTIES, b"body" * 20, 32))
    streams.append(streams[0] + streams[-1] + streams[3])
    return [
        [encode_table(TABLE), encode_table({"a": [TABLE]}), b""],
        [PROPERTIES, b"\x00\x00", Properties(headers={}).encode()],
        streams,
        [sasl.encode_plain("guest", "guest"), sasl.encode_amqplain("guest", "guest")],
    ]


def mutate(source: random.Random, data: bytes) -> bytes:
    """`data` with one to four changes."""
    out = bytearray(data)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(out) + 1)
        change = source.randrange(6)
        if change == 0 and out:
            out[at % len(out)] ^= 1 << source.randrange(8)
        elif change == 1 and out:
            out[at % len(out)] = source.choice(b"\x00\x01\x7f\x80\xff\xceSFAtIlTxVDdfbBsui")
        elif change == 2:
            del out[at:]
        elif change == 3:
            del out[at : at + source.randint(1, 8)]
        elif change == 4:
            out[at:at] = source.randbytes(source.randint(1, 8))
        else:
            out[at:at] = out[at : at + source.randint(1, 40)]
    return bytes(out)


def resident_bytes() -> int:
    """This process's memory."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS in /proc/self/status")


def fuzz(inputs: int, seed: int) -> Counter[str]:
    """Feed this many inputs; gives how they ended.

    Raises:
        AssertionError: An input ended in any other way; the message has seed and input.
    """
    source = random.Random(seed)
    valid = valid_inputs()
    ends: Counter[str] = Counter()
    for _ in range(inputs):
        which = source.randrange(len(TAKERS))
        choice = source.randrange(4)
        if choice < 2:
            data = mutate(source, source.choice(valid[which]))
        elif choice == 2:
            start = source.choice(valid[which])
            data = start[: source.randint(0, 12)] + source.randbytes(source.randint(0, 60))
        else:
            data = source.randbytes(source.randint(0, 80))
        try:
            TAKERS[which](data)
            ends["accepted"] += 1
        except (ConnectionException, ChannelException) as error:
            ends[str(error.code)] += 1
        except Exception as error:
            place = f"seed {seed}, {TAKERS[which].__name__}({data!r})"
            raise AssertionError(f"{place}: {error!r}") from error
    return ends


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # The first inputs fill caches of the interpreter, once.
    fuzz(min(options.inputs, 50_000), options.seed)
    gc.collect()
    before = resident_bytes()
    started = time.monotonic()
    ends = fuzz(options.inputs, options.seed + 1)
    seconds = time.monotonic() - started
    gc.collect()
    growth = resident_bytes() - before
    print(f"{options.inputs} inputs in {seconds:.1f} s, codec {spec.__file__}")
    print(", ".join(f"{end} {count}" for end, count in sorted(ends.items())))
    print(f"memory gained: {growth} bytes")
    if growth > GROWTH_BYTES_MAX * max(1.0, options.inputs / 1_000_000):
        print(f"more than {GROWTH_BYTES_MAX} bytes a million inputs (seed {options.seed})")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
