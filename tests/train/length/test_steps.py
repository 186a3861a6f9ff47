"""From minutes to epochs: the arithmetic. What the bench makes of it is tested there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calm_pde.train.length.steps import FEWEST_EPOCHS, VALIDATIONS, epochs_of, length_settings


@given(steps=st.lists(st.integers(1, 5000), min_size=1, max_size=2), whole=st.integers(1, 3000))
def test_epochs_give_the_steps_and_not_many_more(steps, whole):
    counts, per_epoch = epochs_of(steps, whole)
    assert 1 <= per_epoch <= whole
    for wanted, count in zip(steps, counts, strict=True):
        assert wanted <= count * per_epoch < wanted + per_epoch
        assert count >= min(FEWEST_EPOCHS, wanted)
        assert (count - 1) * per_epoch * FEWEST_EPOCHS < wanted * FEWEST_EPOCHS
    assert per_epoch == whole or (per_epoch + 1) * FEWEST_EPOCHS > min(steps)  # as long as the curriculum allows


def test_a_training_is_validated_a_few_times():
    """Twenty epochs at least, fewer batches in each where steps are few, and a dozen validations."""
    short, long = length_settings([60], 10), length_settings([1200], 10)
    assert (short["epochs"], short["batches_per_epoch"], short["validate_every"]) == (20, 3, 1)
    assert (long["epochs"], long["batches_per_epoch"], long["validate_every"]) == (120, None, 120 // VALIDATIONS)
    assert length_settings([60, 30], 10)["stages"] == (60.0, 30.0)
