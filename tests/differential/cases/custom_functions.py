import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x**3 * scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * ctx.scale * g, None


class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable(x > 0)
        return x * 2, x > 0

    @staticmethod
    def backward(ctx, g, _):
        return g * 2


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx, g):
        return g


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg()


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        raise ArithmeticError("of the user's own")


x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
Cube.apply(x, 0.5).sum().backward()
y, positive = Two.apply(x)
y.sum().backward()
z = x * 1
Add.apply(z).sum().backward()
Identity.apply(x).sum().backward()
(g,) = torch.autograd.grad(Cube.apply(x, 2).sum(), x, create_graph=True)
g.sum().backward()
print(x.grad, positive, Cube.apply(x, 1).requires_grad)
try:
    Cube.apply(x)
except TypeError as error:
    print("TypeError")
Broken.apply(x).sum().backward()
