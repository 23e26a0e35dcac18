"""From a call to a kernel: the kernel is picked and run, the node made, observers told."""
