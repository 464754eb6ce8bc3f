# The values of domain.py as compile-time constants; agreement.py compares the two when the engine is imported.

cdef enum:
    BUY = 1
    SELL = 2

    LIMIT = 1
    MARKET = 2
    IOC = 3
    POST_ONLY = 4
    FOK = 5

    NEW_ORDER = 1
    CANCEL = 2
    REPLACE = 3
    MASS_CANCEL = 4
    SESSION_OPEN = 5
    SESSION_END = 6
    INSTRUMENT_DEFINE = 7
    HALT = 8
    RESUME = 9
    SNAPSHOT_MARK = 10
    FIRST_READ = 128                # kinds from here are not logged and never reach execute()

    BY_ORDER_ID = 1
    CANCEL_ORDERS = 2
    SPACE_IS_LOW = 4

    ACCEPTED = 1
    TRADE = 2
    DONE = 3
    REPLACED = 4
    HEAD = 16

    OPERATOR = 1

    FILLED = 1
    CANCELLED = 2
    EXPIRED = 3
    NO_LIQUIDITY = 4
    OPERATOR_CANCELLED = 5
    SESSION_ENDED = 6
    REPLACED_TO_FILLED = 7
    ZERO_QUANTITY = 32
    DUPLICATE_ORDER_ID = 33
    POST_ONLY_WOULD_CROSS = 34
    FOK_CANNOT_FILL = 35
    UNKNOWN_ORDER = 36
    UNKNOWN_INSTRUMENT = 37
    UNKNOWN_SESSION = 38
    QUANTITY_OVERFLOW = 39
    OUT_OF_MEMORY = 40
    BAD_COMMAND = 41
    DUPLICATE_INSTRUMENT = 42
    DUPLICATE_SESSION = 43
    LOW_SPACE = 44
    HALTED = 45
    ALREADY_HALTED = 46
    NOT_HALTED = 47
    NOTHING_TO_CANCEL = 48
