# C face of writer.py: what the daemon's journal thread calls. Fields are declared here only.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from bourse.core.records cimport Command


cdef struct JournalSlot:            # 96 bytes: one command on its way from the matcher to the log
    uint64_t wal_seq
    uint64_t state_digest           # digests and event_seq: values before this command
    uint64_t event_digest
    uint64_t event_seq
    Command command


cdef struct Write:                  # one pwrite that the owner of the file is asked to make
    uint64_t offset_bytes           # where in the segment file
    uint8_t *data                   # stays valid and unchanged until written() or failed()
    uint64_t length_bytes
    uint64_t last_wal_seq           # last record covered once this is written
    uint64_t segment_index          # of the segment file; one more than before begins the next one


cdef class JournalWriter:
    cdef readonly uint64_t segment_index
    cdef readonly uint64_t rotation_seq     # record that begins the next segment; 0: none is planned
    cdef readonly uint64_t offset_bytes     # where the next batch goes
    cdef readonly uint64_t next_wal_seq     # of the next record to append
    cdef readonly uint64_t written_seq      # last record that is written
    cdef readonly uint64_t written_bytes    # end of what is written
    cdef readonly uint64_t durable_seq      # last record that is synced
    cdef readonly uint64_t durable_bytes    # end of what is synced
    cdef readonly uint64_t marked_seq       # durable mark of the last batch header made
    cdef readonly uint64_t capacity_bytes   # of the write buffer
    cdef readonly uint64_t used_bytes       # of the open batch, header included
    cdef readonly uint32_t chain_crc        # of the last record appended
    cdef readonly int stage                 # IDLE, OPEN, PENDING or FAILED (writer.py)
    cdef uint8_t *memory                    # room for a segment's header block, then the buffer
    cdef uint8_t *buffer
    cdef uint8_t store_id[16]
    cdef uint32_t header_seed               # CRC-32C of store id and segment index
    cdef bint begins_segment                # the open batch goes behind a new header block
    cdef uint32_t batch_chain_crc
    cdef uint64_t batch_first_seq

    cdef bint plan_rotation(self, uint64_t first_wal_seq) noexcept nogil
    cdef bint rotation_is_due(self) noexcept nogil
    cdef bint begin_batch(self) noexcept nogil
    cdef bint append(self, const JournalSlot *slot) noexcept nogil
    cdef bint end_batch(self, Write *write) noexcept nogil
    cdef void written(self) noexcept nogil
    cdef void synced(self) noexcept nogil
    cdef void failed(self) noexcept nogil
    cdef bint wants_mark(self) noexcept nogil
    cdef void _begin_segment(self) noexcept nogil
