#include "kernels/winograd.h"
#include "binding/module.h"

#include "kernels/copy.h"
#include "kernels/winograd.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { COPY_SMALLEST = 4096 }; /* bytes; below, NumPy's own copy is as quick */

/* Owns one block of the cache; an array over it holds it as its base. */
typedef struct {
    PyObject_HEAD void *memory;
    size_t capacity;
} Block;

static void block_dealloc(PyObject *self) {
    Block *block = (Block *)self;
    memory_give(block->memory, block->capacity);
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject Block_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Block",
    .tp_basicsize = sizeof(Block),
    .tp_dealloc = block_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "The memory of a large array; it goes back to the cache when the array is gone.",
};

static PyObject *new_over_block(PyArray_Descr *descr, int ndim, const npy_intp *shape, const npy_intp *strides,
                                size_t size) {
    Block *block = PyObject_New(Block, &Block_Type);
    if (!block) {
        Py_DECREF(descr);
        return NULL;
    }
    block->memory = memory_take(size, &block->capacity);
    if (!block->memory) {
        PyObject_Free(block);
        Py_DECREF(descr);
        return PyErr_NoMemory();
    }
    PyObject *array =
        PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, strides, block->memory, NPY_ARRAY_WRITEABLE, NULL);
    if (!array) {
        Py_DECREF(block);
        return NULL;
    }
    if (PyArray_SetBaseObject((PyArrayObject *)array, (PyObject *)block) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

PyObject *new_array_of(PyArray_Descr *descr, int ndim, const npy_intp *shape, const npy_intp *strides) {
    size_t size = (size_t)PyDataType_ELSIZE(descr);
    for (int axis = 0; axis < ndim; axis++)
        if (shape[axis] < 0 || __builtin_mul_overflow(size, (size_t)shape[axis], &size))
            size = 0; /* NumPy words the error */
    if (size >= MEMORY_SMALLEST && !PyDataType_REFCHK(descr)) return new_over_block(descr, ndim, shape, strides, size);
    PyObject *cached = strides ? NULL : array_from_cache(descr, ndim, shape);
    if (cached) {
        Py_DECREF(descr);
        return cached;
    }
    return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, strides, NULL, 0, NULL);
}

PyObject *shape_of(PyArrayObject *a) {
    int ndim = PyArray_NDIM(a);
    PyObject *shape = PyTuple_New(ndim);
    for (int k = 0; shape && k < ndim; k++) {
        PyObject *size = PyLong_FromSsize_t(PyArray_DIM(a, k));
        if (size) PyTuple_SET_ITEM(shape, k, size);
        else Py_CLEAR(shape);
    }
    return shape;
}

PyObject *new_array(int type_num, int ndim, const npy_intp *shape, const npy_intp *strides) {
    PyArray_Descr *descr = PyArray_DescrFromType(type_num);
    return descr ? new_array_of(descr, ndim, shape, strides) : NULL;
}

static PyArrayObject *refuse(PyObject *object, int type_num, const char *kernel) {
    PyArray_Descr *wanted = PyArray_DescrFromType(type_num);
    if (!wanted) return NULL;
    PyObject *found =
        PyArray_Check(object) ? (PyObject *)PyArray_DESCR((PyArrayObject *)object) : (PyObject *)Py_TYPE(object);
    PyErr_Format(PyExc_TypeError, "%s takes an array of %S, got %S; convert it with .astype first", kernel, wanted,
                 found);
    Py_DECREF(wanted);
    return NULL;
}

PyArrayObject *take_array(PyObject *object, int type_num, int contiguous, const char *kernel) {
    PyArrayObject *array = (PyArrayObject *)object;
    if (!PyArray_Check(object) || PyArray_TYPE(array) != type_num) {
        if (PyArray_IsScalar(object, Generic)) { /* numpy.float32(1) is an array of no axes */
            PyObject *converted = PyArray_FromScalar(object, NULL);
            if (!converted) return NULL;
            array = take_array(converted, type_num, contiguous, kernel);
            Py_DECREF(converted);
            return array;
        }
        return refuse(object, type_num, kernel);
    }
    if (PyArray_ISBEHAVED_RO(array) && (!contiguous || PyArray_IS_C_CONTIGUOUS(array))) {
        Py_INCREF(array);
        return array;
    }
    int flags = NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED | (contiguous ? NPY_ARRAY_C_CONTIGUOUS : 0);
    return (PyArrayObject *)PyArray_FromArray(array, PyArray_DescrFromType(type_num), flags);
}

int real_type(PyObject *object, const char *kernel) {
    if (PyArray_Check(object)) {
        int type_num = PyArray_TYPE((PyArrayObject *)object);
        if (type_num == NPY_FLOAT || type_num == NPY_DOUBLE) return type_num;
        PyErr_Format(PyExc_TypeError, "%s takes arrays of float32 or float64, got %S; convert it with .astype first",
                     kernel, PyArray_DESCR((PyArrayObject *)object));
        return -1;
    }
    PyErr_Format(PyExc_TypeError, "%s takes NumPy arrays, got %s", kernel, Py_TYPE(object)->tp_name);
    return -1;
}

static PyObject *empty(PyObject *module, PyObject *args) {
    PyArray_Dims shape = {NULL, 0};
    PyArray_Descr *descr = NULL;
    if (!PyArg_ParseTuple(args, "O&O&:empty", PyArray_IntpConverter, &shape, PyArray_DescrConverter, &descr)) {
        PyDimMem_FREE(shape.ptr);
        return NULL;
    }
    PyObject *array = new_array_of(descr, shape.len, shape.ptr, NULL);
    PyDimMem_FREE(shape.ptr);
    return array;
}

