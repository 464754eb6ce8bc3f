# The C layout of the log's items; format.py is the specification.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cdef struct SegmentHeader:          # first 64 bytes of the 4096-byte header block
    uint8_t magic[8]
    uint32_t version
    uint32_t header_bytes
    uint8_t store_id[16]
    uint64_t segment_index
    uint64_t first_wal_seq
    uint32_t chain_crc
    uint32_t spare
    uint64_t spare2


cdef struct BatchHeader:            # 64 bytes
    uint32_t magic
    uint32_t crc
    uint64_t offset_bytes
    uint64_t first_wal_seq
    uint32_t record_count
    uint32_t length_bytes
    uint64_t durable_wal_seq
    uint64_t durable_bytes
    uint32_t chain_crc
    uint32_t spare
    uint64_t spare2


cdef struct RecordHeader:           # 24 bytes, then the command, then the digests if it carries them
    uint32_t length_bytes
    uint32_t crc
    uint64_t wal_seq
    uint16_t version
    uint16_t type
    uint32_t spare


cdef struct RecordDigests:          # 24 bytes: running values before the record's command
    uint64_t state_digest
    uint64_t event_digest
    uint64_t event_seq
