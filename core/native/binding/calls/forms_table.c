/* The fast forms of public functions by their names: the one table that knows all files of this folder. */
#include "binding/write.h"

static const QuickForm other_forms[] = {
    {"cat", quick_cat}, {"stack", quick_stack}, {"backward", quick_backward}, {"split", quick_split}, {"chunk", quick_chunk},
    {"unbind", quick_unbind}, {"zero_", quick_zero_}, {"fill_", quick_fill_}, {"copy_", quick_copy_},
    {"setitem", quick_setitem}, {"masked_fill_", quick_masked_fill_}, {"index_select", quick_index_select},
    {"diag", quick_diag}, {"trace", quick_trace}, {"index_copy", quick_index_copy}, {"index_add", quick_index_add},
    {"nonzero", quick_nonzero}, {NULL, NULL}};
static const QuickForm *const tables[] = {view_forms, other_forms, kinds_forms, making_forms};

Quick quick_named(const char *name) {
    if (!name) return NULL;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const QuickForm *form = tables[t]; form->name; form++)
            if (!strcmp(form->name, name)) return form->quick;
    return NULL;
}
