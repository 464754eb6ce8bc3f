# Named kill points for compiled callers: `passing(POINT)` is one load and one branch that is never taken.
#
# The names and what each place means: killpoint.py, in this order.

cdef enum KillPoint:
    NOWHERE
    FRAME_READ
    IN_RING
    RECORDED
    MATCHED
    BEFORE_WRITE
    AFTER_WRITE
    BEFORE_SYNC
    AFTER_SYNC_BEFORE_ACK
    MID_FAN_OUT
    AFTER_ACK
    SPARE_FILLED
    SPARE_RENAMED
    SPARE_NAMED
    SEGMENT_BEGUN


cdef int armed                      # number of the point that ends the process; NOWHERE: none does

cdef void count_down() noexcept nogil


cdef inline void passing(KillPoint point) noexcept nogil:
    if armed == <int> point:
        count_down()
