import pytest
import yaml

import smelt
from checkpoints import state, write_model
from smelt.advice import evidence
from smelt.advice.advise import advise, thinned
from smelt.advice.evidence import guideline
from smelt.advice.situation import kind_of_name, read_situation
from smelt.errors import OutputError, RecipeError
from smelt.models.weightless import known_sizes
from smelt.prepare.memory_needs import memory_needs
from smelt.recipe.schema import Recipe
from smelt.search.grids import grids
from smelt.suites.language.published import mergebench

OURS = {
    "suite": "llm5",
    "base": "SmolLM2-135M-Instruct",
    "size": 0.1,
    "kind": "instruct",
    "methods": {
        "task_arithmetic": {"normalised": 91.0, "trials": 10, "validate_seconds": 600.0},
        "localize_and_stitch": {"normalised": 88.0, "trials": 5, "validate_seconds": 300.0},
        "average": {"normalised": 70.0, "trials": 0, "validate_seconds": 0.0},
    },
}


@pytest.fixture
def without_ours(tmp_path, monkeypatch):
    """The paper's rows alone, whatever run is shipped."""
    path = tmp_path / "evidence.yaml"
    path.write_text(yaml.safe_dump({**OURS, "methods": {}}))
    monkeypatch.setattr(evidence, "FILE", path)
    evidence.own_run.cache_clear()
    yield
    evidence.own_run.cache_clear()


@pytest.fixture
def with_ours(tmp_path, monkeypatch):
    path = tmp_path / "evidence.yaml"
    path.write_text(yaml.safe_dump(OURS))
    monkeypatch.setattr(evidence, "FILE", path)
    evidence.own_run.cache_clear()
    yield
    evidence.own_run.cache_clear()


@pytest.fixture
def pool(tmp_path):
    base = write_model(tmp_path / "base-instruct", state(0.0))
    return str(base), {
        name: str(write_model(tmp_path / name, state(n))) for n, name in ((1.0, "photos"), (2.0, "digits"))
    }


def test_without_data_the_advice_is_the_average(without_ours):
    advice = advise()
    assert (advice.method, advice.second) == ("average", None)
    assert advice.recipe.dump()["merge"] == ["average"]
    assert "89.7 %, the average 83.1 %" in advice.why[-1]


def test_validation_data_asks_for_the_dataless_stitch_where_the_paper_has_it_ahead(without_ours):
    # instruct, 8B and 9B: dataless (105.0 + 95.2) / 2 = 100.1, task arithmetic (104.6 + 90.0) / 2 = 97.3
    advice = advise(validation="llm5-val", size="8B", base_kind="instruct")
    assert (advice.method, advice.second) == ("localize_and_stitch", "task_arithmetic")
    assert "keeps 100.1 % of the experts on average, Task arithmetic 97.3 %" in advice.why[1]
    assert advice.recipe.dump()["tune"] == {"localize_and_stitch.density": [0.1, 0.2, 0.3, 0.4, 0.5]}
    assert "smelt tune recipe.yaml --tasks llm5-val -o tuned" in advice.commands


def test_training_data_asks_for_regmean_on_small_bases_and_for_masks_on_large_ones(without_ours):
    words = {"training": "a,b", "validation": "llm5-val", "base_kind": "pretrained"}
    # RegMean (76.8 + 80.7) / 2 = 78.75, Localize-and-Stitch (76.8 + 74.6) / 2 = 75.7
    small = advise(size="3B", **words)
    assert (small.method, small.second) == ("regmean", "localize")
    # Localize-and-Stitch (92.7 + 91.7) / 2 = 92.2, dataless (91.2 + 90.6) / 2 = 90.9
    large = advise(size="8B", **words)
    assert (large.method, large.second) == ("localize", "localize_and_stitch")
    assert large.recipe.dump()["data"] == {"split": "train", "examples": 1000}
    assert "tune" not in large.recipe.dump()


def test_without_validation_data_what_has_nothing_to_choose_comes_first(without_ours):
    advice = advise(training="a,b", size="3B", base_kind="pretrained")
    assert (advice.method, advice.second) == ("localize", "regmean")
    said = " ".join(advice.why)
    assert "75.7 % of the experts on average, RegMean 78.8 %" in said
    assert "RegMean comes second although its number is higher: that is of a setting chosen on validation data" in said


def test_a_choice_that_has_the_higher_number_needs_no_excuse(without_ours):
    assert "although" not in " ".join(advise(training="a,b", size="8B").why)


def test_little_memory_rules_out_what_learns(without_ours):
    # learning takes the weights and six more copies of what is measured; RegMean the weights, 4 GB, and its matrices
    # in rounds
    advice = advise(training="a,b", size="1B", memory="16GB")
    assert advice.method == "regmean"
    assert advice.avoided["L&S"] == "looking at data needs about 24.5 GB of memory, there are 16 GB"
    assert "its setting is a guess" in " ".join(advice.why)
    assert "tune" not in advice.recipe.dump()


