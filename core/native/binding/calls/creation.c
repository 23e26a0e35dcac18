/* What makes small tensors on the CPU: zeros, ones, full, their _like and new_ forms, arange, eye, tensor of numbers, rand.
   Exact ints and floats as people write them; the rest is left to core.ops.creation, core.ops.conversion and core.random,
   which also say what is wrong. */
#include "generated/parsers.h"

#include <math.h>

#include "kernels/kernel.h"
#include "kernels/philox.h"

enum { MOST_ITEMS = 1 << 17 }; /* larger ones are left to NumPy, whose zeros cost nothing before they are read, and to
                                  the kernels' threads */

static struct {
    PyObject *dtypes, *device; /* the dict of core.base.dtypes; the list whose one item is the default device */
    PyObject *generators, *philox; /* the dict of core.rng.generator; the class of the engine that we know */
    PyTypeObject *dtype_type;
} from;
static PyObject *name_default, *name_generator, *name_engine, *name_take, *name_long, *name_bool;

static PyObject *connect_creation(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 4 || !PyDict_Check(args[0]) || !PyList_Check(args[1]) || !PyDict_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "connect_creation takes a dict, a list, a dict and a class");
        return NULL;
    }
    PyObject **to[] = {&from.dtypes, &from.device, &from.generators, &from.philox};
    for (int k = 0; k < 4; k++) Py_XSETREF(*to[k], Py_NewRef(args[k]));
    PyObject *one = PyDict_GetItem(from.dtypes, name_default);
    from.dtype_type = one ? Py_TYPE(one) : NULL;
    Py_RETURN_NONE;
}

/* -- arguments -------------------------------------------------------------------------------------------------------- */

typedef struct {
    int ndim;
    npy_intp shape[MOST_AXES];
    PyArray_Descr *descr; /* borrowed */
} Plan;

int made_here(void) {
    return from.device && binding.tensor_type && PyList_GET_SIZE(from.device) == 1 &&
           PyList_GET_ITEM(from.device, 0) == binding.cpu;
}

/* The NumPy dtype of a dtype of the package (borrowed), NULL for what is none. */
PyArray_Descr *descr_of(PyObject *dtype) {
    if (!dtype || !Py_IS_TYPE(dtype, from.dtype_type)) return NULL;
    PyObject *descr = PyObject_GetAttr(dtype, binding.numpy_name);
    Py_XDECREF(descr); /* the dtype holds it */
    return descr && PyArray_DescrCheck(descr) ? (PyArray_Descr *)descr : NULL;
}

static PyArray_Descr *descr_named(PyObject *name) { return descr_of(PyDict_GetItemWithError(from.dtypes, name)); }

/* A shape, of not too many items. */
static int plan_shape(const Sizes *sizes, Plan *plan) {
    npy_intp items = 1;
    if (!sizes) return 0;
    for (int k = 0; k < sizes->n; k++) {
        const npy_intp size = plan->shape[k] = sizes->at[k];
        if (size < 0 || __builtin_mul_overflow(items, size, &items)) return 0;
    }
    plan->ndim = sizes->n;
    return items <= MOST_ITEMS;
}

/* The shape of a tensor, and the dtype that is given or its own. */
static int plan_like(PyObject *input, PyArray_Descr *dtype, Plan *plan) {
    const Tensor *t = (Tensor *)input;
    PyArrayObject *a = array_in(input);
    if (!made_here() || on_cpu(t->kind) <= 0 || PyArray_NDIM(a) > MOST_AXES || PyArray_SIZE(a) > MOST_ITEMS) return 0;
    plan->descr = dtype ? dtype : PyArray_DESCR(a);
    plan->ndim = PyArray_NDIM(a);
    for (int k = 0; k < plan->ndim; k++) plan->shape[k] = PyArray_DIM(a, k); /* of no axes there is no list */
    return 1;
}

/* The number types that we fill; the others are left to NumPy. */
static int is_filled(const PyArray_Descr *descr) {
    const int type = descr->type_num;
    return PyArray_ISNBO(descr->byteorder) && (type == NPY_FLOAT || type == NPY_DOUBLE || type == NPY_INT64 ||
                                               type == NPY_BOOL || type == NPY_INT32 || type == NPY_UINT8);
}

