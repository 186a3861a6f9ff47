"""What the rule says of a data file: a recipe but for its length, with a comment on each choice."""

from __future__ import annotations

from typing import Any, NamedTuple

from calm_pde.config import differences, merged
from calm_pde.data.dataset import Dataset
from calm_pde.errors import ConfigError
from calm_pde.models import OURS
from calm_pde.surrogate.parent import Parent
from calm_pde.train.config import Recipe, model_config
from calm_pde.train.rule.procedure import Batches, procedure
from calm_pde.train.rule.sizes import sizes
from calm_pde.train.rule.survey import Survey, survey

_MOST_NAMES = 6  # in a comment
DOCS = "docs/own_data.md"
_QUERIES_REST = "by the declared translations all places are alike: query points rest on lattices,"


class Proposal(NamedTuple):
    """What a recipe says, by the rule where nobody said otherwise; comments by the path of an entry, and above all of them."""

    content: dict[str, Any]
    notes: dict[str, str]
    head: list[str]

    @property
    def recipe(self) -> Recipe:
        return Recipe.model_validate(self.content)


def unsized(recipe: Recipe) -> bool:
    """Whether a recipe names data alone, and no sizes of our model: the rule completes it."""
    return recipe.model.get("kind", OURS) == OURS and not {"preset", "encoder", "decoder"} & recipe.model.keys()


def proposal(recipe: Recipe) -> Proposal:
    """The recipe completed by the rule; what it says itself stays."""
    said = recipe.model_dump(mode="json", exclude_unset=True)
    given = recipe.data
    dataset = Dataset(given.file, "train", fields=given.fields, frame_stride=given.frame_stride)
    found = survey(dataset, keep_stride="frame_stride" in given.model_fields_set)
    parent = None if recipe.parent is None else Parent(recipe.parent.run)
    model = sizes(found) if parent is None else parent.architecture
    content = merged({"name": recipe.name, "data": _data(found, parent), "model": model}, said)
    config = model_config(Recipe.model_validate(content), Dataset(dataset.file, fields=content["data"].get("fields", ())))
    train, batches = procedure(found, config.build())
    content["train"] = train | said.get("train", {})
    notes = notes_of(found, content, batches) if parent is None else {}
    return Proposal(content, notes, head_of(found, given.file.name))


def adopted(recipe: Recipe) -> dict[str, Any]:
    """What a recipe with sizes of its own says; they have to be those of its parent, where it has one."""
    said = recipe.model_dump(mode="json", exclude_unset=True)
    if recipe.parent is None:
        return said
    given, known = recipe.data, Parent(recipe.parent.run).architecture
    dataset = Dataset(given.file, "train", fields=given.fields, frame_stride=given.frame_stride)
    own, wanted = (
        model_config(recipe.model_copy(update={"model": model}), dataset).model_dump(mode="json")
        for model in (recipe.model, known)
    )
    changed = differences(wanted, own)
    if changed:
        listed = "; ".join(f"{name}: {old!r} there, {new!r} in the recipe" for name, old, new in changed)
        raise ConfigError(
            f"parent: {recipe.parent.run} has another architecture ({listed}). Leave `model` out of the recipe, or train anew."
        )
    return said | {"model": known}


def _data(found: Survey, parent: Parent | None) -> dict[str, Any]:
    """Fields and features as a parent knows them, where there is one."""
    content: dict[str, Any] = {"file": ""}
    if found.idle and parent is None:
        content["fields"] = list(found.fields)
    if found.stride > 1:
        content["frame_stride"] = found.stride
    if found.by_point if parent is None else parent.by_point:
        content["normalize_features"] = "point"
    return content


def head_of(found: Survey, name: str) -> list[str]:
    """What the data are, for a reader."""
    described = found.description
    points = f"{found.fewest:,}" if found.fewest == found.most else f"{found.fewest:,} to {found.most:,}"
    frames = "steady" if described.steady else f"{len(described.times)} frames"
    mesh = "one for all" if described.shared_mesh else "another for each"
    lines = [
        f"{name}: {_listed([str(field) for field in described.fields])}",
        f"at {points} points in {described.box.dim}-D ({found.layout}, {mesh}), {frames}, "
        f"{found.trajectories} training trajectories.",
        f"By the rule of {DOCS}; all settings are in docs/training.md.",
    ]
    conditions = [*described.parameters, *described.signals, *(() if described.steady else map(str, described.features))]
    if conditions:
        lines.append(f"Conditions: {_listed(conditions)}.")
    if found.still:
        lines.append(f"Never changing in time: {_listed(found.still)}. Better given as features or parameters than predicted.")
    return lines


def notes_of(found: Survey, content: dict[str, Any], batches: Batches) -> dict[str, str]:
    """Why the entries are as they are."""
    model, described = content["model"], found.description
    queries = model["encoder"]["num_queries"]
    around = _counts(model["encoder"]["receptive_field"], [found.usual, *queries])
    back = _counts(model["decoder"]["receptive_field"], queries[::-1])
    peak = "" if batches.peak is None else f", at most {batches.peak / 2**20:,.0f} MiB a step"
    windows = found.trajectories * content["train"].get("windows_per_trajectory", 1)
    return {
        "data.fields": f"what is one number everywhere is left out: {_listed(found.idle)}",
        "data.frame_stride": f"of {len(described.times)} frames {found.frames} are taken; the model answers between them too",
        "data.normalize_features": "they differ by little of their range at each point",
        "model.node_types": _listed([f"{code} {described.node_types.get(code, '')}".strip() for code in described.node_types]),
        "model.encoder.num_queries": f"from {found.usual:,} points to {queries[-1]} tokens",
        "model.encoder.receptive_field": f"{around} points",
        "model.encoder.mesh_prior": "they start at points of the mesh",
        "model.decoder.receptive_field": f"{back} points",
        "model.spread": "query points start far from one another",
        "model.own_scale": "flows of several speeds: each is encoded relative to its own size",
        "model.detail": "a path past the bottleneck for what is fine",
        "model.displacements": "in radii of receptive fields, which the mesh makes small where it is fine; query points rest",
        "model.learnable_queries": _QUERIES_REST if "modulation" in model else "",
        "model.modulation": "share one kernel,",
        "model.processor": "and know one another's displacements alone",
        "train.batch_size": f"{-(-windows // content['train']['batch_size'])} steps show all trajectories{peak}",
        "train.first_length": f"frames of the first windows, which grow to all {found.frames}",
        "train.random_offset": "places are shifted at random, so that meshes are not learned by heart",
        "train.augment": "windows are moved by the symmetries that the file declares",
        "train.threads": "small steps are fastest with one",
    }


def _counts(shares: list[float], clouds: list[int]) -> str:
    counts = [str(int(part * (cloud - 1)) + 1) for part, cloud in zip(shares, clouds, strict=False)]
    return counts[0] if len(counts) == 1 else f"{', '.join(counts[:-1])} and {counts[-1]}"


def _listed(names: Any) -> str:
    names = list(names)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
