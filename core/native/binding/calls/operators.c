/* The operators of tensors: a + b goes from the interpreter to the op's C path with no Python function between. Each has
   that path (a public function) and Python's function for what the path does not take. They are
   slots of TensorBase: whoever subclasses Tensor, or sets one anew, has what Python gives them. */
#include "binding/graph.h"

#include <stddef.h>

typedef struct {
    const char *name;
    PyObject *function, *swapped; /* of (a, b); of (b, a) where a tensor stands on the right alone, if that is another */
} Operator;

enum { ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, MATMUL, AND, OR, XOR, NEGATIVE, INVERT, COMPARISONS, OPERATORS = COMPARISONS + 6 };

static Operator operators[OPERATORS] = {{"add"}, {"sub"}, {"mul"}, {"truediv"}, {"pow"}, {"matmul"}, {"and"}, {"or"},
                                        {"xor"}, {"neg"}, {"invert"}, {"lt"}, {"le"}, {"eq"},
                                        {"ne"}, {"gt"}, {"ge"}}; /* the last in the order of Py_LT, Py_LE, ... */
static PyObject *square; /* ElementwiseCall of x ** 2 */

static PyObject *call(PyObject *function, PyObject *const *args, size_t count) {
    return PyObject_Vectorcall(function, args, count, NULL);
}

/* Whether an operand is of a class written in Python that has the operator, too, and so may know what a tensor is. */
static int has_its_own(int which, PyObject *b) {
    static const size_t slots[] = {[ADD] = offsetof(PyNumberMethods, nb_add),
                                   [SUBTRACT] = offsetof(PyNumberMethods, nb_subtract),
                                   [MULTIPLY] = offsetof(PyNumberMethods, nb_multiply),
                                   [DIVIDE] = offsetof(PyNumberMethods, nb_true_divide),
                                   [POWER] = offsetof(PyNumberMethods, nb_power),
                                   [MATMUL] = offsetof(PyNumberMethods, nb_matrix_multiply),
                                   [AND] = offsetof(PyNumberMethods, nb_and),
                                   [OR] = offsetof(PyNumberMethods, nb_or),
                                   [XOR] = offsetof(PyNumberMethods, nb_xor)};
    const PyTypeObject *type = Py_TYPE(b);
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_as_number &&
           *(void **)((char *)type->tp_as_number + slots[which]);
}

static PyObject *binary(int which, PyObject *a, PyObject *b) {
    const Operator *o = &operators[which];
    const int left = is_tensor(a), right = is_tensor(b);
    if (!o->function || !(left || right)) Py_RETURN_NOTIMPLEMENTED;
    const int swapped = !left && o->swapped;
    PyObject *args[] = {swapped ? b : a, swapped ? a : b};
    PyObject *found = call(swapped ? o->swapped : o->function, args, 2);
    if (found || right || !has_its_own(which, b)) return found;
    overlook(PyExc_TypeError); /* the other operand's own method is asked, and says what is wrong */
    return declined();
}

static PyObject *add(PyObject *a, PyObject *b) { return binary(ADD, a, b); }
static PyObject *subtract(PyObject *a, PyObject *b) { return binary(SUBTRACT, a, b); }
static PyObject *multiply(PyObject *a, PyObject *b) { return binary(MULTIPLY, a, b); }
static PyObject *divide(PyObject *a, PyObject *b) { return binary(DIVIDE, a, b); }
static PyObject *matmul(PyObject *a, PyObject *b) { return binary(MATMUL, a, b); }
static PyObject *and(PyObject *a, PyObject *b) { return binary(AND, a, b); }
static PyObject *or(PyObject *a, PyObject *b) { return binary(OR, a, b); }
static PyObject *xor(PyObject *a, PyObject *b) { return binary(XOR, a, b); }

static int is_two(PyObject *number) {
    if (PyFloat_CheckExact(number)) return PyFloat_AS_DOUBLE(number) == 2.0;
    int overflow;
    return PyLong_CheckExact(number) && PyLong_AsLongAndOverflow(number, &overflow) == 2;
}

static PyObject *power(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus != Py_None && operators[POWER].function) {
        PyObject *args[] = {a, b, modulus};
        return call(operators[POWER].function, args, 3);
    }
    if (square && is_two(b) && !binding.casting && !binding.overriding && is_tensor(a)) {
        PyObject *found = elementwise_try(square, &a, 1);
        if (found || PyErr_Occurred()) return found;
    }
    return binary(POWER, a, b);
}

static PyObject *unary(int which, PyObject *a) {
    if (operators[which].function) return call(operators[which].function, &a, 1);
    PyErr_Format(PyExc_TypeError, "bad operand type for unary %c", which == NEGATIVE ? '-' : '~');
    return NULL;
}

static PyObject *negative(PyObject *a) { return unary(NEGATIVE, a); }
static PyObject *invert(PyObject *a) { return unary(INVERT, a); }

PyNumberMethods tensor_operators = {
    .nb_add = add,
    .nb_subtract = subtract,
    .nb_multiply = multiply,
    .nb_true_divide = divide,
    .nb_power = power,
    .nb_matrix_multiply = matmul,
    .nb_negative = negative,
    .nb_and = and,
    .nb_or = or,
    .nb_xor = xor,
    .nb_invert = invert,
};

PyObject *tensor_compare(PyObject *a, PyObject *b, int how) {
    PyObject *args[] = {a, b}, *function = operators[COMPARISONS + how].function;
    if (!function || !is_tensor(a)) Py_RETURN_NOTIMPLEMENTED;
    return call(function, args, 2);
}

static PyObject *getitem;

static PyObject *subscript(PyObject *t, PyObject *key) {
    PyObject *args[] = {t, key};
    return call(getitem, args, 2);
}

static PyObject *set_operator(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count == 1 && Py_IS_TYPE(args[0], &ElementwiseCall_Type)) {
        Py_XSETREF(square, Py_NewRef(args[0]));
        Py_RETURN_NONE;
    }
    if (count < 2 || count > 3 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "set_operator takes a name and one or two functions, or the ElementwiseCall of the square");
        return NULL;
    }
    if (PyUnicode_CompareWithASCIIString(args[0], "getitem") == 0) {
        /* Of core.Tensor alone, whose attribute __getitem__ Python keeps: as a slot of TensorBase it would take from
           tensors what makes them sequences. Setting that attribute anew sets this slot, too. */
        if (!connected()) return NULL;
        Py_XSETREF(getitem, Py_NewRef(args[1]));
        binding.tensor_type->tp_as_mapping->mp_subscript = subscript;
        Py_RETURN_TRUE;
    }
    for (int k = 0; k < OPERATORS; k++) {
        if (PyUnicode_CompareWithASCIIString(args[0], operators[k].name)) continue;
        Py_XSETREF(operators[k].function, Py_NewRef(args[1]));
        if (count == 3) Py_XSETREF(operators[k].swapped, Py_NewRef(args[2]));
        Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

static PyMethodDef operator_methods[] = {
    {"set_operator", (PyCFunction)(void (*)(void))set_operator, METH_FASTCALL,
     "set_operator(name, function, swapped)\n--\n\nWhat an operator of tensors calls; False where it has no place in C."},
    {0},
};

int operators_setup(PyObject *module) { return PyModule_AddFunctions(module, operator_methods); }
