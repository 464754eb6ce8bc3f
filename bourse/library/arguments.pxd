# C face of arguments.py: what callers give, as C numbers.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

# Each raises TypeError or ValueError and names the argument.
cdef uint64_t unsigned(object value, object name, uint64_t most) except? 0xFFFFFFFFFFFFFFFF
cdef int64_t signed(object value, object name) except? -1
cdef uint8_t side_of(object value) except? 0

# Whether a Command of this kind may be executed: it is in domain.CommandKind, and is logged.
cdef bint is_command(uint8_t kind) noexcept nogil
