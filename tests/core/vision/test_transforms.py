"""The transforms against Pillow, against arithmetic written out, and against themselves on the other kind of image."""

from __future__ import annotations

import math
import pickle
import sys

import numpy as np
import pytest
from PIL import Image

import core
from core.vision import transforms
from core.vision.transforms import InterpolationMode, drawing
from core.vision.transforms import functional as F


@pytest.fixture
def photo(rng):
    """Smooth enough that half a pixel's shift is no large difference: 24×32, RGB."""
    y, x = np.mgrid[0:24, 0:32]
    waves = [np.sin(x / 5 + k) + np.cos(y / 4 - k) for k in range(3)]
    array = np.stack(waves, -1) * 50 + 128 + rng.normal(0, 4, (24, 32, 3))
    return Image.fromarray(array.clip(0, 255).astype(np.uint8))


def both(photo):
    return F.pil_to_tensor(photo), photo


def near(tensor, image, levels, share=1.0):
    """Whether a share of the values of a uint8 tensor is within so many levels of a Pillow image's."""
    there = np.asarray(image)
    there = there[None] if there.ndim == 2 else there.transpose(2, 0, 1)
    gap = np.abs(tensor.numpy().astype(int) - there.astype(int))
    assert tensor.shape == there.shape
    assert (gap <= levels).mean() >= share, f"{(gap <= levels).mean():.4f} within {levels}; largest gap {gap.max()}"


def inside(work, a, b):
    """The pixels that come from the image alone: at its border Pillow does not mix with the fill."""
    white = (work(core.full((3, 24, 32), 255, dtype=core.uint8)).numpy() == 255).all(0)
    white &= (np.asarray(work(Image.new("RGB", (32, 24), "white"))) == 255).all(-1)
    assert white.mean() > 0.3
    return core.tensor(a.numpy()[:, None, white]), np.asarray(b)[white][None]


# -- conversion --------------------------------------------------------------------------------------------------------


def test_to_tensor_and_back(photo):
    t = transforms.ToTensor()(photo)
    assert t.dtype is core.float32
    assert t.shape == (3, 24, 32)
    np.testing.assert_array_equal(t.numpy(), (np.asarray(photo).astype(np.float32) / 255).transpose(2, 0, 1))
    assert (np.asarray(transforms.ToPILImage()(t)) == np.asarray(photo)).all()
    assert (transforms.ToTensor()(np.asarray(photo)) == t).all()
    assert (transforms.ToTensor()(F.pil_to_tensor(photo)) == t).all()


@pytest.mark.parametrize(
    ("mode", "dtype"), [("L", core.uint8), ("I", core.int32), ("F", core.float32), ("1", core.uint8)]
)
def test_modes(mode, dtype):
    image = Image.new(mode, (4, 3), 1)
    t = F.pil_to_tensor(image)
    assert t.dtype is dtype
    assert t.shape == (1, 3, 4)
    assert t.max().item() == (255 if mode == "1" else 1)
    if mode != "1":
        assert F.to_pil_image(t, None if mode != "F" else "F").mode == mode


def test_alpha_and_pictures_of_sixteen_bits():
    t = core.arange(24, dtype=core.uint8).reshape(4, 2, 3)
    assert F.to_pil_image(t).mode == "RGBA"
    assert F.to_pil_image(t, "CMYK").mode == "CMYK"
    assert F.to_pil_image(t[:2]).mode == "LA"
    deep = Image.fromarray(np.array([[0, 65535]], np.uint16))
    assert F.pil_to_tensor(deep).tolist() == [[[0, 65535]]]


def test_conversion_errors():
    with pytest.raises(TypeError, match="pic should be PIL Image or ndarray"):
        F.to_tensor([1, 2])
    with pytest.raises(ValueError, match=r"2/3 dimensional\. Got 4"):
        F.to_pil_image(core.zeros(1, 3, 2, 2))
    with pytest.raises(ValueError, match=r"> 4 channels\. Got 5"):
        F.to_pil_image(core.zeros(5, 2, 2))
    with pytest.raises(ValueError, match="Only modes"):
        F.to_pil_image(core.zeros(3, 2, 2), "L")
    with pytest.raises(TypeError, match=r"Unexpected type[\s\S]*remedy: transforms.ToTensor"):
        F.resize("cat.png", 3)


