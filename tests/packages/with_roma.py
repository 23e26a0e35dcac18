"""roma: rotations in every form, registration, slerp."""

import roma
import torch
from told import steps, tell

torch.manual_seed(0)
m = torch.nn.Parameter(torch.linspace(-1, 1, 18).view(2, 3, 3).sin() + torch.eye(3))
r = roma.rotvec_to_rotmat(torch.tensor([[0.3, 0.2, -0.5], [1.0, 0.1, 0.2]]))
a = torch.linspace(-20, 20, 30).sin().view(10, 3)  # spread in three directions: a flat cloud turns with its last bits
R, t = roma.rigid_points_registration(a, a @ r[0].T + 1)
q = roma.rotmat_to_unitquat(r)
tell(
    trained=steps([m], lambda: roma.rotmat_geodesic_distance(roma.special_procrustes(m), r).square().mean()),
    registered=[R, t],
    quat=q,
    vec=roma.unitquat_to_rotvec(q),
    slerp=roma.unitquat_slerp(q[0], q[1], torch.tensor([0.0, 0.3, 1.0])),
    euler=roma.unitquat_to_euler("xyz", q),
    gram=roma.special_gramschmidt(m[:, :, :2]),
    rigid=roma.Rigid(r, torch.ones(2, 3)).inverse().to_homogeneous(),
    random=roma.random_rotmat(2),
)
