"""Wav files bit by bit, resampling and spectrograms by their mathematics, gradients by finite differences."""

from __future__ import annotations

import math
import struct
import wave

import numpy as np
import pytest

import core
from core.audio import AudioFolder, functional, info, load, save, transforms
from core.utils.data import DataLoader

RATE = 8000


@pytest.fixture
def sound(rng):
    return core.tensor(rng.uniform(-1, 1, (2, 501)), dtype=core.float32)


KINDS = [
    ("PCM_U", 8, 2**-7, core.uint8),
    ("PCM_S", 16, 2**-15, core.int16),
    ("PCM_S", 24, 2**-23, core.int32),
    ("PCM_S", 32, 2**-24, core.int32),
    ("PCM_F", 32, 0, core.float32),
    ("PCM_F", 64, 0, core.float64),
]


@pytest.mark.parametrize(("encoding", "bits", "step", "dtype"), KINDS)
def test_there_and_back(tmp_path, sound, encoding, bits, step, dtype):
    path = tmp_path / "a.wav"
    save(path, sound, RATE, encoding=encoding, bits_per_sample=bits)
    assert info(path) == (RATE, 501, 2, bits, encoding)
    back, rate = load(path)
    assert rate == RATE
    assert back.dtype is core.float32
    assert (back - sound).abs().max().item() <= step
    native, _ = load(path, normalize=False)
    assert native.dtype is dtype
    again = tmp_path / "b.wav"
    save(again, native, RATE, encoding=encoding, bits_per_sample=bits)
    assert again.read_bytes() == path.read_bytes()
    part, _ = load(path, frame_offset=100, num_frames=50, channels_first=False)
    assert (part == back[:, 100:150].T).all()
    assert load(path, frame_offset=600)[0].shape == (2, 0)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_files_of_the_standard_library(tmp_path, rng, width):
    frames = rng.integers(0, 256, 3 * 100 * width).astype(np.uint8).tobytes()
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(3)
        file.setsampwidth(width)
        file.setframerate(44100)
        file.writeframes(frames)
    samples, rate = load(path)
    assert (rate, samples.shape) == (44100, (3, 100))
    for channel, frame in ((0, 0), (2, 57)):
        raw = frames[(3 * frame + channel) * width :][:width]
        value = raw[0] - 128 if width == 1 else int.from_bytes(raw, "little", signed=True)
        assert samples[channel, frame].item() == pytest.approx(value / 2 ** (8 * width - 1), abs=1e-7)
    save(tmp_path / "b.wav", load(path, normalize=False)[0], 44100, bits_per_sample=8 * width)
    with wave.open(str(tmp_path / "b.wav"), "rb") as file:
        assert file.readframes(1000) == frames


def test_loud_and_odd_values(tmp_path):
    path = tmp_path / "a.wav"
    save(path, core.tensor([2.0, -2.0, 1.0, float("nan")]), RATE, encoding="PCM_S")
    assert load(path, normalize=False)[0].tolist() == [[32767, -32768, 32767, 0]]
    assert info(path).bits_per_sample == 16


