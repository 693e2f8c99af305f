import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import FeedInput, NotRunningError, SetupError, SpecError, TensorInput

X = tf.TensorSpec([2], tf.float32, "x")
N = tf.TensorSpec([], tf.int64, "n")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def tensors(get_tensors, specs, **options):
    source = TensorInput(get_tensors, **options)
    source.setup(specs)
    return source, source.get_input_tensors()


def counter():
    count = tf.Variable(tf.zeros([], tf.int64), use_resource=True)
    return lambda: [count.assign_add(1)]


def test_the_function_runs_under_each_tower():
    calls = []

    def get_tensors():
        calls.append(tf.get_default_graph().get_name_scope())
        return {"x": tf.ones([2]), "n": tf.constant(3, tf.int64)}

    source = TensorInput(get_tensors)
    source.setup([N, X])
    for name in ("tower0", "tower1"):
        with tf.name_scope(name), tf.device("/gpu:0"):
            n, x = source.get_input_tensors()
            assert n.dtype == tf.int64 and x.device == "/device:GPU:0"
            assert x.op.name == f"{name}/TensorInput/x"
    assert calls == ["tower0", "tower1"]


def test_a_pass_of_a_size_ends_and_begins_again():
    source, [n] = tensors(counter(), [N], size=3, infinite=False)
    assert source.size() == 3
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        for number in range(3):
            source.reset_state()
            seen = []
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    seen.append(int(session.run(n)))
            first = 3 * number + 1
            assert seen == [first, first + 1, first + 2], "the failed take must not have read"


def test_the_end_of_a_pass_counts_all_towers():
    # Each number once, also where two towers take at the same moment.
    numbers = tf.data.make_one_shot_iterator(tf.data.Dataset.range(1, 100))
    source, [first] = tensors(lambda: [numbers.get_next()], [N], size=4, infinite=False)
    [second] = source.get_input_tensors()
    taken = []
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        while True:
            taken.extend(int(n) for n in session.run([first, second]))
    assert sorted(taken) == [1, 2, 3, 4]


def test_endless_with_and_without_a_size():
    source, [n] = tensors(counter(), [N], size=2)
    assert source.size() == 2 and source.infinite and source.hooks() == []
    with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        source.reset_state()
        assert [int(session.run(n)) for _ in range(4)] == [1, 2, 3, 4]
    assert TensorInput(counter()).size() is None


def test_uncertain_shapes_are_checked_at_run_time():
    shape = tf.placeholder_with_default([2], [1])
    _, [x] = tensors(lambda: tf.ones(shape), [X])
    assert x.shape.as_list() == [2]
    with tf.Session() as session:
        assert session.run(x).tolist() == [1, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[3\].*\[2\]"):
            session.run(x, {shape: [3]})


@pytest.mark.parametrize(
    ("get_tensors", "message"),
    [
        (list, r"get_tensors\(\) gives 0 components, but the specs declare 1: \['x'\]"),
        (lambda: {"y": 1}, r"gives a dict with the keys \['y'\], but the specs declare \['x'\]"),
        (lambda: [object()], r"returned <object .* for 'x', not a tensor"),
        (lambda: [tf.zeros([2], tf.int32)], "gives 'x' as int32, but the spec declares float32"),
        (lambda: [tf.zeros([3])], r"gives 'x' with the shape \(3,\), but the spec declares \(2,\)"),
    ],
)
def test_mismatches_are_named(get_tensors, message):
    with pytest.raises(SpecError, match=message):
        tensors(get_tensors, [X])


def test_tensors_of_another_graph():
    with tf.Graph().as_default():
        elsewhere = tf.ones([2])
    with pytest.raises(SetupError, match="of another graph for 'x'"):
        tensors(lambda: [elsewhere], [X])


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"received .*Write TensorInput\(lambda"):
        TensorInput([1])
    with pytest.raises(ValueError, match="at least 1; received 0"):
        TensorInput(counter(), size=0)


def test_reset_needs_the_session():
    source, _ = tensors(counter(), [N], size=1, infinite=False)
    with pytest.raises(NotRunningError, match="needs the live session"):
        source.reset_state()


def test_the_names_of_the_specs_stay_free_for_an_evaluation():
    """Inputs that are fed have placeholders of these names, in the same graph."""
    training = TensorInput(lambda: [tf.constant(3, tf.int64)])
    training.setup([N])
    evaluation = FeedInput([[5], [6]], infinite=False)
    [trained] = training.get_input_tensors()
    evaluation.setup([N])
    [evaluated] = evaluation.get_input_tensors()
    with tf.train.MonitoredTrainingSession(hooks=evaluation.hooks()) as session:
        assert session.run([trained, evaluated]) == [3, 5]
