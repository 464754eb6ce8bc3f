"""The engine as a library: `from bourse import Engine`, NumPy arrays, and a face for C.

    engine.py     orders one by one and arrays of them, for research and backtests
    arrays.py     the dtypes of commands and events; needs NumPy
    c_face.py     functions for hosts in other languages (bourse/include/bourse.h)

Examples are in docs/library.md. Nothing here knows a socket, a clock or a file.
"""
