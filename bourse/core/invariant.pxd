# invariant(condition, text): end the process when the program itself is wrong.
#
# Stays on in release builds. A failing `assert` in a nogil function would print and carry on.

cdef extern from * nogil:
    """
    #include <stdio.h>
    #include <stdlib.h>
    static inline void bourse_invariant(int condition, const char *text) {
        if (__builtin_expect(!condition, 0)) {
            fprintf(stderr, "bourse: broken invariant: %s\\n", text);
            fflush(stderr);
            abort();
        }
    }
    """
    void invariant "bourse_invariant"(bint condition, const char *text)
