"""``python -m lab tune export`` and ``import``: the tuner's results as files, and files of others as results.

``python -m lab tune export python`` prints the choices as `triton.Config` objects; ``json`` all that is known;
``kernel_tuner`` and ``t4`` one kernel at one shape; ``bundle`` a GPU's choices, to ship as its defaults.
``import FILE`` reads any of the three JSON formats.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from triton_kernels.tune import bundled, exchange
from triton_kernels.tune import problem as problems
from triton_kernels.tune.store import Store

from ..console.options import Parser


def parser() -> argparse.ArgumentParser:
    """Return the grammar of the two commands."""
    made = Parser(prog="python -m lab tune", description=__doc__, example="python -m lab tune export python")
    parts = made.add_subparsers(dest="what", required=True, parser_class=Parser)
    out = parts.add_parser("export", help="print results, or write them into a file")
    out.add_argument("format", metavar="FORMAT", help=", ".join(exchange.FORMATS))
    out.add_argument("kernel", nargs="?", default="", help="such as matmul_f32; all where none is named")
    out.add_argument("shape", nargs="?", default="", help="such as 512x512x512")
    out.add_argument("dtype", nargs="?", default="", help="such as float32")
    out.add_argument("--device", default="", help="such as 'NVIDIA H100 80GB HBM3 (sm_90)'; all where none is named")
    out.add_argument("-o", "--output", type=Path, help="a file; it must not exist")
    into = parts.add_parser("import", help="take results of a file into the store")
    into.add_argument("file", type=Path, help="JSON of gradlab's, a cache file of Kernel Tuner, or T4 results")
    into.add_argument("--kernel", default="", help="which kernel they are of, where the file does not say")
    into.add_argument("--shape", default="", help="which shape, such as 512x512")
    into.add_argument("--dtype", default="", help="which dtype (float32)")
    into.add_argument("--device", default="", help="which device, where the file does not say")
    into.add_argument("--choices", action="store_true", help="take over its choices too (gradlab's JSON alone has any)")
    return made


def main(argv: list[str]) -> int:
    """0, or 2 for what cannot be done."""
    options = parser().parse_args(argv)
    try:
        with Store() as store:
            if options.what == "import":
                shape = problems.parse_shape(options.shape) if options.shape else ()
                found = exchange.read(options.file, options.kernel, options.dtype, options.device, shape)
                count = exchange.take_in(store, found, options.choices)
                names = ", ".join(sorted({p["kernel"] for p in found}))
                print(f"{count:,} trials of {names} are in {store.where}")
                return 0
            shape = problems.parse_shape(options.shape) if options.shape else ()
            text = exchange.export(store, options.format, options.kernel, shape, options.dtype, options.device)
        if options.format == "bundle" and options.output is None:
            name = bundled.file_of(json.loads(text)["device"])
            print(f"lab: it ships, and is found, as triton_kernels/bundled/{name}", file=sys.stderr)
        if options.output is None:
            print(text, end="")
        else:
            with options.output.open("x", encoding="utf-8") as file:
                file.write(text)
            print(f"wrote {options.output}")
    except (OSError, ValueError) as error:
        print(f"lab: tune {options.what}: {error}", file=sys.stderr)
        return 2
    return 0
