# How this module was compiled, as setup.py and the compiler say it.

cdef extern from *:
    """
    #ifndef BOURSE_CFLAGS
    #define BOURSE_CFLAGS "unknown"
    #define BOURSE_PROFILE "unknown"
    #endif
    #if defined(__clang__)
    #define BOURSE_COMPILER "clang " __clang_version__
    #elif defined(__GNUC__)
    #define BOURSE_COMPILER "gcc " __VERSION__
    #else
    #define BOURSE_COMPILER "unknown"
    #endif
    """
    const char *COMPILER "BOURSE_COMPILER"
    const char *CFLAGS "BOURSE_CFLAGS"
    const char *PROFILE "BOURSE_PROFILE"
