"""Planning past this machine: what a training step would take on many GPUs, by a model of costs that says what it
assumes. `costs` reads a model, `machine` describes GPUs and the network between them, `estimate` puts them together,
`plan` looks for the best division; `here` measures this machine and checks predictions against runs on it."""
