"""Models that generate: weights, sequences, codes, samples, trees, memories."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def weights_generated_by_another_network() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Parameter(torch.randn(3))
            self.hyper = nn.Linear(3, 4 * 4 + 4)
            self.target = nn.Linear(4, 4).requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            made = self.hyper(self.embedding)
            weights = {"weight": made[:16].view(4, 4), "bias": made[16:]}
            y = torch.func.functional_call(self.target, weights, (x,))
            kernels = self.hyper(x[:, :3])[:, :8].reshape(-1, 1, 8)
            return y + F.conv1d(x[None].repeat(1, 1, 3), kernels, groups=len(x))[0, :, :4]

    return Model(), x(), {}


@unusual
def beam_search_over_a_decoder() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(5, 4)
            self.cell = nn.GRUCell(4, 4)
            self.out = nn.Linear(4, 5)

        @torch.no_grad()
        def forward(self, start: Tensor) -> tuple[Tensor, Tensor]:
            state = start[:1].expand(2, -1)
            tokens = torch.zeros(2, 1, dtype=torch.long)
            scores = torch.tensor([0.0, -1e9])
            for _ in range(4):
                state = self.cell(self.embed(tokens[:, -1]), state)
                total = scores[:, None] + self.out(state).log_softmax(-1)
                scores, best = total.view(-1).topk(2)
                beams, chosen = best // 5, best % 5
                tokens = torch.cat([tokens[beams], chosen[:, None]], 1)
                state = state.index_select(0, beams)
                if (chosen == 4).all():
                    break
            return tokens, scores

    return Model(), x(), {}


@unusual
def speculative_decoding_with_two_networks() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.draft = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
            self.check = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 5))

        @torch.no_grad()
        def forward(self, tokens: Tensor) -> Tensor:
            while tokens.numel() < 9:
                guess = tokens
                for _ in range(3):
                    guess = torch.cat([guess, self.draft(guess[-1:]).argmax(-1)])
                right = self.check(guess[tokens.numel() - 1 : -1]).argmax(-1)
                agreed = int((right == guess[tokens.numel() :]).long().cumprod(0).sum())
                tokens = torch.cat([tokens, right[: agreed + 1]])
            return tokens[:9]

    return Model(), (torch.tensor([1, 2]),), {}


@unusual
def vector_quantisation_with_a_moving_codebook() -> Case:
    class Model(nn.Module):
        codes: Tensor
        counts: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.encode, self.decode = nn.Linear(4, 2), nn.Linear(2, 4)
            self.register_buffer("codes", torch.randn(5, 2))
            self.register_buffer("counts", torch.ones(5))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z = self.encode(x)
            nearest = torch.cdist(z, self.codes).argmin(-1)
            chosen = F.embedding(nearest, self.codes)
            if self.training:
                with torch.no_grad():
                    hot = F.one_hot(nearest, 5).to(z)
                    self.counts.mul_(0.9).add_(hot.sum(0), alpha=0.1)
                    self.codes.lerp_((hot.T @ z) / self.counts[:, None], 0.1)
            straight = z + (chosen - z).detach()
            return self.decode(straight), F.mse_loss(z, chosen.detach())

    return Model().train(), (torch.randn(6, 4),), {}


@unusual
def coupling_layers_run_forwards_and_backwards() -> Case:
    class Coupling(nn.Module):
        def __init__(self, flip: bool) -> None:
            super().__init__()
            self.net = nn.Linear(2, 4)
            self.flip = flip

        def forward(self, x: Tensor, *, inverse: bool = False) -> tuple[Tensor, Tensor]:
            kept, changed = x.chunk(2, -1) if not self.flip else x.chunk(2, -1)[::-1]
            scale, shift = self.net(kept).tanh().chunk(2, -1)
            changed = (changed - shift) * (-scale).exp() if inverse else changed * scale.exp() + shift
            pieces = [kept, changed] if not self.flip else [changed, kept]
            return torch.cat(pieces, -1), scale.sum(-1)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Coupling(bool(k % 2)) for k in range(3))

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            z, total = x, torch.zeros(len(x))
            for layer in self.layers:
                z, change = layer(z)
                total = total + change
            back = z
            for layer in reversed(self.layers):
                back, _ = layer(back, inverse=True)
            return {"z": z, "log_det": total, "error": (back - x).abs().amax()}

    return Model(), x(), {}


@unusual
def reversible_layers_that_free_their_activations() -> Case:
    class Reversible(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, f: nn.Module, g: nn.Module, *parameters: Tensor) -> Tensor:  # type: ignore[override]
            left, right = x.detach().chunk(2, -1)
            left = left + f(right)
            right = right + g(left)
            result = torch.cat([left, right], -1)
            ctx.layers, ctx.result = (f, g), result.detach().clone()
            x.untyped_storage()
            return result

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
            f, g = ctx.layers
            left, right = ctx.result.chunk(2, -1)
            with torch.no_grad():
                right = right - g(left)
                left = left - f(right)
            with torch.enable_grad():
                x = torch.cat([left, right], -1).requires_grad_()
                a, b = x.chunk(2, -1)
                a = a + f(b)
                b = b + g(a)
                parameters = [*f.parameters(), *g.parameters()]
                found = torch.autograd.grad(torch.cat([a, b], -1), [x, *parameters], gradient)
            return found[0], None, None, *found[1:]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f, self.g = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(2):
                x = Reversible.apply(x, self.f, self.g, *self.f.parameters(), *self.g.parameters())  # type: ignore[no-untyped-call]
            return x

    return Model(), (torch.randn(3, 4, requires_grad=True),), {}


@unusual
def siamese_triplets_in_one_batch_and_apart() -> Case:
    class Model(Two):
        def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
            together = self.a(torch.cat([anchor, positive, negative]))
            a, p, n = F.normalize(together, dim=-1).chunk(3)
            margin = F.triplet_margin_loss(a, p, n)
            apart = [F.normalize(self.b(each), dim=-1) for each in (anchor, positive)]
            logits = apart[0] @ apart[1].T / 0.1
            return margin + F.cross_entropy(logits, torch.arange(len(logits)))

    return Model(), (torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)), {}


@unusual
def alignment_by_dynamic_programming() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emit = nn.Linear(4, 3)
            self.move = nn.Parameter(torch.randn(3, 3))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            scores = self.emit(x)
            alpha = scores[0]
            best, pointers = scores[0], []
            for score in scores[1:]:
                alpha = torch.logsumexp(alpha[:, None] + self.move, 0) + score
                best, pointer = (best[:, None] + self.move).max(0)
                best = best + score
                pointers.append(pointer)
            path = [int(best.argmax())]
            for pointer in reversed(pointers):
                path.append(int(pointer[path[-1]]))
            logs = scores.log_softmax(-1)[:, None]
            ctc = F.ctc_loss(logs, torch.tensor([[1, 2]]), torch.tensor([len(x)]), torch.tensor([2]))
            return alpha.logsumexp(0), torch.tensor(path[::-1]), ctc

    return Model(), (torch.randn(5, 4),), {}


@unusual
def rotary_cache_and_sliding_window() -> Case:
    class Model(nn.Module):
        cosine: Tensor
        sine: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(4, 12)
            angles = torch.outer(torch.arange(8.0), torch.tensor([1.0, 0.1]))
            self.register_buffer("cosine", angles.cos(), persistent=False)
            self.register_buffer("sine", angles.sin(), persistent=False)

        def turn(self, value: Tensor, start: int) -> Tensor:
            rows = slice(start, start + value.shape[-2])
            pairs = torch.view_as_complex(value.unflatten(-1, (2, 2)).contiguous())
            turned = pairs * torch.complex(self.cosine[rows], self.sine[rows])
            return torch.view_as_real(turned).flatten(-2)

        def forward(self, x: Tensor) -> Tensor:
            keys: Tensor | None = None
            values: Tensor | None = None
            found = []
            for position in range(x.shape[0]):
                q, k, v = self.qkv(x[position : position + 1]).chunk(3, -1)
                q, k = self.turn(q, position), self.turn(k, position)
                keys = k if keys is None else torch.cat([keys, k])[-2:]
                values = v if values is None else torch.cat([values, v])[-2:]
                found.append(F.scaled_dot_product_attention(q[None], keys[None], values[None])[0])
            return torch.cat(found)

    return Model(), (torch.randn(4, 4),), {}


@unusual
def diffusion_sampler_with_guidance() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Embedding(4, 4)
            self.net = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 4))
            self.classify = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            levels = torch.linspace(0.9, 0.1, 4).cumprod(0)
            for t in reversed(range(4)):
                with torch.enable_grad():
                    given = x.detach().requires_grad_()
                    score = self.classify(given).log_softmax(-1)[:, 0].sum()
                    (guide,) = torch.autograd.grad(score, given)
                with torch.no_grad():
                    both = torch.cat([x, x])
                    t_embed = self.time(torch.full((len(both),), t))
                    plain, conditioned = self.net(torch.cat([both, t_embed], -1)).chunk(2)
                    noise = plain + 2 * (conditioned - plain) - (1 - levels[t]).sqrt() * guide
                    x = (x - (1 - levels[t]).sqrt() * noise) / levels[t].sqrt()
                    if t:
                        x = x + 0.1 * torch.randn_like(x)
            return x

    return Model(), x(), {}


@unusual
def tree_of_words_composed_bottom_up() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.leaf = nn.Embedding(6, 4)
            self.join = nn.ModuleDict({"noun": nn.Linear(8, 4), "verb": nn.Bilinear(4, 4, 4)})

        def compose(self, tree: Any) -> Tensor:
            if isinstance(tree, int):
                return self.leaf.weight[tree]
            kind, left, right = tree
            a, b = self.compose(left), self.compose(right)
            return self.join[kind](torch.cat([a, b])) if kind == "noun" else self.join[kind](a[None], b[None])[0]

        def forward(self, trees: list[Any]) -> Tensor:
            return torch.stack([self.compose(tree) for tree in trees])

    return Model(), ([("verb", ("noun", 1, 2), 3), 4, ("noun", ("verb", 0, 5), ("noun", 1, 1))],), {}


@unusual
def memory_written_by_attention() -> Case:
    class Model(nn.Module):
        memory: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.controller = nn.LSTMCell(4, 4)
            self.erase, self.add = nn.Linear(4, 4), nn.Linear(4, 4)
            self.register_buffer("memory", torch.randn(3, 4))

        def forward(self, x: Tensor) -> Tensor:
            memory = self.memory.clone()
            h, c = x.new_zeros(1, 4), x.new_zeros(1, 4)
            read = x.new_zeros(1, 4)
            for row in x:
                h, c = self.controller(row[None] + read, (h, c))
                weight = F.cosine_similarity(h, memory, -1).softmax(0)
                memory = memory * (1 - weight[:, None] * self.erase(h).sigmoid()) + weight[:, None] * self.add(h)
                read = weight[None] @ memory
            self.memory.copy_(memory.detach())
            return read

    return Model(), x(), {}
