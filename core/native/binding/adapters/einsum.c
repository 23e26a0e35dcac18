/* einsum of two operands that is a product of matrices, or of stacks of them, and its gradients: entries
   (binding/adapters/entries.c says what an entry is), and what its fast path takes. The operands are read where they lie, by their strides. */
#include "binding/entries.h"

#include <string.h>

enum { MOST_LETTERS = 8, THIN = 4096 }; /* THIN: multiplications up to which a product with a vector is made here */

/* A term's letters and the sizes and strides of its array; `array` is NULL where only the letters are known. */
typedef struct {
    PyArrayObject *array;
    int count;
    char letters[MOST_LETTERS];
} Term;

static int place(const Term *t, char letter) {
    for (int k = 0; k < t->count; k++)
        if (t->letters[k] == letter) return k;
    return -1;
}

/* Reads "ij,jk->ik" as Python hands it to the op: no letter twice in a term. 0 where it is not for it. */
static int read_terms(PyObject *equation, Term *terms) {
    if (!PyUnicode_CheckExact(equation) || !PyUnicode_IS_ASCII(equation)) return 0;
    const char *c = (const char *)PyUnicode_1BYTE_DATA(equation);
    for (int k = 0; k < 3; k++) terms[k].count = 0;
    for (int at = 0; *c; c++) {
        if (*c == ',' && at == 0) at = 1;
        else if (*c == '-' && c[1] == '>' && at == 1) at = 2, c++;
        else if (((*c | 32) < 'a' || (*c | 32) > 'z') || terms[at].count == MOST_LETTERS || place(&terms[at], *c) >= 0) return 0;
        else terms[at].letters[terms[at].count++] = *c;
        if (!c[1] && at < 2) return 0;
    }
    for (int k = 0; k < terms[2].count; k++)
        if (place(&terms[0], terms[2].letters[k]) < 0 && place(&terms[1], terms[2].letters[k]) < 0) return 0;
    return 1;
}

/* Whether letters name the axes of a plain array of float32 or float64. */
static int names_axes(Term *t, PyObject *array) {
    if (!PyArray_CheckExact(array)) return 0;
    t->array = (PyArrayObject *)array;
    const int type = PyArray_TYPE(t->array);
    return (type == NPY_FLOAT || type == NPY_DOUBLE) && PyArray_NDIM(t->array) == t->count && PyArray_SIZE(t->array);
}

/* A product that the terms are: the letter of its rows, columns and of what is summed (0 where there is none), and how many
   letters of the result are a stack's, which come first. `turned`: the second operand has the rows. */
typedef struct {
    char rows, columns, inner;
    int stack, turned;
} Product;

static int as_product(const Term *a, const Term *b, const Term *out, Product *p) {
    char only[2] = {0, 0};
    *p = (Product){0};
    for (int side = 0; side < 2; side++) {
        const Term *mine = side ? b : a, *other = side ? a : b;
        for (int k = 0; k < mine->count; k++) {
            const char letter = mine->letters[k];
            const int there = place(other, letter), shown = place(out, letter) >= 0;
            if (there < 0 && (!shown || only[side])) return 0;
            if (there < 0) only[side] = letter;
            else if (PyArray_DIM(mine->array, k) != PyArray_DIM(other->array, there)) return 0;
            else if (side == 0 && shown) p->stack++;
            else if (side == 0 && p->inner) return 0;
            else if (side == 0) p->inner = letter;
        }
    }
    for (int k = 0; k < out->count; k++) {
        const int own = out->letters[k] == only[0] || out->letters[k] == only[1];
        const int both = place(a, out->letters[k]) >= 0 && place(b, out->letters[k]) >= 0;
        if (k < p->stack ? !both : !own) return 0;
    }
    p->turned = out->count > p->stack && only[0] && out->letters[p->stack] == only[1];
    p->rows = only[p->turned];
    p->columns = only[!p->turned];
    return 1;
}

static npy_intp size_in(const Term *t, char letter) { return letter ? PyArray_DIM(t->array, place(t, letter)) : 1; }

/* The operand as a stack of matrices of two letters. */
static PyObject *matrices(const Term *t, const Term *out, const Product *p, char down, char across) {
    npy_intp shape[MOST_LETTERS + 2], strides[MOST_LETTERS + 2];
    const int ndim = p->stack + 2;
    for (int k = 0; k < ndim; k++) {
        const char letter = k < p->stack ? out->letters[k] : k == p->stack ? down : across;
        shape[k] = size_in(t, letter);
        strides[k] = letter ? PyArray_STRIDE(t->array, place(t, letter)) : PyArray_ITEMSIZE(t->array);
    }
    return view_over(t->array, ndim, shape, strides, PyArray_BYTES(t->array), 0);
}