static PyArrayObject *planned_array(const Plan *plan) {
    if (!is_filled(plan->descr)) return NULL;
    Py_INCREF(plan->descr);
    return (PyArrayObject *)new_array_of(plan->descr, plan->ndim, plan->shape, NULL);
}

static PyObject *made(PyArrayObject *a) { return tensor_of_array((PyObject *)a); }

/* -- of one number ---------------------------------------------------------------------------------------------------- */

/* Whether a float32 would be infinite of a number that is not: an error, which Python words. */
static int past_float(const Plan *plan, double real) {
    return plan->descr->type_num == NPY_FLOAT && isinf((float)real) && !isinf(real);
}

static void fill(PyArrayObject *a, double real, long long whole) {
    void *data = PyArray_DATA(a);
    const npy_intp n = PyArray_SIZE(a);
    switch (PyArray_TYPE(a)) {
        case NPY_FLOAT: for (npy_intp i = 0; i < n; i++) ((float *)data)[i] = (float)real; break;
        case NPY_DOUBLE: for (npy_intp i = 0; i < n; i++) ((double *)data)[i] = real; break;
        case NPY_INT64: for (npy_intp i = 0; i < n; i++) ((npy_int64 *)data)[i] = (npy_int64)whole; break;
        case NPY_INT32: for (npy_intp i = 0; i < n; i++) ((npy_int32 *)data)[i] = (npy_int32)whole; break;
        default: memset(data, (int)whole, (size_t)n); /* of one byte */
    }
}

static PyObject *filled(const Plan *plan, int value) {
    PyArrayObject *a = planned_array(plan);
    if (a && value >= 0) fill(a, value, value);
    return made(a);
}

/* Sizes that follow one another, or have their name. */
static PyObject *filled_sizes(const Sizes *args, const Sizes *size, PyArray_Descr *dtype, int value) {
    Plan plan; /* whose shape is read and not cleared */
    plan.descr = dtype;
    if ((args && size) || !made_here() || !plan_shape(args ? args : size, &plan)) return NULL;
    return dtype || (plan.descr = descr_named(name_default)) ? filled(&plan, value) : NULL;
}

static PyObject *filled_like(PyObject *input, PyArray_Descr *dtype, int value) {
    Plan plan;
    return plan_like(input, dtype, &plan) ? filled(&plan, value) : NULL;
}

static PyObject *filled_new(PyObject *input, const Sizes *sizes, PyArray_Descr *dtype, int value) {
    Plan plan;
    return plan_like(input, dtype, &plan) && plan_shape(sizes, &plan) ? filled(&plan, value) : NULL;
}

/* A small int, a float or a bool, and the dtype that it stands for. 0 for anything else. */
static int read_number(PyObject *given, double *real, long long *whole, PyArray_Descr **descr) {
    if (PyFloat_CheckExact(given)) {
        *real = PyFloat_AS_DOUBLE(given);
        *whole = 0;
        *descr = descr_named(name_default);
        return *descr != NULL;
    }
    int overflow = 0;
    if (!PyLong_CheckExact(given) && !PyBool_Check(given)) return 0;
    *whole = PyLong_AsLongLongAndOverflow(given, &overflow);
    *real = (double)*whole;
    if (overflow || *whole > 1 << 24 || *whole < -(1 << 24)) return 0; /* float32 holds it too */
    return (*descr = descr_named(PyBool_Check(given) ? name_bool : name_long)) != NULL;
}

/* The value in the plan's dtype: a float into floats alone, and an int into what holds every int of its size. */
static PyObject *filled_by(const Plan *plan, PyObject *value, double real, long long whole) {
    const int type = plan->descr->type_num, floats = type == NPY_FLOAT || type == NPY_DOUBLE;
    if (PyFloat_CheckExact(value) ? !floats : PyLong_CheckExact(value) ? !floats && type != NPY_INT64 && type != NPY_INT32
                                                                       : type != NPY_BOOL)
        return NULL;
    if (past_float(plan, real)) return NULL;
    PyArrayObject *a = planned_array(plan);
    if (a) fill(a, real, whole);
    return made(a);
}

