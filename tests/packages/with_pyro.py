"""pyro-ppl: two steps of stochastic variational inference, and the parameters."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import Adam
from told import tell

pyro.set_rng_seed(0)
data = torch.tensor([1.0, 1.0, 0.0, 1.0, 0.0, 1.0])


def model(data):
    fairness = pyro.sample("fairness", dist.Beta(10.0, 10.0))
    with pyro.plate("data", len(data)):
        pyro.sample("observed", dist.Bernoulli(fairness), obs=data)
    pyro.sample("scale", dist.Normal(0.0, 1.0))


def guide(data):
    alpha = pyro.param("alpha", torch.tensor(15.0), constraint=dist.constraints.positive)
    beta = pyro.param("beta", torch.tensor(15.0), constraint=dist.constraints.positive)
    loc = pyro.param("loc", torch.tensor(0.5))
    pyro.sample("fairness", dist.Beta(alpha, beta))
    pyro.sample("scale", dist.Normal(loc, 1.0))


svi = SVI(model, guide, Adam({"lr": 0.01}), loss=Trace_ELBO())
pyro.clear_param_store()
normal = [svi_step for svi_step in (svi.evaluate_loss(data) * 0, svi.evaluate_loss(data) * 0)]
trace = pyro.poutine.trace(pyro.poutine.condition(model, {"fairness": torch.tensor(0.4), "scale": torch.tensor(0.2)}))
svi.step(data)
tell(normal=normal, log_prob=trace.get_trace(data).log_prob_sum(), names=float(len(list(pyro.get_param_store().keys()))))
