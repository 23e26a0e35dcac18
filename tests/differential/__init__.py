"""The differential harness: every program runs with and without recording, and must not notice.

``python -m tests.differential`` runs the project's own programs, notebooks, planted and healthy cells and the cases of
this package on core; ``--torch`` runs them on PyTorch; ``--programs FOLDER`` runs programs from elsewhere.

A run happens in a process of its own, in an empty folder, with fixed seeds and one thread. What can be seen of it from
outside is an observation: output, displays, the exception and the user's frames in it, random states, the values of the
names left behind, the files written, and what else of the process a cell could change. `compare` tells how a recorded
run's observation differs from a plain one's. Where it differs the program runs plainly once more: what differs between
the two plain runs is not determined by the program, is left out of the comparison, and said.

What recording does show, to whoever asks for it, and no case asks: the garbage collector's first threshold, which is
raised while it lasts; notes in the metadata of PyTorch's graph nodes; and the recorder's own calls in a profiler.
"""
