"""The networks against torchvision's: its keys and shapes, its numbers from the same seed, its files."""

from __future__ import annotations

import hashlib

import pytest

import core
from core import nn
from core.vision import models
from core.vision.models.mobilenetv2 import InvertedResidual
from core.vision.models.resnet import BasicBlock, Bottleneck
from core.vision.models.vision_transformer import MLPBlock

# entries of the state dict, parameters, and the hash of its names and shapes: torchvision 0.29.1's (`unet`: our own)
KEYS = {
    "mobilenet_v2": (314, 3504872, "37bbbce8932fd0c4"),
    "mobilenet_v3_large": (312, 5483032, "efe98e40831bae95"),
    "mobilenet_v3_small": (244, 2542856, "5f0efaf3ff4ac979"),
    "resnet101": (626, 44549160, "02c0f34f4842751f"),
    "resnet18": (122, 11689512, "84fb10d9c6905a1c"),
    "resnet34": (218, 21797672, "28f9096d51307499"),
    "resnet50": (320, 25557032, "d7e4f8bb0a536344"),
    "unet": (118, 31037698, "4e2dc89b4fccc38a"),
    "vit_b_16": (152, 86567656, "b124b34d9346c58c"),
    "vit_b_32": (152, 88224232, "f8bc3a1f2fd0c4c4"),
}
# a model, its logits after `course` and the sum of its first weight's gradient: torchvision 0.29.1 on PyTorch 2.13
SEEDED = {
    "ResNet-basic": (
        lambda: models.ResNet(BasicBlock, [1, 1, 1, 1], num_classes=3),
        [[-25.48705, -85.95363, 22.85848], [-24.6762, -81.59447, 28.83788]], 8.37091e06,
    ),
    "ResNet-bottleneck": (
        lambda: models.ResNet(Bottleneck, [1, 1, 2, 1], num_classes=3, groups=2, width_per_group=32,
                              replace_stride_with_dilation=[False, True, True]),
        [[-162.91684, -441.82735, -17.96062], [-200.60313, -437.30507, 25.91945]], 1.12254e08,
    ),
    "MobileNetV2": (
        lambda: models.MobileNetV2(num_classes=3, width_mult=0.25),
        [[-0.70747, -5.34843, -1.37153], [-0.70836, -5.35129, -1.38152]], 18.915,
    ),
    "mobilenet_v3_small": (
        lambda: models.mobilenet_v3_small(num_classes=3, width_mult=0.25),
        [[3.21896, 2.90426, -1.13446], [2.07201, -0.06972, 0.21761]], 232.508,
    ),
    "mobilenet_v3_large": (
        lambda: models.mobilenet_v3_large(num_classes=3, width_mult=0.25, reduced_tail=True, dilated=True),
        [[6.77474, 6.86167, 2.46557], [11.12861, 10.99858, 9.79471]], 7636.21,
    ),
    "VisionTransformer": (
        lambda: models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=3, representation_size=8),
        [[1.42995, -0.71908, 3.80063], [-0.95627, 3.01205, -0.88642]], 1879.94,
    ),
}  # fmt: skip


@pytest.fixture
def unfilled(monkeypatch):
    """No time for random numbers in weights that nobody looks at."""
    for name in ("kaiming_normal_", "kaiming_uniform_", "normal_", "trunc_normal_", "uniform_", "xavier_uniform_"):
        monkeypatch.setattr(nn.init, name, lambda tensor, *args, **kwargs: tensor)


@pytest.mark.parametrize("name", KEYS)
def test_keys_and_shapes(name, unfilled):
    model = getattr(models, name)()
    state = model.state_dict()
    said = "\n".join(f"{key} {tuple(t.shape)}" for key, t in state.items())
    parameters = sum(p.numel() for p in model.parameters())
    assert (len(state), parameters, hashlib.sha256(said.encode()).hexdigest()[:16]) == KEYS[name]


def test_every_model_is_in_the_table():
    assert {name for name in models.__all__ if not name[0].isupper()} == KEYS.keys()


def course(model):
    """Linear layers and norms that let much through, two passes that move the norms' averages, and the logits."""
    for m in model.modules():
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight)
        if isinstance(m, nn.BatchNorm2d):
            nn.init.constant_(m.weight, 2.0)
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    model.double().train()
    x = (core.arange(2 * 3 * 32 * 32) % 97).reshape(2, 3, 32, 32).double() / 97 - 0.5
    for _ in range(2):
        model(x)
    return model.eval()(x)


@pytest.mark.parametrize("name", SEEDED)
def test_logits_and_gradient_from_a_seed(name):
    make, logits, gradient = SEEDED[name]
    core.manual_seed(0, kind="torch")
    model = make()
    y = course(model)
    y.square().mean().backward()
    core.testing.assert_close(y, core.tensor(logits).double(), rtol=1e-6, atol=1e-5)
    assert float(next(model.parameters()).grad.abs().sum()) == pytest.approx(gradient, rel=1e-5)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_a_residual_block_that_begins_at_zero_adds_nothing():
    model = models.ResNet(BasicBlock, [2, 2, 2, 2], num_classes=3, zero_init_residual=True).eval()
    x = core.rand(1, 64, 8, 8)
    core.testing.assert_close(model.layer1(x), x)


