/* einsum as a product of matrices, or of stacks of them. The operands are read where they lie, by their strides. */
#include "kernels/einsum.h"

enum { THIN = 4096 }; /* multiplications up to which a product with a vector is made here */

/* A term's letters, and the array whose axes they name. */
typedef struct {
    const strided *array;
    int count;
    char letters[MOST_LETTERS];
} Term;

static int place(const Term *t, char letter) {
    for (int k = 0; k < t->count; k++)
        if (t->letters[k] == letter) return k;
    return -1;
}

/* Reads "ij,jk->ik". 0 where it is not for us. */
static int read_terms(const char *c, Term *terms) {
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

/* Whether letters name the axes of an array that has items. */
static int names_axes(Term *t, const strided *array) {
    t->array = array;
    return array->ndim == t->count && sizes_multiplied(array->shape, array->ndim);
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
            else if (mine->array->shape[k] != other->array->shape[there]) return 0;
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

static ptrdiff_t size_in(const Term *t, char letter) { return letter ? t->array->shape[place(t, letter)] : 1; }

/* The operand as a stack of matrices of two letters. */
static strided matrices(const Term *t, const Term *out, const Product *p, char down, char across, ptrdiff_t *shape,
                        ptrdiff_t *strides) {
    const int ndim = p->stack + 2;
    for (int k = 0; k < ndim; k++) {
        const char letter = k < p->stack ? out->letters[k] : k == p->stack ? down : across;
        shape[k] = size_in(t, letter);
        strides[k] = letter ? t->array->strides[place(t, letter)] : t->array->item;
    }
    return (strided){t->array->data, ndim, shape, strides, t->array->item};
}

static int contracted(const Term *a, const Term *b, const Term *out, einsum_plan *plan) {
    Product p;
    ptrdiff_t sizes[4][MOST_LETTERS + 2];
    if (!as_product(a, b, out, &p)) return 0;
    const Term *left = p.turned ? b : a, *right = p.turned ? a : b;
    const ptrdiff_t m = size_in(left, p.rows), n = size_in(right, p.columns);
    if ((m < 2 || n < 2) && sizes_multiplied(left->array->shape, left->array->ndim) * n > THIN) return 0;
    const strided x = matrices(left, out, &p, p.rows, p.inner, sizes[0], sizes[1]);
    const strided y = matrices(right, out, &p, p.inner, p.columns, sizes[2], sizes[3]);
    plan->ndim = out->count;
    plan->strides_there = 0;
    for (int k = 0; k < p.stack; k++) plan->shape[k] = x.shape[k];
    if (p.rows) plan->shape[p.stack] = m; /* without the axes that no letter names */
    if (p.columns) plan->shape[p.stack + !!p.rows] = n;
    return gemm_planned(&plan->product, &x, 0, &y, 0);
}

int einsum_is_product(const char *equation, const strided *a, const strided *b) {
    Term terms[3];
    Product p;
    return read_terms(equation, terms) && names_axes(&terms[0], a) && names_axes(&terms[1], b) &&
           as_product(&terms[0], &terms[1], &terms[2], &p);
}

int einsum_planned(einsum_plan *plan, const char *equation, const strided *a, const strided *b) {
    Term terms[3];
    return read_terms(equation, terms) && names_axes(&terms[0], a) && names_axes(&terms[1], b) &&
           contracted(&terms[0], &terms[1], &terms[2], plan);
}

int einsum_backward_planned(einsum_plan plans[2], const char *equation, const strided *g, const strided *a, const strided *b,
                            int wants_a, int wants_b) {
    Term terms[3];
    if (!read_terms(equation, terms) || !names_axes(&terms[0], a) || !names_axes(&terms[1], b) || !names_axes(&terms[2], g))
        return 0;
    for (int k = 0; k < 6; k++) { /* an axis that was stretched is to be summed over */
        const Term *one = &terms[k / 2], *other = &terms[(k / 2 + 1 + k % 2) % 3];
        for (int j = 0; j < one->count; j++) {
            const int at = place(other, one->letters[j]);
            if (at >= 0 && one->array->shape[j] != other->array->shape[at]) return 0;
        }
    }
    return (!wants_a || contracted(&terms[2], &terms[1], &terms[0], &plans[0])) &&
           (!wants_b || contracted(&terms[2], &terms[0], &terms[1], &plans[1]));
}

int einsum_backward_f32(const einsum_plan plans[2], float *ga, float *gb) {
    return (!ga || gemm_stack_f32(&plans[0].product, 0, ga)) && (!gb || gemm_stack_f32(&plans[1].product, 0, gb));
}

int einsum_backward_f64(const einsum_plan plans[2], double *ga, double *gb) {
    return (!ga || gemm_stack_f64(&plans[0].product, 0, ga)) && (!gb || gemm_stack_f64(&plans[1].product, 0, gb));
}