static PyObject *full_sizes(const Sizes *size, PyObject *fill_value, PyArray_Descr *dtype) {
    Plan plan;
    double real;
    long long whole;
    if (!made_here() || !plan_shape(size, &plan) || !read_number(fill_value, &real, &whole, &plan.descr)) return NULL;
    if (dtype) plan.descr = dtype;
    return filled_by(&plan, fill_value, real, whole);
}

static PyObject *full_like(PyObject *input, PyObject *fill_value, PyArray_Descr *dtype) {
    Plan plan;
    double real;
    long long whole;
    PyArray_Descr *ignored;
    if (!plan_like(input, dtype, &plan) || !read_number(fill_value, &real, &whole, &ignored)) return NULL;
    return filled_by(&plan, fill_value, real, whole);
}

enum { MOST_RANGE = 1 << 24 }; /* a tenth of a second */

/* -- ranges ----------------------------------------------------------------------------------------------------------- */

/* A small int. */
static int read_bound(PyObject *object, long long *to) {
    npy_intp value;
    if (!exact_int(object, &value) || value > NPY_MAX_INT32 || value < NPY_MIN_INT32) return 0;
    *to = value;
    return 1;
}

/* A finite float, or an int that a double holds. */
static int read_real(PyObject *object, double *to) {
    long long whole;
    if (PyFloat_CheckExact(object)) *to = PyFloat_AS_DOUBLE(object);
    else if (read_bound(object, &whole)) *to = (double)whole;
    else return 0;
    return isfinite(*to);
}

/* start + step * i, as NumPy rounds it; `sized` is a type that holds i and step * i. */
#define STEPS(T, sized)                                                                                             \
    PRODUCTS_APART VECTOR static void steps_##T(T *y, ptrdiff_t count, sized start, sized step) {                            \
        const int n = (int)count;                                                                                   \
        for (int i = 0; i < n; i++) y[i] = (T)(start + step * (sized)i);                                            \
    }
STEPS(float, double)
STEPS(double, double)
STEPS(int64_t, int64_t)

/* Of numbers of which one is a float, as range_of. */
static PyObject *floats_of(PyObject *start_, PyObject *end, PyObject *step_) {
    Plan plan;
    plan.ndim = 1;
    double bounds[3] = {0, 0, 1};
    if (!start_ || !made_here() || !read_real(start_, &bounds[left_out(end)]) || (!left_out(end) && !read_real(end, &bounds[1])) ||
        (step_ && !read_real(step_, &bounds[2])))
        return NULL;
    const double start = bounds[0], step = bounds[2], n = ceil((bounds[1] - start) / step);
    if (!(step != 0 && n >= 0 && n <= MOST_RANGE) || !(plan.descr = descr_named(name_default))) return NULL;
    plan.shape[0] = (npy_intp)n;
    const int type = plan.descr->type_num;
    PyArrayObject *a = type == NPY_FLOAT || type == NPY_DOUBLE ? planned_array(&plan) : NULL;
    if (!a) return NULL;
    if (type == NPY_FLOAT) steps_float(PyArray_DATA(a), plan.shape[0], start, step);
    else steps_double(PyArray_DATA(a), plan.shape[0], start, step);
    return made(a);
}

/* From 0 to `start` where no end is given. */
static PyObject *range_of(PyObject *start_, PyObject *end, PyObject *step_) {
    if ((start_ && PyFloat_CheckExact(start_)) || (end && PyFloat_CheckExact(end)) || (step_ && PyFloat_CheckExact(step_)))
        return floats_of(start_, end, step_);
    Plan plan;
    plan.ndim = 1;
    long long bounds[3] = {0, 0, 1};
    if (!start_ || !made_here() || !read_bound(start_, &bounds[left_out(end)]) || (!left_out(end) && !read_bound(end, &bounds[1])) ||
        (step_ && !read_bound(step_, &bounds[2])))
        return NULL;
    const long long start = bounds[0], span = bounds[1] - start, step = bounds[2];
    if (!step || (span && (span < 0) != (step < 0))) return NULL;
    plan.shape[0] = (npy_intp)((span + step - (step > 0 ? 1 : -1)) / step);
    if (plan.shape[0] > MOST_RANGE || !(plan.descr = descr_named(name_long))) return NULL;
    PyArrayObject *a = planned_array(&plan);
    if (a) steps_int64_t(PyArray_DATA(a), plan.shape[0], start, step);
    return made(a);
}

