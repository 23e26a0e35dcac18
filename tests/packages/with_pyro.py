"""pyro-ppl: three steps of stochastic variational inference with a guide of its own, and a Hamiltonian's energy."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from pyro.optim import Adam
from told import tell

pyro.set_rng_seed(0)
x = torch.linspace(-1, 1, 20)
y = (x > 0.2).float()


def model(x, y):
    slope = pyro.sample("slope", dist.Normal(0.0, 2.0))
    bias = pyro.sample("bias", dist.Normal(torch.zeros(1), torch.ones(1)).to_event(1))
    with pyro.plate("data", len(x)):
        pyro.sample("y", dist.Bernoulli(logits=slope * x + bias), obs=y)


guide = AutoNormal(model)
svi = SVI(model, guide, Adam({"lr": 0.05}), loss=Trace_ELBO(num_particles=2))
losses = [svi.step(x, y) for _ in range(3)]
given = pyro.poutine.condition(model, {"slope": torch.tensor(0.4), "bias": torch.tensor([0.2])})
tell(
    losses=losses,
    log_prob=pyro.poutine.trace(given).get_trace(x, y).log_prob_sum(),
    parameters=[p for _, p in sorted(pyro.get_param_store().items())],
    medians=list(guide.median(x, y).values()),
)