# -- U-Net -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(16, 16), (17, 23), (8, 31)])
def test_unet_labels_every_pixel_and_learns(size):
    core.manual_seed(0)
    model = models.UNet(in_channels=1, num_classes=2, width=4, depth=3)
    x = core.rand(2, 1, *size)
    wanted = (x[:, 0] > 0.5).long()
    optimizer = core.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(30):
        y = model(x)
        loss = nn.functional.cross_entropy(y, wanted)
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in model.parameters())
        optimizer.step()
        losses.append(float(loss))
    assert y.shape == (2, 2, *size)
    assert losses[-1] < 0.6 * losses[0]


def test_unets_keys_are_those_of_its_docstring():
    state = models.UNet(width=4, depth=2).state_dict()
    assert {key.rsplit(".", 1)[0] for key in state} == {
        *(f"encoder.{i}.{layer}" for i in (0, 1) for layer in ("conv1", "norm1", "conv2", "norm2")),
        *(f"middle.{layer}" for layer in ("conv1", "norm1", "conv2", "norm2")),
        *(f"decoder.{i}.convs.{layer}" for i in (0, 1) for layer in ("conv1", "norm1", "conv2", "norm2")),
        "decoder.0.up", "decoder.1.up", "head",
    }  # fmt: skip


def test_unet_refuses_what_cannot_be_halved():
    with pytest.raises(ValueError, match=r"7×64 are too small to be halved 3 times\n.*at least 8×8.*smaller depth"):
        models.UNet(width=2, depth=3)(core.rand(1, 3, 7, 64))


# -- weights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_weights_of_a_file_with_the_number_of_classes_that_it_has(tmp_path, suffix):
    made = models.mobilenet_v2(width_mult=0.25, num_classes=5).eval()
    file = tmp_path / f"mobilenet.{suffix}"
    core.save(made.state_dict(), file, **({"format": "safetensors"} if suffix == "safetensors" else {}))
    read = models.mobilenet_v2(weights=file, width_mult=0.25).eval()
    x = core.rand(2, 3, 32, 32)
    core.testing.assert_close(read(x), made(x), rtol=0, atol=0)
    assert models.mobilenet_v2(weights=str(file), width_mult=0.25, num_classes=5).classifier[1].out_features == 5
    with pytest.raises(ValueError, match=r"expected value 5 but got 4.*\n.*model.classifier.1 = a layer for 4"):
        models.mobilenet_v2(weights=file, width_mult=0.25, num_classes=4)


def test_files_of_vision_transformers_with_the_older_keys(tmp_path):
    made = MLPBlock(4, 8, 0.0)
    old = {key.replace("0.", "linear_1.").replace("3.", "linear_2."): t for key, t in made.state_dict().items()}
    assert set(old) == {"linear_1.weight", "linear_1.bias", "linear_2.weight", "linear_2.bias"}
    whole = nn.Sequential(MLPBlock(4, 8, 0.0))
    whole.load_state_dict({f"0.{key}": t for key, t in old.items()})
    core.testing.assert_close(whole[0][3].weight, made[3].weight)


class Published:
    """As torchvision's enums of weights."""

    url = "https://example.org/models/resnet18-f37072fd.pth"


@pytest.mark.parametrize("weights", ["IMAGENET1K_V1", "DEFAULT", Published(), True])
def test_published_weights_are_not_fetched(weights):
    with pytest.raises(ValueError, match="not fetched from the network") as refused:
        models.resnet18(weights=weights)
    assert "op: resnet18" in str(refused.value)
    assert "weights='folder/resnet18" in str(refused.value)
    if isinstance(weights, Published):
        assert f"download {weights.url} once" in str(refused.value)


def test_the_older_argument_is_refused_with_the_same_remedy():
    with pytest.raises(ValueError, match=r"came: pretrained=True.*remedy: download it once"):
        models.vit_b_16(pretrained=True)
    assert models.mobilenet_v2(pretrained=False, width_mult=0.25).last_channel == 1280


def test_a_file_that_is_not_there_or_no_state_dict(tmp_path):
    with pytest.raises(FileNotFoundError):
        models.resnet18(weights=tmp_path / "none.pth")
    file = tmp_path / "checkpoint.pth"
    core.save({"model": {"w": core.ones(1)}, "epoch": 3}, file)
    with pytest.raises(ValueError, match=r"is not a state dict\n.*'model' in it.*core.load\(file\)\['model'\]"):
        models.resnet18(weights=file)


# -- what cannot be built ----------------------------------------------------------------------------------------------


def test_arguments_that_do_not_fit():
    with pytest.raises(ValueError, match="BasicBlock only supports groups=1"):
        models.resnet18(groups=2)
    with pytest.raises(ValueError, match="3-element tuple"):
        models.resnet50(replace_stride_with_dilation=[True])
    with pytest.raises(ValueError, match="non-empty or a 4-element list"):
        models.MobileNetV2(inverted_residual_setting=[[1, 16, 1]])
    with pytest.raises(ValueError, match="stride should be 1 or 2 instead of 3"):
        InvertedResidual(8, 8, 3, 6)
    with pytest.raises(AssertionError, match="indivisible by patch size"):
        models.vit_b_16(image_size=40)
    with pytest.raises(AssertionError, match=r"Wrong image width! Expected 32 but got 48(.|\n)*Resize\(\(32, 32\)\)"):
        models.VisionTransformer(32, 16, 1, 1, 4, 4)(core.rand(1, 3, 32, 48))