/* The numbers of linspace from both ends, so that the last one is exactly `high`. */
#define EVEN(T)                                                                                               \
    PRODUCTS_APART VECTOR static void even_##T(T *y, ptrdiff_t steps, double low_, double high_) {                           \
        const T low = (T)low_, high = (T)high_, step = (T)((high_ - low_) / (double)(steps > 1 ? steps - 1 : 1)); \
        const int n = (int)steps, half = n > 1 ? n / 2 : 1;                                                   \
        for (int i = 0; i < half; i++) y[i] = low + (T)i * step;                                              \
        for (int i = half; i < n; i++) y[i] = high - (T)(n - 1 - i) * step;                                   \
    }
EVEN(float)
EVEN(double)

static PyObject *even_of(PyObject *start, PyObject *end, npy_intp steps) {
    Plan plan;
    plan.ndim = 1;
    plan.shape[0] = steps;
    double low, high;
    if (!made_here() || steps < 1 || steps > MOST_RANGE || !read_real(start, &low) || !read_real(end, &high) ||
        !(plan.descr = descr_named(name_default)))
        return NULL;
    const int type = plan.descr->type_num;
    PyArrayObject *a = type == NPY_FLOAT || type == NPY_DOUBLE ? planned_array(&plan) : NULL;
    if (!a) return NULL;
    if (type == NPY_FLOAT) even_float(PyArray_DATA(a), steps, low, high);
    else even_double(PyArray_DATA(a), steps, low, high);
    return made(a);
}

static PyObject *identity(npy_intp n, PyObject *m, PyArray_Descr *dtype) {
    Plan plan;
    plan.ndim = 2;
    plan.shape[0] = plan.shape[1] = n;
    plan.descr = dtype;
    if (!made_here() || n < 0 || n > MOST_ITEMS || (!left_out(m) && !exact_int(m, &plan.shape[1])) || plan.shape[1] < 0 ||
        plan.shape[1] > MOST_ITEMS || plan.shape[0] * plan.shape[1] > MOST_ITEMS ||
        (!dtype && !(plan.descr = descr_named(name_default))) ||
        (plan.descr->type_num != NPY_FLOAT && plan.descr->type_num != NPY_DOUBLE))
        return NULL;
    PyArrayObject *a = planned_array(&plan);
    if (!a) return NULL;
    fill(a, 0, 0);
    for (npy_intp i = 0; i < plan.shape[0] && i < plan.shape[1]; i++) {
        void *item = PyArray_GETPTR2(a, i, i);
        if (plan.descr->type_num == NPY_FLOAT) *(float *)item = 1;
        else *(double *)item = 1;
    }
    return made(a);
}

/* The powers of a base whose exponents lie evenly. */
static PyObject *powers_of(PyObject *start, PyObject *end, npy_intp steps, PyObject *base) {
    enum { MOST_POWERS = 1024 }; /* more, NumPy makes in vectors */
    double low, high, number, exponents[MOST_POWERS];
    Plan plan;
    plan.ndim = 1;
    plan.shape[0] = steps;
    if (!made_here() || steps < 1 || steps > MOST_POWERS || !read_real(start, &low) || !read_real(end, &high) ||
        !read_real(base, &number) || !(plan.descr = descr_named(name_default)))
        return NULL;
    const int type = plan.descr->type_num;
    PyArrayObject *a = type == NPY_FLOAT || type == NPY_DOUBLE ? planned_array(&plan) : NULL;
    if (!a) return NULL;
    even_double(exponents, steps, low, high);
    for (npy_intp k = 0; k < steps; k++) {
        const double power = pow(number, exponents[k]);
        if (type == NPY_FLOAT) ((float *)PyArray_DATA(a))[k] = (float)power;
        else ((double *)PyArray_DATA(a))[k] = power;
    }
    return made(a);
}

