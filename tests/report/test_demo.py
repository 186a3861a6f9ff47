"""The demo as one call: the test split is predicted once, and nothing is said that nobody asked for."""

from __future__ import annotations

from calm_pde.metrics.scores import Evaluation
from calm_pde.report.demo import demo
from calm_pde.surrogate import evaluate


def test_a_demo_predicts_the_test_split_once_and_in_silence(tmp_path, monkeypatch, capsys):
    """One trajectory, which is answered once for the clock's sake and once for table, file and report."""
    answered, seen, answers = [], [], evaluate.answers
    monkeypatch.setattr(evaluate, "answers", lambda surrogate, batch: answered.append(len(batch)) or answers(surrogate, batch))
    report = demo(tmp_path / "demo", epochs=1, samples=10, observe=lambda *told: seen.append(told))
    assert answered == [1, 1]
    assert capsys.readouterr().out == ""
    assert report.path == tmp_path / "demo" / "report.html"
    assert seen == [(report.evaluation, tmp_path / "demo" / "run" / "evaluation.json")]
    found = Evaluation.model_validate_json(seen[0][1].read_bytes())
    again = evaluate.evaluate(tmp_path / "demo" / "run")
    assert found.model_dump(exclude={"timing"}) == again.model_dump(exclude={"timing"})
