/* Items of arrays: a number as an item, and memory filled with one. */
#include "binding/items.h"

#include <math.h>
#include <stddef.h>

#include "kernels/copy.h"

/* A number as an item of an array's type, as NumPy makes it. 0 where it is not plainly one. */
int item_of(PyObject *value, int type, char *item) {
    const int whole = PyLong_CheckExact(value) || PyBool_Check(value);
    int overflow = 0;
    if (type == NPY_FLOAT || type == NPY_DOUBLE) {
        double number;
        if (PyFloat_CheckExact(value)) {
            number = PyFloat_AS_DOUBLE(value);
        } else {
            long long n = whole ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;
            if (!whole || overflow || n > 1LL << 53 || n < -(1LL << 53)) return 0; /* it would be rounded twice */
            number = (double)n;
        }
        if (type == NPY_DOUBLE) {
            memcpy(item, &number, sizeof number);
            return 1;
        }
        float narrow = (float)number;
        if (isinf(narrow) && !isinf(number)) return 0; /* NumPy warns */
        memcpy(item, &narrow, sizeof narrow);
        return 1;
    }
    if (type == NPY_BOOL) {
        if (!PyBool_Check(value)) return 0;
        *item = value == Py_True;
        return 1;
    }
    if (!whole || (type != NPY_INT64 && type != NPY_INT32)) return 0;
    long long n = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow || (type == NPY_INT32 && (n > INT32_MAX || n < INT32_MIN))) return 0;
    int64_t wide = n;
    int32_t narrow = (int32_t)n;
    if (type == NPY_INT64) memcpy(item, &wide, sizeof wide);
    else memcpy(item, &narrow, sizeof narrow);
    return 1;
}