/* The rows and columns of a matrix's triangle, which begins or ends at a diagonal. */
static PyObject *triangle_of(npy_intp rows, npy_intp columns, npy_intp offset, int upper) {
    if (!made_here() || rows < 0 || columns < 0 || rows > MOST_ITEMS || columns > MOST_ITEMS || rows * columns > MOST_ITEMS ||
        offset > MOST_ITEMS || offset < -MOST_ITEMS)
        return NULL;
    npy_intp shape[] = {2, 0};
    for (npy_intp i = 0; i < rows; i++) { /* the items of row i before the diagonal, and it if that is counted */
        const npy_intp low = Py_MIN(Py_MAX(i + offset + !upper, 0), columns);
        shape[1] += upper ? columns - low : low;
    }
    PyObject *a = new_array(NPY_INT64, 2, shape, NULL);
    if (!a) return NULL;
    int64_t *row = PyArray_DATA((PyArrayObject *)a), *column = row + shape[1];
    for (npy_intp i = 0; i < rows; i++) {
        const npy_intp low = Py_MIN(Py_MAX(i + offset + !upper, 0), columns);
        for (npy_intp j = upper ? low : 0; j < (upper ? columns : low); j++) *row++ = i, *column++ = j;
    }
    return made((PyArrayObject *)a);
}

/* -- numbers ---------------------------------------------------------------------------------------------------------- */

/* The shape of nested lists by their first items; 0 for what is none. */
static int nested(PyObject *data, Plan *plan, PyTypeObject **type) {
    npy_intp items = 1;
    for (plan->ndim = 0; PyList_CheckExact(data) || PyTuple_CheckExact(data);) {
        Py_ssize_t size = PySequence_Fast_GET_SIZE(data);
        if (plan->ndim == MOST_AXES || !size || __builtin_mul_overflow(items, (npy_intp)size, &items)) return 0;
        plan->shape[plan->ndim++] = size;
        data = PySequence_Fast_GET_ITEM(data, 0);
    }
    *type = Py_TYPE(data);
    return items <= MOST_ITEMS && (PyFloat_CheckExact(data) || PyLong_CheckExact(data) || PyBool_Check(data));
}

/* Writes the numbers, all of one type, in row-major order; 0 where the lists are not as their first ones. */
static int write_numbers(PyObject *data, const Plan *plan, int depth, PyTypeObject *type, void *to, npy_intp *at) {
    if (depth < plan->ndim) {
        if (!(PyList_CheckExact(data) || PyTuple_CheckExact(data)) || PySequence_Fast_GET_SIZE(data) != plan->shape[depth])
            return 0;
        for (Py_ssize_t k = 0; k < plan->shape[depth]; k++)
            if (!write_numbers(PySequence_Fast_GET_ITEM(data, k), plan, depth + 1, type, to, at)) return 0;
        return 1;
    }
    if (Py_TYPE(data) != type) return 0;
    const npy_intp i = (*at)++;
    int overflow = 0;
    switch (plan->descr->type_num) {
        case NPY_FLOAT: ((float *)to)[i] = (float)PyFloat_AS_DOUBLE(data); return 1;
        case NPY_DOUBLE: ((double *)to)[i] = PyFloat_AS_DOUBLE(data); return 1;
        case NPY_BOOL: ((npy_bool *)to)[i] = data == Py_True; return 1;
        default: ((npy_int64 *)to)[i] = PyLong_AsLongLongAndOverflow(data, &overflow); return !overflow;
    }
}

/* Of a float, an int or a bool, or lists of one of these. */
static PyObject *tensor_of(PyObject *data) {
    Plan plan;
    PyTypeObject *type;
    if (!made_here() || !nested(data, &plan, &type)) return NULL;
    plan.descr = descr_named(type == &PyFloat_Type ? name_default : type == &PyLong_Type ? name_long : name_bool);
    if (!plan.descr || (type == &PyFloat_Type && plan.descr->type_num != NPY_FLOAT && plan.descr->type_num != NPY_DOUBLE))
        return NULL;
    PyArrayObject *a = planned_array(&plan);
    npy_intp at = 0;
    if (a && !write_numbers(data, &plan, 0, type, PyArray_DATA(a), &at)) Py_CLEAR(a);
    return made(a);
}