def test_normalize(rng):
    x = core.tensor(rng.random((2, 3, 4, 5)), dtype=core.float32)
    y = transforms.Normalize([0.1, 0.2, 0.3], [1.0, 2.0, 4.0])(x)
    want = (x.numpy() - np.array([0.1, 0.2, 0.3]).reshape(3, 1, 1)) / np.array([1.0, 2.0, 4.0]).reshape(3, 1, 1)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-6, atol=1e-7)
    z = x.clone()
    assert transforms.Normalize([0.1, 0.2, 0.3], [1.0, 2.0, 4.0], inplace=True)(z) is z
    assert (z == y).all()
    with pytest.raises(TypeError, match="should be a float tensor"):
        F.normalize(core.zeros(3, 2, 2, dtype=core.uint8), [0.5], [0.5])
    with pytest.raises(ValueError, match="division by zero"):
        F.normalize(x, [0.5], [0.0])
    with pytest.raises(ValueError, match="mean has 2 values and the image 3 channels"):
        F.normalize(x, [0.5, 0.5], [1.0])


def test_convert_image_dtype():
    every = core.arange(256, dtype=core.uint8).reshape(1, 16, 16)
    there = F.convert_image_dtype(every, core.float32)
    assert there.max().item() == 1.0
    assert (F.convert_image_dtype(there, core.uint8) == every).all()
    wide = F.convert_image_dtype(every, core.int16)
    assert wide.max().item() == 255 * 128
    assert (F.convert_image_dtype(wide, core.uint8) == every).all()
    with pytest.raises(RuntimeError, match="cannot be performed safely"):
        F.convert_image_dtype(there, core.int64)


# -- place -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [12, (7, 45), (48, 64), [9]])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resize_as_pillow(photo, size, mode):
    t, image = both(photo)
    resized = transforms.Resize(size, InterpolationMode(mode))(image)
    near(transforms.Resize(size, InterpolationMode(mode))(t), resized, 1)
    batch = F.resize(core.stack([t, t]), size, InterpolationMode(mode))
    assert (batch[1] == F.resize(t, size, InterpolationMode(mode))).all()


def test_resize_sizes(photo):
    assert F.resize(photo, 12).size == (16, 12)
    assert F.resize(photo, 12, max_size=13).size == (13, 9)
    assert F.resize(photo.transpose(2), 12).size == (12, 16)
    assert transforms.Resize(24)(photo) is photo
    assert F.resize(core.arange(4).reshape(1, 2, 2), 4, "nearest").tolist()[0][1] == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="max_size = 5 must be strictly greater"):
        F.resize(photo, 12, max_size=5)
    with pytest.raises(ValueError, match="unsupported with Tensor input: lanczos"):
        F.resize(core.zeros(3, 4, 4), 2, InterpolationMode.LANCZOS)
    with pytest.raises(ValueError, match="has no pixels"):
        F.resize(photo, 0)


@pytest.mark.parametrize("box", [(2, 3, 10, 12), (-3, -2, 10, 12), (20, 25, 10, 12), (-5, -5, 40, 50)])
def test_crop_as_pillow(photo, box):
    t, image = both(photo)
    near(F.crop(t, *box), F.crop(image, *box), 0)


@pytest.mark.parametrize("size", [10, (11, 7), (24, 32), (40, 41), (30, 5)])
def test_center_crop_as_pillow(photo, size):
    t, image = both(photo)
    near(transforms.CenterCrop(size)(t), transforms.CenterCrop(size)(image), 0)


def test_flips_and_many_crops(photo):
    t, image = both(photo)
    near(F.hflip(t), F.hflip(image), 0)
    near(F.vflip(t), F.vflip(image), 0)
    for a, b in zip(transforms.TenCrop(8)(t), transforms.TenCrop(8)(image), strict=True):
        near(a, b, 0)
    assert (transforms.FiveCrop((4, 5))(t)[3] == t[:, -4:, -5:]).all()
    with pytest.raises(ValueError, match="bigger than input size"):
        F.five_crop(t, 25)


@pytest.mark.parametrize(("mode", "named"), [("constant", "constant"), ("edge", "edge"), ("reflect", "reflect"),
                                            ("symmetric", "symmetric")])  # fmt: skip
