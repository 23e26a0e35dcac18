"""rsl-rl-lib: one PPO update of recurrent-free models."""

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict
from told import tell

torch.manual_seed(0)


def seen(k):
    return TensorDict({"policy": torch.linspace(-1, 1, 4 * 3).view(4, 3) * (k + 1)}, batch_size=[4])


groups = {"actor": ["policy"], "critic": ["policy"]}
actor = MLPModel(
    seen(0),
    groups,
    "actor",
    2,
    [8],
    distribution_cfg={"class_name": "rsl_rl.modules:GaussianDistribution"},
    obs_normalization=True,
)
critic = MLPModel(seen(0), groups, "critic", 1, [8])
storage = RolloutStorage("rl", 4, 6, seen(0), [2])
ppo = PPO(actor, critic, storage, num_learning_epochs=2, num_mini_batches=2)
for k in range(6):
    actions = ppo.act(seen(k))
    ppo.process_env_step(seen(k), actions.sum(1), torch.zeros(4), {})
ppo.compute_returns(seen(6))
losses = ppo.update()
tell(losses=losses, weights=[p.double().pow(2).sum() for p in [*actor.parameters(), *critic.parameters()]])
