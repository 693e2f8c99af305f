from __future__ import annotations

import threading

import attrs
import pytest
import tensorflow.compat.v1 as tf

from towerpack_layers import (
    BatchNorm,
    Conv2D,
    FullyConnected,
    GraphRequiredError,
    SharedVariableError,
    TowerContext,
    TowerError,
    TowerNameError,
    get_current_tower_context,
)


def test_current_context_is_known_inside_only(graph: tf.Graph) -> None:
    assert get_current_tower_context() is None
    tower = TowerContext("", is_training=True)
    with tower as entered:
        assert entered is tower
        assert get_current_tower_context() is tower
    assert get_current_tower_context() is None


def test_context_is_left_when_an_exception_passes(graph: tf.Graph) -> None:
    with pytest.raises(KeyError), TowerContext("tower0", is_training=True):
        raise KeyError
    assert get_current_tower_context() is None
    assert graph.get_name_scope() == ""
    assert tf.get_variable_scope().name == ""


def test_properties() -> None:
    first = TowerContext("tower0", is_training=True, index=0, num_towers=2)
    second = TowerContext("tower1", is_training=True, index=1, num_towers=2, variable_scope="tower1")
    inference = TowerContext("InferenceTower", is_training=False)
    assert [t.is_main_training_tower for t in (first, second, inference)] == [True, False, False]
    assert [t.has_own_variables for t in (first, second, inference)] == [False, True, False]


def test_context_is_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        TowerContext("", is_training=True).index = 1


def test_the_name_scope_starts_at_the_root_inside_other_scopes(graph: tf.Graph) -> None:
    with tf.name_scope("outer"), TowerContext("tower0", is_training=True):
        assert tf.constant(1, name="c").name == "tower0/c:0"
    with tf.name_scope("other"), TowerContext("", is_training=True):
        assert tf.constant(1, name="c").name == "other/c:0"


def test_shared_variables_have_no_prefix_and_are_made_once(graph: tf.Graph) -> None:
    for index in range(2):
        with TowerContext(
            f"tower{index}", is_training=True, index=index, num_towers=2, reuse=True if index else None
        ):
            out = FullyConnected("fc", tf.ones([2, 3]), 4)
            assert out.name == f"tower{index}/fc/output:0"
    assert [v.name for v in tf.global_variables()] == ["fc/W:0", "fc/b:0"]


def test_own_variables_have_the_towers_prefix_once(graph: tf.Graph) -> None:
    for index in range(2):
        scope = "tower1" if index else ""
        with TowerContext(
            f"tower{index}", is_training=True, index=index, num_towers=2, variable_scope=scope
        ) as tower:
            out = FullyConnected("fc", tf.ones([2, 3]), 4)
            names = [v.name for v in tower.get_collection_in_tower("trainable_variables")]
        assert out.name == f"tower{index}/fc/output:0"
        assert names == ([["fc/W:0", "fc/b:0"], ["tower1/fc/W:0", "tower1/fc/b:0"]][index])


def test_inference_tower_after_a_training_tower(graph: tf.Graph) -> None:
    def model() -> tf.Tensor:
        x = Conv2D("conv0", tf.ones([2, 4, 4, 1]), 3, 3)
        return FullyConnected("fc", BatchNorm("bn", x), 2)

    with TowerContext("", is_training=True):
        model()
    variables = [v.name for v in tf.global_variables()]
    with TowerContext("InferenceTower", is_training=False, reuse=True):
        assert model().name == "InferenceTower/fc/output:0"
    assert [v.name for v in tf.global_variables()] == variables
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2


def test_missing_shared_variable_names_variable_and_rule(graph: tf.Graph) -> None:
    message = r"Tower 'tower1' shares .* has created 'net/extra/W'.*Every tower must request the same"
    with (
        TowerContext("tower1", is_training=True, index=1, num_towers=2, reuse=True),
        tf.variable_scope("net"),
        pytest.raises(SharedVariableError, match=message),
    ):
        FullyConnected("extra", tf.ones([1, 1]), 1)


def test_other_variable_errors_of_tensorflow_pass_unchanged(graph: tf.Graph) -> None:
    tf.get_variable("W", [2])
    with (
        TowerContext("tower1", is_training=True, reuse=True),
        pytest.raises(ValueError, match="shape") as caught,
    ):
        tf.get_variable("W", [3])
    assert not isinstance(caught.value, SharedVariableError)


def test_outer_custom_getters_still_apply(graph: tf.Graph) -> None:
    seen = []

    def getter(getter, name, *args, **kwargs):
        seen.append(name)
        return getter(name, *args, **kwargs)

    tf.get_variable("W", [2])
    with (
        tf.variable_scope("", custom_getter=getter),
        TowerContext("tower1", is_training=True, reuse=True),
    ):
        tf.get_variable("W", [2])
    assert seen == ["W"]


def test_towers_do_not_nest(graph: tf.Graph) -> None:
    message = "Cannot enter tower 'b' inside tower 'a': towers do not nest"
    with TowerContext("a", is_training=True) as outer:
        with pytest.raises(TowerError, match=message), TowerContext("b", is_training=True):
            pass
        assert get_current_tower_context() is outer


def test_name_scope_must_be_free(graph: tf.Graph) -> None:
    tower = TowerContext("tower0", is_training=True)
    with tower:
        pass
    message = "Cannot enter tower 'tower0': the name scope 'tower0/' is already used.*another name"
    with pytest.raises(TowerNameError, match=message), tower:
        pass
    assert get_current_tower_context() is None


def test_same_name_is_free_in_another_graph() -> None:
    for _ in range(2):
        with tf.Graph().as_default(), TowerContext("tower0", is_training=True):
            assert FullyConnected("fc", tf.ones([1, 1]), 1).name == "tower0/fc/output:0"


def test_eager_mode_is_refused() -> None:
    with pytest.raises(GraphRequiredError, match=r"with tf.Graph\(\).as_default\(\)"):
        TowerContext("", is_training=True).__enter__()
    assert get_current_tower_context() is None


def test_context_belongs_to_one_thread(graph: tf.Graph) -> None:
    barrier = threading.Barrier(2)
    seen: dict[str, str | None] = {}

    def build(name: str) -> None:
        with tf.Graph().as_default(), TowerContext(name, is_training=True):
            barrier.wait(30)
            context = get_current_tower_context()
            seen[name] = context and context.name

    with TowerContext("main", is_training=True):
        threads = [threading.Thread(target=build, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == {"a": "a", "b": "b"}


def test_get_collection_in_tower_returns_added_items(graph: tf.Graph) -> None:
    tf.add_to_collection("things", "before")
    with TowerContext("", is_training=True) as tower:
        tf.add_to_collection("things", "inside")
        tf.add_to_collection("new", "first")
        assert tower.get_collection_in_tower("things") == ["inside"]
        assert tower.get_collection_in_tower("new") == ["first"]
    with pytest.raises(TowerError, match="Tower '' is not entered"):
        tower.get_collection_in_tower("things")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": 2, "num_towers": 2}, "0 <= index < num_towers"),
        ({"index": -1}, "0 <= index < num_towers"),
        ({"name": "tower0/"}, "name='tower0/'.*without leading or trailing '/'"),
        ({"variable_scope": "/v"}, "variable_scope='/v'"),
    ],
)
def test_bad_values_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TowerContext(**{"name": "", "is_training": True, **options})


@pytest.mark.parametrize("options", [{"is_training": 1}, {"name": 3}, {"variable_scope": None}])
def test_bad_types_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        TowerContext(**{"name": "", "is_training": True, **options})
