# C face of engine.py: an Engine is an Executor that Python can drive, too.

cimport cython

from bourse.core.executor cimport Executor


@cython.final
cdef class Engine(Executor):
    pass
