"""Static quantisation and training for it: a small MobileNet on scikit-learn's digits, as PyTorch's tutorial goes."""

import os
import tempfile
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import core as torch
import core.nn as nn
from core.ao.quantization import DeQuantStub, QuantStub

TOLERANCE = {"float": 0.1, "static": 0.1, "per channel": 0.1, "trained": 0.1, "share of size": 0.2}

digits: Any = load_digits()
images = torch.from_numpy((digits.images / 16.0).astype(np.float32)).unsqueeze(1)
labels = torch.from_numpy(digits.target.astype(np.int64))
x_train, y_train, x_test, y_test = images[:1400], labels[:1400], images[1400:], labels[1400:]


class ConvBNReLU(nn.Sequential):
    def __init__(self, in_planes, out_planes, kernel_size=3, stride=1, groups=1):
        padding = (kernel_size - 1) // 2
        super().__init__(
            nn.Conv2d(in_planes, out_planes, kernel_size, stride, padding, groups=groups, bias=False),
            nn.BatchNorm2d(out_planes, momentum=0.1),
            nn.ReLU(inplace=False),
        )


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand_ratio):
        super().__init__()
        hidden = round(inp * expand_ratio)
        self.use_res_connect = stride == 1 and inp == oup
        self.conv = nn.Sequential(
            ConvBNReLU(inp, hidden, kernel_size=1),
            ConvBNReLU(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, oup, 1, 1, 0, bias=False),
            nn.BatchNorm2d(oup, momentum=0.1),
        )
        self.skip_add = nn.quantized.FloatFunctional()

    def forward(self, x):
        if self.use_res_connect:
            return self.skip_add.add(x, self.conv(x))
        return self.conv(x)


class SmallMobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            ConvBNReLU(1, 8), InvertedResidual(8, 16, 2, 2), InvertedResidual(16, 16, 1, 2), ConvBNReLU(16, 32, 1)
        )
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(32, 10))

    def forward(self, x):
        x = self.quant(x)
        x = self.features(x)
        x = x.mean([2, 3])
        x = self.classifier(x)
        return self.dequant(x)

    def fuse_model(self, is_qat=False):
        fuse = torch.ao.quantization.fuse_modules_qat if is_qat else torch.ao.quantization.fuse_modules
        for m in self.modules():
            if type(m) is ConvBNReLU:
                fuse(m, ["0", "1", "2"], inplace=True)
            if type(m) is InvertedResidual:
                fuse(m.conv, ["2", "3"], inplace=True)


def train(model, steps, lr):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    for _ in range(steps):
        batch = torch.randint(len(x_train), (64,))
        loss = nn.functional.cross_entropy(model(x_train[batch]), y_train[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(model):
    model.eval()
    with torch.no_grad():
        return (model(x_test).argmax(1) == y_test).float().mean().item()


def size_of(model):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "temp.p")
        torch.save(model.state_dict(), path)
        return os.path.getsize(path)


def calibrate(model):
    model.eval()
    with torch.no_grad():
        for i in range(0, 320, 32):
            model(x_train[i : i + 32])


def post_training(state, qconfig):
    model = SmallMobileNet()
    model.load_state_dict(state)
    model.eval()
    model.fuse_model()
    model.qconfig = qconfig
    torch.ao.quantization.prepare(model, inplace=True)
    calibrate(model)
    torch.ao.quantization.convert(model, inplace=True)
    return model


def results():
    torch.manual_seed(0)
    float_model = SmallMobileNet()
    train(float_model, 150, 1e-2)
    found = {"float": evaluate(float_model)}
    state = float_model.state_dict()

    static = post_training(state, torch.ao.quantization.default_qconfig)
    found["static"] = evaluate(static)
    found["per channel"] = evaluate(post_training(state, torch.ao.quantization.get_default_qconfig("x86")))
    found["share of size"] = size_of(static) / size_of(float_model)

    qat_model = SmallMobileNet()
    qat_model.load_state_dict(state)
    qat_model.fuse_model(is_qat=True)
    qat_model.qconfig = torch.ao.quantization.get_default_qat_qconfig("x86")
    qat_model.train()
    torch.ao.quantization.prepare_qat(qat_model, inplace=True)
    for epoch in range(4):
        train(qat_model, 12, 1e-3)
        if epoch > 2:
            qat_model.apply(torch.ao.quantization.disable_observer)
        if epoch > 1:
            qat_model.apply(torch.nn.intrinsic.qat.freeze_bn_stats)
    trained = torch.ao.quantization.convert(qat_model.eval(), inplace=False)
    found["trained"] = evaluate(trained)
    return found


if __name__ == "__main__":
    for name, value in results().items():
        print(f"{name:14} {value:.3f}")