def test_memory_is_counted_as_the_plan_counts_it(without_ours):
    size = known_sizes()["llama-3.1-8b"]
    needs = memory_needs(dict(size.shapes()), "localize", examples=1000, tokens=512)
    said = f"looking at data needs about {needs.total / 1e9:.3g} GB of memory, there are 16 GB"
    for words in ({"base": "shape:llama-3.1-8b"}, {"size": size.parameters / 1e9}):
        assert advise(training="a,b", memory="16GB", **words).avoided["L&S"] == said


def test_where_nothing_fits_the_average_is_left_and_says_so(without_ours):
    advice = advise(training="a,b", size="8B", memory="16GB")
    assert advice.method == "average"
    assert advice.why[0].startswith("No method that uses this data fits")


def test_little_time_thins_the_grid_and_less_leaves_the_average(without_ours):
    words = {"validation": "llm5-val", "size": "8B", "base_kind": "instruct", "validation_minutes": 10}
    advice = advise(minutes=35, **words)
    assert advice.recipe.dump()["tune"] == {"localize_and_stitch.density": [0.1, 0.3, 0.5]}
    assert "Choosing tries 3 of its 5 settings" in " ".join(advice.why)
    assert "about 30 minutes" in " ".join(advice.why)
    late = advise(minutes=15, **words)
    assert late.method == "average"
    assert late.avoided["Dataless L&S"] == "trying two of its settings takes 20 minutes, there are 15"


def test_long_grids_are_passed_over_with_the_papers_numbers(without_ours):
    avoided = advise(validation="llm5-val").avoided
    assert avoided["TIES"] == "30 settings to try, for 84.8 % of the experts overall"
    assert avoided["Consensus TA"] == "35 settings to try, for 87.6 % of the experts overall"


def test_a_weak_base_promises_less_than_a_strong_one(without_ours):
    weak = advise(validation="llm5-val", size="3B", base_kind="pretrained").expect
    strong = advise(validation="llm5-val", size="3B", base_kind="instruct").expect
    assert weak.startswith("Expect about 68.3 to 76.1 % of the experts' performance: merging works worse on small")
    assert strong.startswith("Expect about 90.6 to 95.9 % of the experts' performance: specialists of an instruction")


def test_every_number_that_is_cited_is_the_papers(without_ours):
    paper = mergebench()
    entry_of = {name: entry for entry, name in paper.methods.items()}
    for words in (
        {},
        {"validation": "llm5-val"},
        {"training": "a"},
        {"training": "a", "validation": "llm5-val", "size": "9B"},
    ):
        for cited in advise(**words).citations:
            assert cited.source == "MergeBench, Table 8"
            assert cited.value == paper.multitask.lines[cited.base][entry_of[cited.method]]


def test_below_the_papers_sizes_our_own_run_decides(with_ours):
    advice = advise(validation="llm5-val", size="135M", base_kind="instruct")
    assert (advice.method, advice.second) == ("task_arithmetic", "localize_and_stitch")
    assert str(advice.citations[0]) == (
        "this project's own run, results/llm5, SmolLM2-135M-Instruct: Task arithmetic 91.0 %"
    )
    large = advise(validation="llm5-val", size="8B", base_kind="instruct")
    assert large.method == "localize_and_stitch"
    assert "results/llm5" in large.citations[-1].source


def test_where_a_merge_keeps_little_the_expectation_says_so():
    # our own run: task arithmetic 40.5 % of the experts, RegMean 62.6
    poor = advise(validation="llm5-val", size="135M", base_kind="instruct")
    assert "about 40.5 %" in poor.expect
    assert "one specialist" in poor.expect
    better = advise(validation="llm5-val", training="llm5", size="135M", base_kind="instruct")
    assert better.method == "regmean"
    assert "one specialist" not in better.expect


def test_the_time_of_one_trial_follows_from_our_run_and_the_size(with_ours):
    # 900 s for 15 trials at 0.1 B are one minute; at 1 B ten
    advice = advise(validation="llm5-val", size="1B", base_kind="instruct", minutes=25)
    assert "tries 2 of its 5 settings" in " ".join(advice.why)
    assert "about 20 minutes" in " ".join(advice.why)


def test_grids_are_those_that_tuning_ships():
    for entry, rule in guideline().methods.items():
        if rule.tune:
            ((word, values),) = rule.tune.items()
            assert grids()[entry][0][word.partition(".")[2]] == values
            assert rule.settings == mergebench().trials[entry]


def test_a_thinned_grid_keeps_both_ends():
    assert thinned({"a.b": [1, 2, 3, 4, 5]}, 2) == {"a.b": [1, 5]}
    assert thinned({"a.b": [1, 2, 3, 4, 5]}, 3) == {"a.b": [1, 3, 5]}
    assert thinned({"a.b": [1, 2, 3]}, 9) == {"a.b": [1, 2, 3]}


