"""Protocol version 1 on the wire: the byte table. Nothing else knows an offset.

All integers are little-endian, without padding. A frame is

    offset  size  field
    0       4     length    bytes that follow this field (u32)
    4       1     version   1
    5       1     type
    6       ...   payload   length - 2 bytes, fixed by the type

Client to server:

    type  message    payload (offset in the frame)                                     frame bytes
    0x01  NewOrder   id u64 (6), side u8 (14), qty u64 (15), kind u8 (23), price i64 (24),
                     timestamp i64 (32)                                                       40
          of Market  the same without the price: timestamp i64 (24)                           32
    0x02  Cancel     id u64 (6)                                                               14

    side: 1 buy, 2 sell. kind: 1 Limit, 2 Market, 3 IOC, 4 PostOnly, 5 FOK.

Server to client, type 0x10 Execution:

    exec u8 (6)
    1     Accepted   id u64 (7), qty u64 (15), seq u64 (23)                                   31
    2     Trade      taker u64 (7), maker u64 (15), price i64 (23), qty u64 (31), seq u64 (39) 47
    3     Done       id u64 (7), leaves_qty u64 (15), reason u8 (23), seq u64 (24)            32

    reason: 1 Filled, 2 Cancelled, 3 Expired, 4 NoLiquidity, 5 Rejected.

The whole protocol, with the order of events and what the predecessor did otherwise:
docs/protocol.md.
"""

VERSION = 1

TYPE_NEW_ORDER = 0x01
TYPE_CANCEL = 0x02
TYPE_EXECUTION = 0x10

EXEC_ACCEPTED = 1
EXEC_TRADE = 2
EXEC_DONE = 3

REASON_FILLED = 1
REASON_CANCELLED = 2
REASON_EXPIRED = 3
REASON_NO_LIQUIDITY = 4
REASON_REJECTED = 5

LENGTH_BYTES = 4
NEW_ORDER_BYTES = 40
NEW_MARKET_ORDER_BYTES = 32
CANCEL_BYTES = 14
ACCEPTED_BYTES = 31
TRADE_BYTES = 47
DONE_BYTES = 32

REQUEST_BYTES_MAX = NEW_ORDER_BYTES
EVENT_BYTES_MAX = TRADE_BYTES

assert max(NEW_ORDER_BYTES, NEW_MARKET_ORDER_BYTES, CANCEL_BYTES) == REQUEST_BYTES_MAX
assert max(ACCEPTED_BYTES, TRADE_BYTES, DONE_BYTES) == EVENT_BYTES_MAX
