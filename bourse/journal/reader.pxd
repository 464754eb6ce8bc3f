# C face of reader.py: go through the items of a segment without the GIL.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from bourse.core.records cimport Command
from bourse.journal.format cimport RecordDigests


cdef enum Step:                     # what advance() found; reader.py has the same as Python integers
    STEP_RECORD = 1
    STEP_BATCH = 2
    STEP_MORE = 3
    STEP_END = 4
    STEP_ZEROS = 5
    STEP_BAD = 6
    STEP_WRONG = 7


cdef class Scanner:
    cdef readonly uint64_t offset_bytes     # of the next item in the file
    cdef readonly uint64_t next_wal_seq     # that the next record must have
    cdef readonly uint64_t record_count     # records accepted
    cdef readonly uint64_t batch_count      # batch headers accepted
    cdef readonly uint64_t durable_wal_seq  # mark of the last batch header
    cdef readonly uint64_t durable_bytes    # mark of the last batch header; the header block at first
    cdef readonly uint32_t chain_crc        # CRC of the last record
    cdef readonly uint32_t batch_left       # records that the last batch header announced, to come
    cdef readonly uint32_t header_seed      # what batch headers' CRCs begin with
    cdef public int fault                   # why the last step was BAD or WRONG (reader.py, FAULTS)
    cdef uint64_t batch_bytes_left
    # The last record accepted; pointers into the buffer that advance() was given.
    cdef const Command *command
    cdef const RecordDigests *digests       # NULL when it carries none
    cdef uint64_t wal_seq

    cdef Step advance(self, const uint8_t *start, uint64_t available_bytes, bint at_end) noexcept nogil
    cdef Step _batch_header(
        self, const uint8_t *start, uint64_t available_bytes, bint at_end
    ) noexcept nogil
    cdef Step _bad(self, int fault) noexcept nogil
    cdef Step _wrong(self, int fault) noexcept nogil