def test_extensible_headers_unknown_chunks_and_pipes(tmp_path):
    body = struct.pack("<4h", 1, 2, 3, 4)
    head = struct.pack("<HHIIHHHHI", 0xFFFE, 2, RATE, RATE * 4, 4, 16, 22, 16, 3) + b"\x01\0" + bytes(14)
    odd = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    for length in (8, 0xFFFFFFFF):
        data = odd + b"fmt " + struct.pack("<I", len(head)) + head + odd + b"data" + struct.pack("<I", length) + body
        (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", 4 + len(data)) + b"WAVE" + data)
        assert load(tmp_path / "a.wav", normalize=False)[0].tolist() == [[1, 3], [2, 4]]


def test_broken_files_name_file_and_byte(tmp_path, sound):
    path = tmp_path / "a.wav"
    save(path, sound, RATE, encoding="PCM_S")
    whole = path.read_bytes()

    def fails(data, *phrases):
        path.write_bytes(data)
        for work in (load, info):
            with pytest.raises(RuntimeError, match=r"a.wav cannot be read as a wav file: broken at byte") as error:
                work(path)
            for phrase in phrases:
                assert phrase in str(error.value), str(error.value)

    fails(b"", "byte 0", "an empty file")
    fails(b"ID3\x04" + whole, "byte 0", "is it a wav file?")
    fails(whole[:-7], f"byte {len(whole) - 7}", "1997 bytes of samples", "2004, in whole frames of 4")
    fails(whole[:30], "16 bytes or more")
    fails(whole[:36], "byte 36", "a chunk 'data'")
    fails(whole[:12], "byte 12", "a chunk 'fmt '")
    fails(whole[:20] + b"\x07\0" + whole[22:], "mu-law of 16 bits")
    fails(whole[:34] + b"\x0c\0" + whole[36:], "PCM of 12 bits")
    fails(whole[:12] + whole[36:], "samples", "'fmt ' before them")
    fails(whole[:22] + b"\0\0" + whole[24:], "0 channels")


def test_saving_errors(tmp_path, sound):
    with pytest.raises(ValueError, match=r"has to be 2D"):
        save(tmp_path / "a.wav", sound[None], RATE)
    with pytest.raises(ValueError, match=r"no PCM_F of 16 bits"):
        save(tmp_path / "a.wav", sound, RATE, encoding="PCM_F", bits_per_sample=16)
    with pytest.raises(ValueError, match="samples of int64 are not known"):
        save(tmp_path / "a.wav", core.zeros(1, 4, dtype=core.int64), RATE)
    with pytest.raises(ValueError, match=r"channels_first=False\?"):
        save(tmp_path / "a.wav", core.zeros(70000, 2), RATE)
    assert not list(tmp_path.iterdir())


# -- mathematics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [(8000, 16000), (16000, 8000), (44100, 16000), (16000, 44100), (3, 2)])
@pytest.mark.parametrize("method", ["sinc_interp_hann", "sinc_interp_kaiser"])
def test_a_tone_stays_the_tone(old, new, method):
    f = 0.05 * min(old, new)
    t = np.arange(2000) / old
    x = core.tensor(np.stack([np.sin(2 * np.pi * f * t), np.cos(2 * np.pi * f * t)]))
    y = functional.resample(x, old, new, lowpass_filter_width=24, resampling_method=method).numpy()
    assert y.shape == (2, math.ceil(2000 * new / old))
    s = np.arange(y.shape[1]) / new
    middle = (s > 100 / min(old, new)) & (s < t[-1] - 100 / min(old, new))
    np.testing.assert_allclose(y[0, middle], np.sin(2 * np.pi * f * s[middle]), atol=2e-3)
    np.testing.assert_allclose(y[1, middle], np.cos(2 * np.pi * f * s[middle]), atol=2e-3)


def test_what_a_lower_rate_cannot_hold_is_gone():
    t = np.arange(4000) / 16000
    low = functional.resample(core.tensor(np.sin(2 * np.pi * 7000 * t)), 16000, 8000, lowpass_filter_width=32)
    assert low[200:-200].abs().max().item() < 1e-2
    x = core.rand(3, 50)
    assert functional.resample(x, 5, 5) is x
    with pytest.raises(TypeError, match="Expected floating point"):
        functional.resample(core.arange(9), 3, 2)
    with pytest.raises(ValueError, match="positive integers"):
        functional.resample(x, 2.5, 2)


def test_spectrogram_is_the_definition(rng):
    x = rng.normal(size=(2, 300))
    got = transforms.Spectrogram(64, hop_length=20, power=None, center=False)(core.tensor(x)).numpy()
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(64) / 64)
    for k in range(got.shape[-1]):
        want = np.fft.rfft(x[:, 20 * k : 20 * k + 64] * window)
        np.testing.assert_allclose(got[:, :, k], want, atol=1e-5)
    energy = transforms.Spectrogram(64, hop_length=20, center=False)(core.tensor(x)).numpy()
    np.testing.assert_allclose(energy, np.abs(got) ** 2, rtol=1e-4, atol=1e-6)
    scaled = transforms.Spectrogram(64, hop_length=20, power=1.0, center=False, normalized=True)(core.tensor(x)).numpy()
    np.testing.assert_allclose(scaled, np.abs(got) / np.sqrt((window**2).sum()), rtol=1e-4, atol=1e-6)


