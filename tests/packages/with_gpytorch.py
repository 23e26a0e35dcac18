"""gpytorch: an exact Gaussian process, two steps and a prediction."""

import gpytorch
import torch
from told import steps, tell


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


x = torch.linspace(0, 1, 20)
y = torch.sin(6 * x)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model(x, y, likelihood)
model.train()
likelihood.train()
marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
trained = steps(model.parameters(), lambda: -marginal(model(x), y), torch.optim.Adam(model.parameters(), lr=0.1))
model.eval()
likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    predicted = likelihood(model(torch.linspace(0, 1, 5)))
tell(trained=trained, mean=predicted.mean, variance=predicted.variance)
