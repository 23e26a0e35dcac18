"""Functions compiled at run time: `compile`, `compile_step`, on the tape, the lowering and the C of core.export."""