@pytest.mark.parametrize("widths", [3, (2, 5), (1, 2, 3, 4)])
def test_pad_is_numpys(photo, mode, named, widths):
    t, image = both(photo)
    left, top, right, bottom = [*np.atleast_1d(widths)] * (4 // np.atleast_1d(widths).size)
    want = np.pad(np.asarray(image), ((top, bottom), (left, right), (0, 0)), named)
    widths = tuple(map(int, widths)) if isinstance(widths, tuple) else widths
    near(F.pad(t, widths, padding_mode=mode), want, 0)
    assert (np.asarray(F.pad(image, widths, padding_mode=mode)) == want).all()


def test_pad_filled_and_refused(photo):
    assert F.pad(photo, 1, fill=(9, 8, 7)).getpixel((0, 0)) == (9, 8, 7)
    assert F.pad(photo, 1, fill=5).getpixel((0, 0)) == (5, 5, 5)
    assert F.pad(core.zeros(1, 2, 2), -1).shape == (1, 0, 0)
    assert F.pad(core.arange(3).reshape(1, 1, 3), (-1, 0, 2, 0), padding_mode="edge").tolist() == [[[1, 2, 2, 2]]]
    with pytest.raises(ValueError, match="Padding mode should be"):
        transforms.Pad(1, padding_mode="mirror")
    with pytest.raises(ValueError, match="1, 2, or 4 element tuple, not a 3"):
        F.pad(photo, (1, 2, 3))


@pytest.mark.parametrize("angle", [90, 180, 270, -90])
def test_right_angles_are_exact(photo, angle):
    t, image = both(photo)
    turned = F.rotate(t, angle, expand=True)
    assert (turned == t.rot90(angle // 90, (-2, -1))).all()
    near(turned, F.rotate(image, angle, expand=True), 0)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("options", [{}, {"expand": True}, {"center": (3, 20)}, {"fill": (10, 200, 90)}])
def test_rotate_as_pillow(photo, mode, options):
    t, image = both(photo)
    work = lambda x: F.rotate(x, 33, InterpolationMode(mode), **options)
    a, b = work(t), work(image)
    if options.get("expand"):  # Pillow rounds the larger size its own way: the common middle is compared
        h, w = min(a.shape[1], b.height), min(a.shape[2], b.width)
        assert abs(a.shape[1] - b.height) <= 2
        near(F.center_crop(a, (h - 4, w - 4)), F.center_crop(b, (h - 4, w - 4)), 40, 0.95)
    else:
        near(*inside(work, a, b), 1, 0.99)


@pytest.mark.parametrize("settings", [(20, (3, -2), 1.2, (5, 0)), (0, (0, 0), 0.73, (0, 10)), (-40, (1, 1), 1.0, 12)])
def test_affine_as_pillow(photo, settings):
    t, image = both(photo)
    for mode in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
        work = lambda x, mode=mode: F.affine(x, *settings, mode)
        near(*inside(work, work(t), work(image)), 1, 0.99)


def test_affine_without_change_is_the_image_and_differentiable():
    x = core.rand(2, 3, 5, 6, requires_grad=True)
    y = F.affine(x, 0, (0, 0), 1.0, 0, InterpolationMode.BILINEAR)
    np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy(), atol=1e-5)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1.0, atol=1e-4)


# -- colour ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.7])
@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "sharpness"])
def test_adjustments_as_pillow(photo, name, factor):
    t, image = both(photo)
    work = getattr(F, f"adjust_{name}")
    near(work(t, factor), work(image, factor), 2, 0.995)
    floats = work(F.convert_image_dtype(t), factor)
    near(F.convert_image_dtype(floats, core.uint8), work(image, factor), 3, 0.995)


@pytest.mark.parametrize("factor", [-0.5, -0.2, 0.0, 0.3, 0.5])
def test_hue_as_colorsys(rng, factor):
    import colorsys

    x = rng.random((3, 6, 7))
    x[:, 0, 0] = 0.5  # grey has no hue
    got = F.adjust_hue(core.tensor(x), factor).numpy()
    for i in range(6):
        for j in range(7):
            h, s, v = colorsys.rgb_to_hsv(*x[:, i, j])
            np.testing.assert_allclose(got[:, i, j], colorsys.hsv_to_rgb((h + factor) % 1, s, v), atol=1e-9)


def test_hue_of_both_kinds(photo):
    t, image = both(photo)
    near(F.adjust_hue(t, 0.25), F.adjust_hue(image, 0.25), 12, 0.98)  # Pillow's HSV has eight bits
    with pytest.raises(ValueError, match=r"hue_factor \(0.7\)"):
        F.adjust_hue(t, 0.7)


def test_grey_invert_posterize_solarize_equalize_as_pillow(photo):
    t, image = both(photo)
    near(F.rgb_to_grayscale(t), F.to_grayscale(image), 1)
    assert F.rgb_to_grayscale(image, 3).mode == "RGB"
    near(F.invert(t), F.invert(image), 0)
    near(F.posterize(t, 3), F.posterize(image, 3), 0)
    near(F.solarize(t, 128), F.solarize(image, 128), 0)
    near(F.equalize(t), F.equalize(image), 1)
    near(F.autocontrast(t), F.autocontrast(image), 1)
    near(F.adjust_gamma(t, 0.6), F.adjust_gamma(image, 0.6), 1)