@pytest.mark.parametrize("words", [{}, {"validation": "photos"}, {"training": "photos,digits"}])
def test_the_recipe_of_real_models_can_be_planned(pool, tmp_path, without_ours, words):
    base, models = pool
    path = tmp_path / "recipe.yaml"
    advice = advise(models, base=base, out=path, **words)
    assert Recipe.parse(yaml.safe_load(path.read_text())) == advice.recipe
    plan = smelt.plan(path)
    assert plan.models == ["base", "photos", "digits"]
    assert plan.parameters == 4 * 12 + 2 * 4


def test_what_is_known_of_the_base_comes_from_its_files_and_its_name(pool, without_ours):
    base, models = pool
    found = read_situation(models, base=base)
    assert (found.size, found.kind) == (56e-9, "instruct")
    assert "from its headers" in found.notes[1]
    assert [kind_of_name(name) for name in ("hf:google/gemma-2-2b-it", "hf:google/gemma-2-2b", "x/Llama-Instruct")] == [
        "instruct",
        "pretrained",
        "instruct",
    ]
    assert read_situation(base="hf:meta-llama/Llama-3.1-8B").size is None


def test_tasks_are_paired_with_models_by_name(pool, without_ours):
    base, models = pool
    advice = advise(models, base=base, training="photos=flags,digits")
    assert advice.recipe.dump()["data"]["tasks"] == {"photos": "flags"}


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"base_kind": "instuct"}, "did you mean 'instruct'"),
        ({"size": "8X"}, "write 8B or 135M"),
        ({"memory": "lots"}, "not a size"),
        ({"minutes": 0}, "minutes: more than 0"),
        ({"training": "a", "memory": "8GB"}, "give size='8B'"),
        ({"training": "a="}, "MODEL=TASK"),
        ({"validation": "llm5-vall"}, "did you mean 'llm5-val'"),
        ({"validation": "maths-val,maths"}, "maths has no `val` split \\(it has train, test\\)"),
        ({"training": ","}, "names no task"),
        ({"models": {"a": "dir:a"}}, "models without their base"),
    ],
)
def test_wrong_words_are_refused_and_say_what_to_do(words, fault):
    with pytest.raises(RecipeError, match=fault):
        advise(**words)


def test_training_data_of_nobody_is_refused(pool):
    base, models = pool
    with pytest.raises(RecipeError, match="no model named 'photo' \\(did you mean 'photos'"):
        advise(models, base=base, training="photo=flags")
    with pytest.raises(RecipeError, match="'flags' has the name of no model"):
        advise(models, base=base, training="flags")


def test_a_recipe_that_exists_is_not_replaced(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        advise(out=path)
    assert path.read_text() == "mine"
    advise(out=path, force=True)
    assert "average" in path.read_text()


def described(folder, tensors=None, **config):
    return str(write_model(folder, tensors or state(0.0), config))


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"model_type": "clip", "architectures": ["CLIPModel"]}, "a CLIPModel"),
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "a BertForMaskedLM"),
        (
            {"architectures": ["LlavaForConditionalGeneration"]},
            "a LlavaForConditionalGeneration",
        ),
        ({"model_type": "clip", "vision_config": {}}, "a model of pictures"),
    ],
)
def test_a_base_that_is_no_language_model_is_refused(tmp_path, config, what):
    base = described(tmp_path / "base", **config)
    with pytest.raises(RecipeError, match=f"is {what}, and all rows that advice rests on are of language models"):
        advise({"a": base}, base=base)


def test_the_clip_models_of_the_zoo_are_refused(cli):
    words = ("--base", "zoo:clip-tiny", "--model", "zoo:clip-tiny-digits", "--model", "zoo:clip-tiny-flags")
    ran = cli("advise", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("smelt: zoo:clip-tiny is a CLIPModel")


def test_what_is_assumed_is_said(tmp_path, without_ours):
    known = described(tmp_path / "known", model_type="llama", architectures=["LlamaForCausalLM"])
    assert not any("language model" in note for note in advise(base=known).taken)
    for base in (described(tmp_path / "silent", model_type="pico"), "hf:org/model"):
        assert advise(base=base).taken[0].startswith(f"{base} is taken for a language model")
    assert advise(size="8B").taken[0].startswith("the base is taken for a language model")
    assert "may be of any size" in " ".join(advise(base="hf:org/model").taken)


def test_an_instruct_model_is_no_similar_base_of_a_pretrained_one(with_ours):
    advice = advise(validation="llm5-val", size="135M", base_kind="pretrained")
    assert advice.method == "localize_and_stitch", "the guideline's order, as no row decides"
    assert "similar bases" not in " ".join(advice.why)
    assert advice.citations == ()
    assert advice.expect == (
        "There is no row of a similar base model, so no number to expect: the nearest in size, SmolLM2-135M-Instruct, "
        "is an instruction-tuned base, and this is a pretrained one."
    )


def test_a_folder_that_is_called_it_makes_no_base_instruction_tuned():
    assert kind_of_name("/home/it/chat/llama-3-8b") == "pretrained"
    assert kind_of_name("/home/me/llama-3-8b-instruct/") == "instruct"
