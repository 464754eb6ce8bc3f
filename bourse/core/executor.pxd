# C face of executor.py: what executes commands. Fields are declared here only.

from libc.stdint cimport uint32_t, uint64_t

from bourse.core.books cimport Books
from bourse.core.matching cimport Taker
from bourse.core.records cimport Command, EventWindow

# What is left to do of the command being executed; only seen from outside when the window was too small.
cdef enum:
    PHASE_IDLE = 0
    PHASE_HEAD = 1                  # nothing written yet
    PHASE_REJECTED = 2              # NEW_ORDER: the Done that says why
    PHASE_ACCEPTED = 3
    PHASE_MATCH = 4
    PHASE_CANCEL = 5                # the one order in `target`
    PHASE_CANCEL_SESSION = 6        # all orders of the session in `target`
    PHASE_REPLACE = 7               # the order in `target`: what it was is still in the book
    PHASE_MASS_CANCEL = 8           # at most `taker.open_lots` more orders of the session in `target`


cdef class Executor:
    cdef Books books

    # The command being executed.
    cdef Taker taker                # a new order or a replaced one
    cdef uint32_t phase
    cdef uint32_t reason
    cdef uint32_t target            # order or session to cancel; session of a new order
    cdef uint32_t tag               # of a new order's key in by_client
    cdef uint64_t head_order_id
    cdef Command command            # a copy, made only when the window was too small

    # Execute one logged command (kind < 128). True: finished. False: the window is full; call resume() with more
    # room until it says True. The window needs at least one free slot for progress.
    cdef bint execute(self, const Command *command, EventWindow *window) noexcept nogil
    cdef bint resume(self, EventWindow *window) noexcept nogil


ctypedef const Command *CommandPtr