PyObject *array_copied(PyArrayObject *a) {
    PyArray_Descr *descr = PyArray_DESCR(a);
    const int small = PyArray_NBYTES(a) < COPY_SMALLEST;
    if (PyDataType_REFCHK(descr) || (small && !PyArray_IS_C_CONTIGUOUS(a))) return PyArray_NewCopy(a, NPY_CORDER);
    Py_INCREF(descr);
    PyObject *out = new_array_of(descr, PyArray_NDIM(a), PyArray_DIMS(a), NULL);
    if (!out) return NULL;
    if (small) {
        memcpy(PyArray_DATA((PyArrayObject *)out), PyArray_DATA(a), (size_t)PyArray_NBYTES(a));
        return out;
    }
    Py_BEGIN_ALLOW_THREADS
    copy_array(PyArray_BYTES((PyArrayObject *)out), PyArray_BYTES(a), PyArray_NDIM(a), PyArray_DIMS(a), PyArray_STRIDES(a),
               PyArray_ITEMSIZE(a));
    Py_END_ALLOW_THREADS
    return out;
}

/* copied(a): the same items in row-major order, in memory of their own. */
static PyObject *copied(PyObject *module, PyObject *object) {
    if (!PyArray_Check(object))
        return PyErr_Format(PyExc_TypeError, "copied takes a NumPy array, got %s", Py_TYPE(object)->tp_name);
    return array_copied((PyArrayObject *)object);
}

static PyObject *memory_stats_dict(PyObject *module, PyObject *ignored) {
    memory_stats stats = memory_get_stats();
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n}", "live_bytes", (Py_ssize_t)stats.live_bytes, "live_blocks",
                         (Py_ssize_t)stats.live_blocks, "cached_bytes", (Py_ssize_t)stats.cached_bytes, "cached_blocks",
                         (Py_ssize_t)stats.cached_blocks, "hits", (Py_ssize_t)stats.hits, "misses",
                         (Py_ssize_t)stats.misses, "evictions", (Py_ssize_t)stats.evictions, "limit_bytes",
                         (Py_ssize_t)stats.limit_bytes);
}

static PyObject *release_memory(PyObject *module, PyObject *ignored) {
    memory_release(0);
#ifdef __GLIBC__
    malloc_trim(0); /* what lies free between small pieces of the heap too */
#endif
    Py_RETURN_NONE;
}

static PyObject *set_memory_limit(PyObject *module, PyObject *limit) {
    Py_ssize_t limit_bytes = PyNumber_AsSsize_t(limit, PyExc_OverflowError);
    if (limit_bytes == -1 && PyErr_Occurred()) return NULL;
    if (limit_bytes < 0)
        return PyErr_Format(PyExc_ValueError, "set_memory_limit takes a number of bytes, got %zd", limit_bytes);
    memory_set_limit((size_t)limit_bytes);
    Py_RETURN_NONE;
}

static PyObject *get_num_threads(PyObject *module, PyObject *ignored) {
    return PyLong_FromLong(parallel_get_threads());
}

static PyObject *set_num_threads(PyObject *module, PyObject *count_object) {
    long count = PyLong_AsLong(count_object);
    if (count == -1 && PyErr_Occurred()) return NULL;
    if (count < 1 || count > 1024)
        return PyErr_Format(PyExc_RuntimeError, "set_num_threads expects a positive integer, got %ld", count);
    parallel_set_threads((int)count);
    Py_RETURN_NONE;
}

static const char *const methods[CONVOLUTION_METHODS] = {"chosen", "direct", "F2", "F4"};

static PyObject *get_convolution_method(PyObject *module, PyObject *ignored) {
    return PyUnicode_FromString(methods[convolution_get_method()]);
}

static PyObject *set_convolution_method(PyObject *module, PyObject *name) {
    for (int i = 0; i < CONVOLUTION_METHODS; i++)
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, methods[i]) == 0) {
            convolution_set_method(i);
            Py_RETURN_NONE;
        }
    return PyErr_Format(PyExc_ValueError, "set_convolution_method takes 'chosen', 'direct', 'F2' or 'F4', got %R", name);
}

static PyMethodDef array_methods[] = {
    {"empty", empty, METH_VARARGS,
     "empty(shape, dtype)\n--\n\nA C-contiguous array of undefined items, its memory from the cache when large."},
    {"copied", copied, METH_O, "copied(a)\n--\n\nThe same items in row-major order, in memory of their own."},
    {"memory_stats", memory_stats_dict, METH_NOARGS,
     "memory_stats()\n--\n\nThe cache's counters: bytes and blocks live and cached, hits, misses, evictions, limit."},
    {"release_memory", release_memory, METH_NOARGS,
     "release_memory()\n--\n\nGive the cached blocks back to the operating system."},
    {"set_memory_limit", set_memory_limit, METH_O, "set_memory_limit(limit_bytes)\n--\n\nCache at most so many bytes."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "get_num_threads()\n--\n\nHow many threads a kernel may use."},
    {"set_num_threads", set_num_threads, METH_O,
     "set_num_threads(count)\n--\n\nLet kernels use so many threads; results do not depend on it."},
    {"get_convolution_method", get_convolution_method, METH_NOARGS,
     "get_convolution_method()\n--\n\nHow 3 x 3 convolutions of stride 1 are made in float32."},
    {"set_convolution_method", set_convolution_method, METH_O,
     "set_convolution_method(name)\n--\n\nMake them directly, by Winograd's F2 or F4, or 'chosen' by shape and numbers."},
    {NULL, NULL, 0, NULL},
};

int arrays_setup(PyObject *module) {
    return PyType_Ready(&Block_Type) < 0 ? -1 : PyModule_AddFunctions(module, array_methods);
}