def test_a_tone_is_in_its_band():
    t = np.arange(16000) / 16000
    x = core.tensor(np.sin(2 * np.pi * 1000 * t), dtype=core.float32)
    assert transforms.Spectrogram(400)(x)[:, 20].argmax().item() == 25  # 1000 Hz / 40 Hz
    bands = transforms.MelSpectrogram(16000, n_mels=40)(x)[:, 20]
    centre = np.linspace(0, 2595 * math.log10(1 + 8000 / 700), 42)[1:-1][bands.argmax().item()]
    assert abs(700 * (10 ** (centre / 2595) - 1) - 1000) < 60


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_mel_bank(scale):
    bank = functional.melscale_fbanks(513, 0.0, 8000.0, 40, 16000, None, scale).numpy()
    assert bank.min() == 0
    assert bank.max() <= 1
    assert (np.diff(bank.argmax(0)) > 0).all()
    inner = bank[bank.argmax(0)[0] : bank.argmax(0)[-1]].sum(1)
    np.testing.assert_allclose(inner, 1.0, atol=1e-6)  # neighbouring triangles add to 1
    area = functional.melscale_fbanks(20001, 0.0, 8000.0, 40, 16000, "slaney", scale).numpy().sum(0) * 8000 / 20000
    np.testing.assert_allclose(area, 1.0, rtol=1e-3)
    with pytest.raises(ValueError, match="mel_scale should be"):
        functional.melscale_fbanks(9, 0.0, 1.0, 2, 2, None, "bark")


def test_dct_is_orthogonal():
    d = functional.create_dct(40, 40).numpy()
    np.testing.assert_allclose(d.T @ d, np.eye(40), atol=1e-6)
    plain = functional.create_dct(3, 4, None).numpy()
    np.testing.assert_allclose(plain[:, 0], 2.0)


def test_decibels():
    x = core.tensor([[[[1.0, 1e-4]], [[1e-2, 1e-12]]], [[[1e-3, 1e-20]], [[1e-3, 1e-3]]]])
    got = transforms.AmplitudeToDB("power", 50.0)(x)
    assert got.flatten().tolist() == pytest.approx([0, -40, -20, -50, -30, -80, -30, -30], abs=1e-3)
    assert transforms.AmplitudeToDB("magnitude")(core.tensor([[10.0]])).item() == pytest.approx(20.0)


def test_mfcc_of_its_parts_and_gradients(rng):
    x = core.tensor(rng.normal(size=(2, 800)), dtype=core.float32)
    mfcc = transforms.MFCC(n_mfcc=13, melkwargs={"n_mels": 30, "n_fft": 256})
    bands = transforms.AmplitudeToDB("power", 80.0)(mfcc.MelSpectrogram(x)).numpy()
    np.testing.assert_allclose(
        mfcc(x).numpy(), np.einsum("bmt,mk->bkt", bands, mfcc.dct_mat.numpy()), rtol=1e-4, atol=1e-4
    )
    assert "dct_mat" in mfcc.state_dict()
    with pytest.raises(ValueError, match="more MFCC coefficients"):
        transforms.MFCC(n_mfcc=200)


SMALL = [
    lambda: transforms.Spectrogram(16),
    lambda: transforms.MelSpectrogram(16000, 16, n_mels=4),
    lambda: transforms.Resample(3, 2),
    lambda: transforms.MFCC(16000, 3, log_mels=True, melkwargs={"n_fft": 16, "n_mels": 4}),
]


@pytest.mark.parametrize("make", SMALL)
def test_gradients(make):
    module = make().double()
    x = core.tensor(np.random.default_rng(0).normal(size=(1, 40)), requires_grad=True)
    assert core.autograd.gradcheck(module, (x,))


def test_silence_has_a_gradient():
    x = core.zeros(1, 100, requires_grad=True)
    transforms.Spectrogram(16)(x).sum().backward()
    assert x.grad.abs().max().item() == 0


# -- folders -----------------------------------------------------------------------------------------------------------


def test_audio_folder(tmp_path, sound):
    for name, rate in (("cat/1.wav", 8000), ("cat/2.WAV", 8000), ("dog/a/3.wav", 16000)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, sound, rate)
    data = AudioFolder(tmp_path)
    assert data.targets == [0, 0, 1]
    assert data[0][0].shape == (1, 501)
    with pytest.raises(RuntimeError, match=r"3.wav has another sample rate[\s\S]*16000 Hz[\s\S]*sample_rate=8000"):
        data[2]
    x, y = next(iter(DataLoader(AudioFolder(tmp_path, 8000, length=300, mono=False), batch_size=3)))
    assert x.shape == (3, 2, 300)
    assert (x[2, :, 251:] == 0).all()
    assert y.tolist() == [0, 0, 1]
    mel = AudioFolder(tmp_path, 8000, length=400, transform=transforms.MelSpectrogram(8000, 64, n_mels=8))
    assert mel[1][0].shape == (1, 8, 13)
