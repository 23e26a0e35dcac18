"""torchio: augmentations of volumes, and a loader of patches."""

import torch
import torchio as tio
from told import steps, tell

torch.manual_seed(0)
image = tio.ScalarImage(tensor=torch.linspace(0, 1, 12**3).view(1, 12, 12, 12))
label = tio.LabelMap(tensor=(torch.linspace(0, 1, 12**3) > 0.5).view(1, 12, 12, 12))
subject = tio.Subject(image=image, label=label)
found = {}
for name, t in (
    ("z", tio.ZNormalization()),
    ("rescale", tio.RescaleIntensity((-1, 1))),
    ("flip", tio.RandomFlip(axes=(0, 1))),
    ("affine", tio.RandomAffine()),
    ("noise", tio.RandomNoise()),
    ("blur", tio.RandomBlur()),
    ("bias", tio.RandomBiasField()),
    ("gamma", tio.RandomGamma()),
    ("crop", tio.CropOrPad(8)),
    ("elastic", tio.RandomElasticDeformation(max_displacement=1)),
    ("motion", tio.RandomMotion()),
    ("onehot", tio.OneHot(3)),
):
    torch.manual_seed(1)
    made = t(subject)
    found[name] = [
        made["image"].data.float().mean(),
        made["image"].data.float().std(),
        made["label"].data.float().mean(),
    ]
loader = tio.SubjectsLoader(tio.SubjectsDataset([subject, subject]), batch_size=2)
batch = next(iter(loader))["image"][tio.DATA]
net = torch.nn.Conv3d(1, 1, 3)
sampler = tio.GridSampler(subject, 6, 2)
patches = [p["image"][tio.DATA].sum() for p in sampler]
tell(**found, trained=steps(net.parameters(), lambda: net(batch).square().mean()), patches=patches)