def test_blur_is_the_bell(photo):
    t, image = both(photo)
    flat = F.gaussian_blur(core.full((2, 3, 9, 9), 0.25), (3, 5), (0.7, 1.3))
    np.testing.assert_allclose(flat.numpy(), 0.25, atol=1e-6)
    spot = core.zeros(1, 9, 9)
    spot[0, 4, 4] = 1.0
    got = F.gaussian_blur(spot, 5, 1.0).numpy()[0, 2:7, 2:7]
    bell = np.exp(-0.5 * np.arange(-2, 3) ** 2.0)
    bell /= bell.sum()
    np.testing.assert_allclose(got, np.outer(bell, bell), atol=1e-6)
    near(F.gaussian_blur(t, 3, 0.8), F.gaussian_blur(image, 3, 0.8), 0)
    with pytest.raises(ValueError, match="odd and positive"):
        F.gaussian_blur(t, 4)


# -- random ------------------------------------------------------------------------------------------------------------

RANDOM = [
    transforms.RandomCrop(20, padding=3, padding_mode="reflect"), transforms.RandomResizedCrop(16),
    transforms.RandomHorizontalFlip(), transforms.RandomVerticalFlip(), transforms.RandomRotation(30),
    transforms.RandomAffine(20, (0.1, 0.2), (0.8, 1.2), (-5, 5, -3, 3)), transforms.ColorJitter(0.4, 0.4, 0.4, 0.2),
    transforms.RandomGrayscale(0.5), transforms.GaussianBlur(5), transforms.RandomErasing(),
    transforms.RandomAdjustSharpness(2.0), transforms.RandomInvert(), transforms.RandomPosterize(4),
    transforms.RandomSolarize(100), transforms.RandomAutocontrast(), transforms.RandomEqualize(),
    transforms.RandomApply([transforms.RandomCrop(9)], 0.4),
    transforms.RandomChoice([transforms.RandomCrop(9), transforms.CenterCrop(9)]),
    transforms.RandomOrder([transforms.RandomCrop(9), transforms.RandomRotation(9)]),
]  # fmt: skip


@pytest.mark.parametrize("transform", RANDOM, ids=lambda t: type(t).__name__)
def test_a_seed_repeats_and_kinds_agree(photo, transform):
    t = F.pil_to_tensor(photo)
    repeated = pickle.loads(pickle.dumps(transform))  # as a worker process gets it
    seen = set()
    for seed in range(8):
        core.manual_seed(seed)
        a = transform(t)
        core.manual_seed(seed)
        batch = repeated(core.stack([t, t]))
        assert (batch[0] == a).all()
        assert (batch[0] == batch[1]).all()
        seen.add(a.numpy().tobytes())
        if not isinstance(transform, transforms.RandomErasing):
            core.manual_seed(seed)
            assert F.pil_to_tensor(transform(photo)).shape == a.shape
    assert len(seen) > 1
    assert type(transform).__name__ in repr(transform)


def test_draws_are_pytorchs():
    """Figures of torch 2.13: manual_seed(0); rand(1); empty(1).uniform_(-3, 5); randint(0, 10, (1,)); randperm(4)."""
    core.manual_seed(0, kind="torch")
    assert drawing.uniform() == pytest.approx(0.49625658988952637)
    assert drawing.uniform(-3, 5) == pytest.approx(3.1457743644714355)
    core.manual_seed(0, kind="torch")
    assert [drawing.integer(10) for _ in range(3)] == [4, 9, 3]
    core.manual_seed(0, kind="torch")
    assert drawing.order(4) == [0, 1, 3, 2]
    core.manual_seed(0)


def test_frequencies():
    core.manual_seed(1)
    x = core.tensor([[[1.0, 0.0]]])
    flip, choice = transforms.RandomHorizontalFlip(0.3), transforms.RandomChoice([lambda k: 0, lambda k: 1], p=[1, 3])
    assert np.mean([flip(x)[0, 0, 1].item() for _ in range(2000)]) == pytest.approx(0.3, abs=0.04)
    assert np.mean([choice(x) for _ in range(2000)]) == pytest.approx(0.75, abs=0.04)
    places = [transforms.RandomCrop.get_params(core.zeros(1, 5, 4), (3, 3))[:2] for _ in range(600)]
    assert set(places) == {(i, j) for i in range(3) for j in range(2)}


