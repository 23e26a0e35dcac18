"""A residual network with batch normalisation that reads handwritten digits (scikit-learn's, 8 x 8 pixels)."""

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import core as torch
import core.nn as nn
import core.nn.functional as F
from core.utils.data import DataLoader, TensorDataset

digits: Any = load_digits()
images = torch.from_numpy((digits.images / 16.0).astype(np.float32)).unsqueeze(1)
labels = torch.from_numpy(digits.target.astype(np.int64))
training = TensorDataset(images[:1500], labels[:1500])


def conv3x3(in_planes, out_planes, stride=1):
    return nn.Conv2d(in_planes, out_planes, kernel_size=3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block, layers, num_classes=10, width=16):
        super().__init__()
        self.inplanes = width
        self.conv1 = conv3x3(1, width)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = self._make_layer(block, width, layers[0])
        self.layer2 = self._make_layer(block, 2 * width, layers[1], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2 * width * block.expansion, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)
        for m in self.modules():
            if isinstance(m, BasicBlock):
                nn.init.constant_(m.bn2.weight, 0)

    def _make_layer(self, block, planes, blocks, stride=1):
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(
                nn.Conv2d(self.inplanes, planes * block.expansion, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(planes * block.expansion),
            )
        layers = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes * block.expansion
        layers += [block(self.inplanes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(x)


def train(model, steps):
    loader = DataLoader(training, batch_size=64, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=max(steps, 100))
    model.train()
    step = 0
    while True:
        for x, y in loader:
            if step == steps:
                return
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            yield loss.item()


def losses(steps):
    torch.manual_seed(0)
    return list(train(ResNet(BasicBlock, [1, 1]), steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = ResNet(BasicBlock, [2, 2])
    print(f"{sum(p.numel() for p in model.parameters() if p.requires_grad):,} parameters")
    for step, loss in enumerate(train(model, 230)):
        if step % 23 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    model.eval()
    with torch.no_grad():
        correct = (model(images[1500:]).argmax(dim=1) == labels[1500:]).sum().item()
    print(f"Right on {correct} of {len(labels) - 1500} digits written by people it has not seen.")
