"""Rules that read what is written and not what ran: of each name that they know a text in which it alone tells, and
texts that come close to what they speak of.

Nothing of the texts runs. `read_sentences.md` holds what is said of those in `CASES`;
``python -m tests.lab.diagnose.test_read_rules`` writes it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from lab.diagnose.agents import policy_gradients, probability_ratios, target_networks
from lab.diagnose.data import held_out, overlapping_windows, pictures_alone, samples_made, shared_numbers, wrong_parts
from lab.diagnose.evaluation import counted_wrongly, judged_wrongly, kept_models
from lab.diagnose.finding import Found
from lab.diagnose.generative import adversarial_steps, latent_losses, noise_schedules
from lab.diagnose.graph import frozen_parameters, tied_weights
from lab.diagnose.losses import class_weights, compared_samples, loss_terms, ordered_losses, said_twice
from lab.diagnose.models import attention_scores, carried_states, last_states, positions
from lab.diagnose.order import Rule
from lab.diagnose.training import (
    constant_weights,
    emptied_lists,
    kept_references,
    left_unused,
    merged_twice,
    names_shared,
    same_draws,
    scaled_gradients,
    settings_turned,
)
from lab.recorder.cell_trace import Leaf, Trace

from . import read_figures as figures
from . import read_logic as logic
from . import read_objects as objects
from . import read_parts as parts
from . import read_scores as scores
from .test_sentences import how_sure, page

PAGE = Path(__file__).parent / "read_sentences.md"


def found_in(rule: Rule, text: str, trained: Sequence[str] = ("net.weight",)) -> list[Found]:
    """What a rule finds in a text, as if it had made steps of an optimizer that holds some parameters."""
    trace = Trace()
    text = text.strip("\n") + "\n"
    trace.close(text, text)
    trace.steps.count = 4
    trace.loaded = [SimpleNamespace()]
    trace.optimized = dict.fromkeys(_leaf(name) for name in trained)
    return rule(trace, set())


def _leaf(name: str) -> Leaf:
    leaf = Leaf.__new__(Leaf)
    leaf.name = name
    return leaf


class Names(NamedTuple):
    """A text with one place for a name, and the names with which the rule finds something there."""

    rule: Rule
    text: str
    names: str
    others: str
    """Names with which it finds nothing."""


BATCHES = "for xb, yb in {name}:\n    pred = net(xb).argmax(1)\nacc = (pred == yb).float().mean()"
SPLIT = "{name} = x[:80]\n{other} = x[70:]"
SCALED = "x = x - {name}\ntrain, test = x[:80], x[80:]"
APART = "{name}, b = x[:80], x[80:]\n{name} = {name} - {name}.mean(0)\nx_test = x_test - x_test.mean(0)"
MAKER = "class Set:\n    def {name}(self, i):\n        x = self.images[i]\n        x -= 1\n        return x"
SEED = "for k in range(9):\n    torch.{name}(0)\n    noise = torch.randn(3)\n    loss.backward()"
DRAW = "for k in range(9):\n    torch.manual_seed(0)\n    noise = rng.{name}(3)\n    loss.backward()"
STARTS = (
    "def {name}(k):\n    torch.manual_seed(0)\n    return torch.randn(3)\n"
    "for k in range(9):\n    {name}(k)\n    loss.backward()"
)
FIGURE = "scores = []\nfor xb, yb in loader:\n    scores.append({name}(net(xb), yb))\nprint(np.mean(scores))"
FOLDS = "model = Net()\nfor {name}:\n    fit(model, a)\n    print(score(model, b))"
RESETS = "model = Net()\nfor fold in folds:\n    model.{name}(start)\n    fit(model, a)\n    print(score(model, b))"
KEPT = (
    "for epoch in range(9):\n    {name}(net)\n    if loss < best:\n        state = net.state_dict()\n"
    "net.load_state_dict(state)"
)
AVERAGE = (
    "class Average:\n    def __init__(self, net):\n        self.w = [p.{made} for p in net]\n    def move(self):\n"
    "        {moves}\nema = Average(net)\n{after}net.load_state_dict(saved)\n"
)
SECOND = "{name} = net\nuse({name})"
ITSELF = "target = net.{name}()\nuse(target)"
REPEATED = "rows = [[]] * 9\nrows[3].{name}(1)"
HOOK = "for k in range(9):\n    layers[k].{name}(lambda m, i, o: kept.append(k))"
TURN = (
    "class Set:\n    def __getitem__(self, i):\n        {image}, {map} = self.load(i)\n"
    "        if {drawn}() < 0.5:\n            {image} = {image}.{name}(-1)\n        return {image}, {map}"
)
WINDOW = "def item(i):\n    return s[i : i + w], {name}"
LAST = (
    "class Net:\n    def __init__(self):\n        self.rnn = nn.{name}(8, 8, bidirectional=True, batch_first=True)\n"
    "    def forward(self, x):\n        out, _ = self.rnn(x)\n        return out[:, -1]"
)
COPIED = "torch.{made}(s[i : i + w])"

NAMES: dict[str, Names] = {
    "a loop over batches": Names(
        judged_wrongly.last_batch_only, BATCHES,
        "loader|test_loader|val_dl|dl|batches|x.split(8)|range(0, 64, 8)", "samples|range(64)|range(8, 64)",
    ),
    "a figure of a whole set": Names(
        counted_wrongly.mean_over_batches, FIGURE,
        "f1|f1_score|my_f1|fbeta_score|precision|precision_score|recall|auc|roc_auc_score|auroc|r2_score|"
        "matthews|mcc|kappa|pearson|spearman|cohen_kappa_score",
        "accuracy|recall_at_5|precision_at_k|recall_top_5|f1_per_class|f1_macro|loss|r2d2|precise",
    ),
    "folds": Names(
        counted_wrongly.seen_folds, FOLDS,
        "a, b in folds|a, b in kf.split(x)|a, b in cv.split(x)|a, b in skf.split(x, y)|fold in range(5)",
        "a, b in parts|epoch in range(5)",
    ),
    "what makes a model anew": Names(
        counted_wrongly.seen_folds, RESETS, "eval|requires_grad_",
        "load_state_dict|reset_parameters|apply|deepcopy|reset|init_weights|reset_weights|reset_all|initialise",
    ),
    "what a training loop calls": Names(
        kept_references.state_kept, KEPT,
        "opt.step|fit|train|train_epoch|train_one_epoch|run_epoch|update|training_step|pretrain_all|one_epoch_more",
        "look|evaluate",
    ),
    "a seed": Names(
        same_draws.seeded_again, SEED, "manual_seed|manual_seed_all|seed|seed_everything|set_seed|seed_all",
        "get_rng_state|rand",
    ),
    "a draw": Names(
        same_draws.seeded_again, DRAW,
        "randn|rand|randint|randperm|randn_like|rand_like|randint_like|normal|normal_|uniform_|bernoulli|multinomial|"
        "choice|choices|shuffle|sample|random|uniform|standard_normal|dropout|permutation|integers|gauss",
        "zeros|linear",
    ),
    "a function that seeds for its callers": Names(
        same_draws.seeded_again, STARTS, "noise|make_batch|draw|augment",
        "main|setup|train|train_all|fit|fit_all|run|run_one|seed|set_seed|build|build_all|make_model|make_net|"
        "evaluate|valid|test_one|val_step|in_val|bench|plot|show|demo",
    ),
    "where samples are made": Names(
        samples_made.stored_changed, MAKER,
        "__getitem__|__getitems__|__iter__|collate|collate_fn|sample|get_item|augment", "__init__|normalise_all",
    ),
    "which part trains": Names(
        held_out.seen, SPLIT.replace("{other}", "x_test"),
        "train|x_train|train_x|X_tr|xtr|ytr|fit_x|x_training|tr|train2|TRAIN|Xtr|tr_0", "x_all|first|tree|straw",
    ),
    "which part tests": Names(
        held_out.seen, SPLIT.replace("{name}", "x_train").replace("{other}", "{name}"),
        "test|x_test|x_te|xte|x_val|val|valid_x|validation|x_eval|dev|hold|holdout|x_holdout|tst|testing_x|te",
        "rest|second|late|train_2",
    ),
    "a figure of samples": Names(
        held_out.seen, SCALED,
        "x.mean(0)|x.std(0)|x.min(0)|x.max(0)|x.amin(0)|x.amax(0)|x.var(0)|x.median(0)|x.quantile(0)|x.nanmean(0)|"
        "x.std_mean(0)|x.var_mean(0)|x.aminmax(0)|x.norm(0)|x.mean()|x.mean(dim=0)|x.mean(axis=0)|torch.mean(x, 0)|"
        "np.mean(x, axis=0)|numpy.mean(x)|core.mean(x, 0)|x.mean((0,))|x.mean([0])|x.mean((0, 2))|x.mean(None)|mean(x)",
        "x.mean(1)|x.mean(dim=1)|x.mean(-1)|torch.mean(x, 1)|np.mean(x, axis=1)|x.sum(0)|x.mean((1, 0))|z.mean(0)|"
        "x.mean([1])|np.mean(z, 0)|3.0",
    ),
    "another name of a network": Names(
        names_shared.shared, SECOND,
        "target|target_net|teacher|ema|old_net|net_old|frozen|momentum_net|reference|ref_net|TARGET", "twin|copy|fold",
    ),
    "what gives the module itself": Names(
        names_shared.shared, ITSELF, "to|cuda|cpu|train|eval|float|requires_grad_", "clone|copy",
    ),
    "what changes a list's item": Names(
        names_shared.shared, REPEATED, "append|extend|add|update", "copy|index",
    ),
    "a hook": Names(
        names_shared.shared, HOOK,
        "register_forward_hook|register_full_backward_hook|register_hook|register_forward_pre_hook", "apply|register",
    ),
    "what turns an image": Names(
        samples_made.turned_alone, TURN.format(image="image", map="mask", drawn="random", name="{name}"),
        "flip|fliplr|flipud|rot90|roll|hflip|vflip|rotate|crop|transpose|affine|resized_crop|perspective",
        "float|clamp|to",
    ),
    "an image": Names(
        samples_made.turned_alone, TURN.format(image="{name}", map="mask", drawn="random", name="flip"),
        "image|img|im|imgs|img2|frame|photo|picture|scan|one_slice|tile|patch|x|images", "target|label|xs|vector",
    ),
    "a map of an image": Names(
        samples_made.turned_alone, TURN.format(image="image", map="{name}", drawn="random", name="flip"),
        "mask|masks|segmentation|depth|heatmap|density|flow|label_map|labelmap|contour|saliency|SEG", "label|target",
    ),
    "a coin": Names(
        samples_made.turned_alone, TURN.format(image="image", map="mask", drawn="{name}", name="flip"),
        "random|torch.rand|rng.uniform|bernoulli|choice|coin", "self.size|len",
    ),
    "the last value of a window": Names(
        samples_made.target_in_window, WINDOW,
        "s[i + w - 1]|s[i + w - 1].copy()|s[i + w - 1].clone()|s[i + w - 1].astype(int)|s[i + w - 1].float()|"
        "s[i + w - 1].double()|torch.tensor(s[i + w - 1])|np.array(s[i + w - 1])|deepcopy(s[i + w - 1])|"
        "s[i + w - 1].long()|s[i + w - 1].int()|int(s[i + w - 1])|s[i + w - 1].item()|torch.Tensor(s[i + w - 1])|"
        "torch.as_tensor(s[i + w - 1])|torch.from_numpy(s[i + w - 1])|s[i + w - 1].unsqueeze(0)|s[i + w - 1, 0]",
        "s[i + w]|s[i + w + 1]|t[i + w - 1]|s[i + w - 1] * 2|s[i + w - 2]|f(s[i + w - 1])",
    ),
    "a layer that runs in both directions": Names(last_states.both_directions, LAST, "GRU|LSTM|RNN", "Linear"),
    "what moves an average": Names(
        kept_references.averaged_before_loading, AVERAGE.format(made="clone()", moves="{name}", after=""),
        "w.mul_(0.9)|w.lerp_(p, 0.1)|w = decay * w", "w.zero_()",
    ),
    "what copies weights": Names(
        kept_references.averaged_before_loading, AVERAGE.format(made="{name}", moves="w.mul_(0.9)", after=""),
        "clone()|deepcopy()", "data",
    ),
    "what brings an average up to date": Names(
        kept_references.averaged_before_loading,
        AVERAGE.format(made="clone()", moves="w.mul_(0.9)", after="") + "{name}()\n",
        "ema.look|net.reset", "ema.load_state_dict|ema.copy_|ema.reset|ema.register|ema.set|ema.sync|ema.load",
    ),
    "what trains before the weights are loaded": Names(
        kept_references.averaged_before_loading,
        AVERAGE.format(made="clone()", moves="w.mul_(0.9)", after="{name}()\n"), "look", "loss.backward|opt.step",
    ),
}  # fmt: skip


def either() -> list[tuple[str, str, bool]]:
    """Each name of each text, and whether something is found with it."""
    return [
        (what, name, found)
        for what, case in NAMES.items()
        for names, found in ((case.names, True), (case.others, False))
        for name in names.split("|")
    ]


@pytest.mark.parametrize(("what", "name", "found"), either())
def test_the_names_that_are_known(what: str, name: str, found: bool) -> None:
    case = NAMES[what]
    told = found_in(case.rule, case.text.replace("{name}", name))
    assert bool(told) == found, told


SETS = {
    "torch.nn.init.zeros_(self.weight)": (1, 0),
    "init.ones_(net.weight)": (1, 0),
    "init.constant_(net.weight, 0.1)": (1, 0),
    "net.weight.zero_()": (1, 0),
    "net.weight.data.fill_(0.3)": (1, 0),
    "init.normal_(net.weight, 0.0, 0.0)": (1, 0),
    "init.normal_(net.weight, std=0)": (1, 0),
    "net.weight.copy_(torch.zeros(3, 3))": (1, 0),
    "net.weight.set_(torch.full((3, 3), 2.0))": (1, 0),
    "self.weight = nn.Parameter(torch.zeros(3, 3))": (1, 27),
    "weight = torch.ones(3, 3, requires_grad=True)": (1, 9),
    "weight = torch.full((3, 3), 0.5)": (1, 9),
    "weight = torch.zeros_like(other)": (1, 9),
    "weight = torch.ones_like(other)": (1, 9),
    "weight = torch.full_like(other, 3)": (1, 9),
    "net.weight.data *= 0": (1, 0),
    "net.weight *= 0.0": (1, 0),
    "net.weight.data = torch.zeros(3, 3)": (1, 18),
    "k = 1\nself.weight.zero_()": (2, 0),
    "self.bias.zero_()\nself.weight.zero_()": (2, 0),
    "other.zero_()": (1, 0),
    "other.zero_()\nweight.zero_()": (2, 0),
    "init.zeros_(self.bias)": None,
    "self.weight.grad.zero_()": None,
    "init.normal_(net.weight, 0.0, 0.1)": None,
    "init.normal_(net.weight)": None,
    "init.normal_(net.weight, std=0.1)": None,
    "init.normal_(net.weight, 0.0)": None,
    "net.weight *= 2": None,
    "net.weight += 0": None,
    "net.weight.copy_(other)": None,
    "init.kaiming_normal_(net.weight)": None,
    "weight = torch.randn(3, 3)": None,
    "weight.zero_()\nweight.fill_(1.0)": None,
    "other = torch.zeros(3)": None,
    "init.zeros_()": None,
    "copy_(torch.zeros(3))": None,
}


@pytest.mark.parametrize("text", SETS)
def test_the_line_that_gives_weights_one_value(text: str) -> None:
    trace = Trace()
    trace.close(text, text)
    found = constant_weights.line_of(trace, [_leaf("net.0.weight")])
    assert (found and found[:2]) == SETS[text]
    if found is not None:
        assert found[2] in text.replace('"', "'").splitlines()[found[0] - 1]


class Case(NamedTuple):
    rule: Rule
    text: str
    found: bool


ALIAS, COUNTED, JUDGED, MADE = kept_references, counted_wrongly, judged_wrongly, samples_made
RULES: list[tuple[Rule, dict[str, str], dict[str, str]]] = [
    (held_out.seen, figures.HELD_OUT, figures.HELD_OUT_NOT),
    (JUDGED.scores_for_classes, figures.JUDGED, figures.JUDGED_NOT),
    (JUDGED.last_batch_only, figures.LAST_BATCH, figures.LAST_BATCH_NOT),
    (COUNTED.mean_over_batches, figures.MEANS, figures.MEANS_NOT),
    (COUNTED.seen_folds, figures.FOLDS, figures.FOLDS_NOT),
    (COUNTED.divided_by_batches, figures.DIVIDED, figures.DIVIDED_NOT),
    (COUNTED.mean_of_means, figures.MEAN_LOSS, figures.MEAN_LOSS_NOT),
    (ALIAS.state_kept, objects.STATES, objects.STATES_NOT),
    (ALIAS.written_while_read, objects.WRITTEN, objects.WRITTEN_NOT),
    (ALIAS.averaged_before_loading, objects.AVERAGES, objects.AVERAGES_NOT),
    (names_shared.shared, objects.NAMES, objects.NAMES_NOT),
    (MADE.stored_changed, objects.STORED, objects.STORED_NOT),
    (MADE.turned_alone, objects.TURNED, objects.TURNED_NOT),
    (MADE.target_in_window, objects.WINDOWS, objects.WINDOWS_NOT),
    (same_draws.seeded_by_sample, objects.BY_SAMPLE, objects.BY_SAMPLE_NOT),
    (same_draws.seeded_again, objects.SEEDED, objects.SEEDED_NOT),
    (last_states.both_directions, objects.DIRECTIONS, objects.DIRECTIONS_NOT),
    (latent_losses.variance_as_spread, logic.SPREADS, logic.SPREADS_NOT),
    (latent_losses.divergence_subtracted, logic.DIVERGENCES, logic.DIVERGENCES_NOT),
    (policy_gradients.less_likely, logic.LIKELY, logic.LIKELY_NOT),
    (policy_gradients.entropy_lowered, logic.ENTROPIES, logic.ENTROPIES_NOT),
    (policy_gradients.summed_from_the_start, logic.RETURNS, logic.RETURNS_NOT),
    (target_networks.loaded_from_itself, logic.ITSELF, logic.ITSELF_NOT),
    (target_networks.never_brought_up, logic.FOLLOWED, logic.FOLLOWED_NOT),
    (target_networks.mixed_the_wrong_way, logic.MIXED, logic.MIXED_NOT),
    (target_networks.end_unpacked, logic.UNPACKED, logic.UNPACKED_NOT),
    (adversarial_steps.detached_for_the_generator, logic.ADVERSARIES, logic.ADVERSARIES_NOT),
    (adversarial_steps.asked_to_be_found_out, logic.FOUND_OUT, logic.FOUND_OUT_NOT),
    (class_weights.by_their_counts, parts.WEIGHTS, parts.WEIGHTS_NOT),
    (carried_states.state_of_strangers, parts.STRANGERS, parts.STRANGERS_NOT),
    (carried_states.last_of_padding, parts.PADDED, parts.PADDED_NOT),
    (carried_states.batch_as_time, parts.ALONG, parts.ALONG_NOT),
    (carried_states.one_position_for_all, parts.POSITIONS, parts.POSITIONS_NOT),
    (noise_schedules.level_of_another_step, logic.LEVELS, logic.LEVELS_NOT),
    (noise_schedules.noise_without_its_root, logic.ROOTS, logic.ROOTS_NOT),
    (wrong_parts.augmented_validation, parts.AUGMENTED, parts.AUGMENTED_NOT),
    (wrong_parts.loop_over_another_part, parts.OTHER_LOOPS, parts.OTHER_LOOPS_NOT),
    (wrong_parts.divided_by_another_part, parts.OTHER_LENGTHS, parts.OTHER_LENGTHS_NOT),
    (wrong_parts.chosen_on_the_test, parts.CHOSEN, parts.CHOSEN_NOT),
    (scaled_gradients.clipped_scaled, logic.SCALED, logic.SCALED_NOT),
    (compared_samples.pushed_the_wrong_way, logic.TRIPLETS, logic.TRIPLETS_NOT),
    (policy_gradients.larger_surrogate, logic.SURROGATES, logic.SURROGATES_NOT),
    (said_twice.easy_ones_first, logic.FOCAL, logic.FOCAL_NOT),
    (said_twice.with_itself, logic.ONESELF, logic.ONESELF_NOT),
    (said_twice.residual_of_itself, logic.RESIDUALS, logic.RESIDUALS_NOT),
    (said_twice.largest_of_all, logic.LARGEST, logic.LARGEST_NOT),
    (said_twice.masked_too_late, logic.MASKED, logic.MASKED_NOT),
    (said_twice.scaled_twice, parts.TWICE, parts.TWICE_NOT),
    (kept_models.kept_by_chance, parts.KEPT, parts.KEPT_NOT),
    (kept_models.sum_that_goes_on, parts.GOES_ON, parts.GOES_ON_NOT),
    (overlapping_windows.dealt_out, parts.DEALT, parts.DEALT_NOT),
    (compared_samples.beside_itself, logic.BESIDE, logic.BESIDE_NOT),
    (left_unused.setting_ignored, parts.IGNORED, parts.IGNORED_NOT),
    (left_unused.end_ignored, parts.ENDS_LEFT, parts.ENDS_LEFT_NOT),
    (ALIAS.drift_from_itself, objects.DRIFTS, objects.DRIFTS_NOT),
    (wrong_parts.changed_for_both, parts.FOR_BOTH, parts.FOR_BOTH_NOT),
    (shared_numbers.end_hidden, parts.HIDDEN_ENDS, parts.HIDDEN_ENDS_NOT),
    (shared_numbers.numbered_anew, parts.ANEW, parts.ANEW_NOT),
    (positions.part_for_whole, parts.WHOLE, parts.WHOLE_NOT),
    (latent_losses.another_spread, scores.SPREADS_ASIDE, scores.SPREADS_ASIDE_NOT),
    (emptied_lists.emptied, scores.EMPTIED, scores.EMPTIED_NOT),
    (frozen_parameters.moved_by_the_rest, scores.FROZEN, scores.FROZEN_NOT),
    (tied_weights.copied, scores.TIED, scores.TIED_NOT),
    (probability_ratios.variance_for_scale, scores.SCALES, scores.SCALES_NOT),
    (noise_schedules.predicted_noise_added, scores.PREDICTED, scores.PREDICTED_NOT),
    (merged_twice.done_again, scores.AGAIN, scores.AGAIN_NOT),
    (pictures_alone.turned_without, scores.PICTURES, scores.PICTURES_NOT),
    (held_out.seen, scores.FITTED, scores.FITTED_NOT),
    (latent_losses.uniform_noise, scores.NOISE, scores.NOISE_NOT),
    (latent_losses.codes_without_gradient, scores.CODES, scores.CODES_NOT),
    (attention_scores.masked_by_zero, scores.FILLED, scores.FILLED_NOT),
    (attention_scores.weights_cut, scores.CUT, scores.CUT_NOT),
    (probability_ratios.ratio_of_logarithms, scores.RATIOS, scores.RATIOS_NOT),
    (probability_ratios.always_one, scores.ONES, scores.ONES_NOT),
    (probability_ratios.likelihood_lowered, scores.DENSITIES, scores.DENSITIES_NOT),
    (settings_turned.averages_of_the_last_batch, scores.AVERAGES_TURNED, scores.AVERAGES_TURNED_NOT),
    (settings_turned.share_to_keep, scores.KEPT_SHARES, scores.KEPT_SHARES_NOT),
    (loss_terms.penalty_subtracted, scores.PENALTIES, scores.PENALTIES_NOT),
    (class_weights.rare_ones_less, scores.RARE, scores.RARE_NOT),
    (last_states.sample_for_step, scores.LAST_STEPS, scores.LAST_STEPS_NOT),
    (ordered_losses.quantile_turned, logic.QUANTILES, logic.QUANTILES_NOT),
    (ordered_losses.risk_before, logic.RISKS, logic.RISKS_NOT),
]
CASES = {
    name: Case(rule, text, found)
    for rule, told, not_told in RULES
    for some, found in ((told, True), (not_told, False))
    for name, text in some.items()
}


def said(name: str) -> str:
    """What is said of a case."""
    case = CASES[name]
    return "\n".join(
        f"{how_sure(f)} · {f.kind} · line {f.line}:{f.col}\n> {f.message}\n>\n> {f.remedy}\n"
        for f in found_in(case.rule, case.text)
    )


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return page(PAGE)


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_of_a_text(name: str, expected: dict[str, str]) -> None:
    told = said(name)
    assert bool(told) == CASES[name].found, told
    assert told == expected.get(name, "")


def test_no_two_texts_have_one_name() -> None:
    assert len(CASES) == sum(len(told) + len(not_told) for _, told, not_told in RULES)
    assert set(page(PAGE)) == {name for name, case in CASES.items() if case.found}


def write() -> None:
    """Write the page anew."""
    sections = [f"## {name}\n\n{said(name)}" for name, case in CASES.items() if case.found]
    intro = "What is said of texts that are read and not run (see test_read_rules.py).\n"
    PAGE.write_text("# What is read\n\n" + intro + "\n" + "\n".join(sections), encoding="utf-8")


if __name__ == "__main__":
    write()