/* A tensor over a plain array of the commonest types. */
static PyObject *over_array(PyObject *array) {
    if (!PyArray_CheckExact(array) || !made_here()) return NULL;
    PyArrayObject *a = (PyArrayObject *)array;
    return PyArray_ISCARRAY(a) && PyArray_NDIM(a) <= MOST_AXES && is_filled(PyArray_DESCR(a)) ? made((PyArrayObject *)Py_NewRef(array)) : NULL;
}

/* -- draws ------------------------------------------------------------------------------------------------------------ */

int numbers_taken(npy_intp n, unsigned long long *seed, unsigned long long *offset) {
    PyObject *generator = PyDict_GetItemWithError(from.generators, name_generator);
    PyObject *engine = generator ? PyObject_GetAttr(generator, name_engine) : NULL, *pair = NULL;
    int done = 0;
    if (engine && (PyObject *)Py_TYPE(engine) == from.philox) {
        PyObject *number = PyLong_FromSsize_t(n);
        pair = number ? PyObject_CallMethodOneArg(engine, name_take, number) : NULL;
        Py_XDECREF(number);
        if (pair && PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2) {
            *seed = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(pair, 0));
            *offset = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(pair, 1));
            done = !PyErr_Occurred();
        }
    }
    Py_XDECREF(engine);
    Py_XDECREF(pair);
    return done;
}

typedef void (*drawing)(uint64_t seed, uint64_t offset, ptrdiff_t n, float *y);

static PyObject *drawn(const Plan *plan, drawing draw) {
    unsigned long long seed, offset;
    for (int k = 0; k < plan->ndim; k++)
        if (!plan->shape[k]) return NULL; /* NumPy has strides of its own for nothing */
    if (plan->descr->type_num != NPY_FLOAT) return NULL;
    PyArrayObject *a = planned_array(plan);
    if (!a) return NULL;
    if (!numbers_taken(PyArray_SIZE(a), &seed, &offset)) {
        Py_DECREF(a);
        return NULL;
    }
    draw(seed, offset, PyArray_SIZE(a), PyArray_DATA(a));
    return made(a);
}

static PyObject *drawn_sizes(const Sizes *args, const Sizes *size, drawing draw) {
    Plan plan;
    if ((args && size) || !made_here() || !plan_shape(args ? args : size, &plan) || !(plan.descr = descr_named(name_default)))
        return NULL;
    return drawn(&plan, draw);
}

static PyObject *drawn_like(PyObject *input, drawing draw) {
    Plan plan;
    return plan_like(input, NULL, &plan) ? drawn(&plan, draw) : NULL;
}

static PyObject *uniform_sizes(const Sizes *args, const Sizes *size) { return drawn_sizes(args, size, philox_uniform); }
static PyObject *uniform_like(PyObject *input) { return drawn_like(input, philox_uniform); }
static PyObject *normal_sizes(const Sizes *args, const Sizes *size) { return drawn_sizes(args, size, philox_normal); }
static PyObject *normal_like(PyObject *input) { return drawn_like(input, philox_normal); }

static PyMethodDef creation_methods[] = {
    {"connect_creation", (PyCFunction)(void (*)(void))connect_creation, METH_FASTCALL,
     "connect_creation(dtypes, device, generators, philox)\n--\n\nWhat says the default dtype, device and generator."},
    {0},
};

int creation_setup(PyObject *module) {
    PyObject **names[] = {&name_default, &name_generator, &name_engine, &name_take, &name_long, &name_bool};
    const char *texts[] = {"_default", "default_generator", "engine", "take", "int64", "bool_"};
    for (int k = 0; k < 6; k++)
        if (!(*names[k] = PyUnicode_InternFromString(texts[k]))) return -1;
    return PyModule_AddFunctions(module, creation_methods);
}

#include "generated/parse_creation.h"