def test_resized_crops_are_as_asked():
    core.manual_seed(0)
    image = core.zeros(3, 100, 200)
    areas, ratios = [], []
    for _ in range(500):
        _, _, h, w = transforms.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
        areas.append(h * w / 20000)
        ratios.append(math.log(w / h))
    assert 0.075 < min(areas) < 0.15
    assert max(areas) <= 0.67 + 0.01  # a square of the height, times 4/3, is the most
    assert min(ratios) > -0.31
    assert max(ratios) < 0.31
    assert abs(np.mean(ratios)) < 0.06  # an area too large for a wide one is drawn again
    assert transforms.RandomResizedCrop.get_params(core.zeros(1, 2, 90), (1, 1), (3 / 4, 4 / 3)) == (0, 43, 2, 3)


def test_erasing():
    core.manual_seed(0)
    image = core.ones(3, 40, 40)
    erased = transforms.RandomErasing(1.0, value=(0.0, 0.5, 2.0))(image)
    hole = (erased != 1).numpy()[0]
    rows, columns = np.flatnonzero(hole.any(1)), np.flatnonzero(hole.any(0))
    assert hole[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
    assert hole.mean() + 0.01 >= 0.02
    assert hole.mean() <= 0.34
    assert erased[1].min().item() == 0.5
    noise = transforms.RandomErasing(1.0, value="random")(image)
    assert len(set(noise[noise != 1].tolist())) > 50
    with pytest.raises(TypeError, match="put it after ToTensor"):
        transforms.RandomErasing(1.0)(F.to_pil_image(image))


def test_jitter_within_its_bounds():
    jitter = transforms.ColorJitter(brightness=0.2)
    assert jitter.brightness == (0.8, 1.2)
    assert jitter.hue is None
    core.manual_seed(0)
    values = [jitter(core.full((3, 1, 1), 0.5))[0].item() for _ in range(200)]
    assert 0.4 <= min(values) < 0.42
    assert 0.58 < max(values) <= 0.6
    with pytest.raises(ValueError, match="hue values should be between"):
        transforms.ColorJitter(hue=0.6)


@pytest.mark.parametrize("kind", [transforms.MixUp, transforms.CutMix])
def test_mixing_keeps_the_labels_in_step(kind):
    core.manual_seed(0)
    labels = core.arange(6)
    images = labels.float().reshape(6, 1, 1, 1).expand(6, 2, 16, 12).clone()
    for _ in range(20):
        mixed, shares = kind(num_classes=6, alpha=0.8)(images, labels)
        np.testing.assert_allclose(shares.sum(1).numpy(), 1.0, rtol=1e-5)
        # every picture is its label everywhere: the mean pixel must be the labels' weighted mean
        np.testing.assert_allclose(mixed.mean((1, 2, 3)).numpy(), (shares * core.arange(6)).sum(1).numpy(), atol=1e-4)
    loss = core.nn.functional.cross_entropy(core.randn(6, 6), shares)
    assert math.isfinite(loss.item())
    with pytest.raises(ValueError, match="num_classes must be passed"):
        kind()(images, labels)
    with pytest.raises(TypeError, match="on what the DataLoader gives"):
        kind(num_classes=2)(images)


def test_in_a_sequential_and_said(photo):
    both = core.nn.Sequential(transforms.Resize(12), transforms.ToTensor())
    assert both(photo).shape == (3, 12, 16)
    said = repr(transforms.Compose([transforms.Resize((4, 5)), transforms.Normalize([0.5], [0.2])]))
    assert said == (
        "Compose(\n    Resize(size=(4, 5), interpolation=bilinear, max_size=None, antialias=True)\n"
        "    Normalize(mean=[0.5], std=[0.2])\n)"
    )


def test_tensors_need_no_pillow(monkeypatch):
    for name in [n for n in sys.modules if n == "PIL" or n.startswith("PIL.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "PIL", None)
    jitter = transforms.ColorJitter(0.3, 0.3, 0.3, 0.1)
    work = transforms.Compose([transforms.ToTensor(), transforms.RandomCrop(8, 2), jitter, transforms.RandomErasing(),
                               transforms.Normalize([0.5] * 3, [0.5] * 3)])  # fmt: skip
    assert work(core.randint(0, 256, (3, 9, 9), dtype=core.uint8)).shape == (3, 8, 8)
    with pytest.raises(ImportError, match="pip install 'gradlab"):
        transforms.ToPILImage()(core.zeros(1, 2, 2))