/* The result, or NotImplemented. */
static PyObject *contracted(const Term *a, const Term *b, const Term *out) {
    Product p;
    if (PyArray_TYPE(a->array) != PyArray_TYPE(b->array) || !as_product(a, b, out, &p)) Py_RETURN_NOTIMPLEMENTED;
    const Term *left = p.turned ? b : a, *right = p.turned ? a : b;
    const npy_intp m = size_in(left, p.rows), n = size_in(right, p.columns);
    if ((m < 2 || n < 2) && PyArray_SIZE(left->array) * n > THIN) Py_RETURN_NOTIMPLEMENTED;
    PyObject *x = matrices(left, out, &p, p.rows, p.inner), *y = x ? matrices(right, out, &p, p.inner, p.columns) : NULL;
    PyObject *found = y ? gemm_product(x, 0, y, 0, Py_None) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    if (found && out->count < p.stack + 2) { /* without the axes that no letter names */
        npy_intp shape[MOST_LETTERS];
        for (int k = 0; k < p.stack; k++) shape[k] = PyArray_DIM((PyArrayObject *)found, k);
        if (p.rows) shape[p.stack] = m;
        if (p.columns) shape[p.stack + !!p.rows] = n;
        PyArray_Dims to = {shape, out->count};
        Py_SETREF(found, PyArray_Newshape((PyArrayObject *)found, &to, NPY_CORDER));
    }
    return found;
}

/* a, b, equation */
static PyObject *enter_einsum(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    Term terms[3];
    if (n != 3 || !read_terms(args[2], terms) || !names_axes(&terms[0], args[0]) || !names_axes(&terms[1], args[1]))
        Py_RETURN_NOTIMPLEMENTED;
    return contracted(&terms[0], &terms[1], &terms[2]);
}

/* g, tensors, equation, needs: of each operand the same with g in its place */
static PyObject *enter_einsum_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    Term terms[3];
    PyObject *found[2] = {NULL, NULL};
    if (n != 4 || !read_terms(args[2], terms) || !PyTuple_CheckExact(args[1]) || PyTuple_GET_SIZE(args[1]) != 2 ||
        !PyTuple_CheckExact(args[3]) || PyTuple_GET_SIZE(args[3]) != 2 || !names_axes(&terms[2], args[0]))
        Py_RETURN_NOTIMPLEMENTED;
    for (int k = 0; k < 2; k++)
        if (!names_axes(&terms[k], PyTuple_GET_ITEM(args[1], k))) Py_RETURN_NOTIMPLEMENTED;
    for (int k = 0; k < 6; k++) { /* an axis that was stretched is to be summed over */
        const Term *one = &terms[k / 2], *other = &terms[(k / 2 + 1 + k % 2) % 3];
        for (int j = 0; j < one->count; j++) {
            const int at = place(other, one->letters[j]);
            if (at >= 0 && PyArray_DIM(one->array, j) != PyArray_DIM(other->array, at)) Py_RETURN_NOTIMPLEMENTED;
        }
    }
    for (int k = 0; k < 2; k++) {
        found[k] = PyTuple_GET_ITEM(args[3], k) == Py_True ? contracted(&terms[2], &terms[1 - k], &terms[k]) : Py_NewRef(Py_None);
        if (found[k] && found[k] != Py_NotImplemented) continue;
        PyObject *instead = found[k];
        if (k) Py_DECREF(found[0]);
        return instead;
    }
    PyObject *both = PyTuple_Pack(2, found[0], found[1]);
    Py_DECREF(found[0]);
    Py_DECREF(found[1]);
    return both;
}

static PyMethodDef einsum_entries[] = {
    {"einsum", (PyCFunction)(void (*)(void))enter_einsum, METH_FASTCALL, NULL},
    {"einsum.backward", (PyCFunction)(void (*)(void))enter_einsum_backward, METH_FASTCALL, NULL},
    {0},
};

int einsum_is_product(PyObject *equation, PyObject *const *arrays) {
    Term terms[3];
    Product p;
    return read_terms(equation, terms) && names_axes(&terms[0], arrays[0]) && names_axes(&terms[1], arrays[1]) &&
           as_product(&terms[0], &terms[1], &terms[2], &p);
}

int einsum_setup(PyObject *module) { return add_entries(module, einsum_entries); }
