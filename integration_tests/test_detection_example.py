"""The example of detection/: its figures are COCO's, and its boxes and regions are exact."""

import contextlib
import io

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

BOX = [10.0, 10.0, 20.0, 20.0]
THREE = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [0, 20, 10, 30]], np.float32)


@pytest.fixture
def figures(detection_example):
    """Computes COCO's figures of images, each with scores, labels, true labels and overlaps."""

    def of(*images):
        precision = detection_example("average_precision").AveragePrecision()
        for image in images:
            precision.add(*map(np.array, image))
        return precision.result()

    return of


def test_overlaps_of_boxes(detection_example):
    overlaps = detection_example("average_precision").box_overlaps
    others = [BOX, [10, 10, 20, 15], [15, 15, 25, 25], [20, 10, 30, 20], [12, 12, 12, 12]]
    assert np.allclose(overlaps([BOX], others), [[1, 1 / 2, 25 / 175, 0, 0]])
    assert overlaps(np.zeros((0, 4)), others).shape == (0, 5)
    with pytest.raises(ValueError, match=r"boxes have shape \[number, 4\]; received shape \(4,\)"):
        overlaps(BOX, [BOX])


def test_overlaps_of_masks(detection_example):
    overlaps = detection_example("average_precision").mask_overlaps
    masks = np.array([[[1, 1], [0, 0]], [[1, 0], [1, 0]], [[0, 0], [0, 0]]])
    assert np.allclose(overlaps(masks, masks), [[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match=r"received shapes \(3, 2, 2\) and \(3, 1, 2\)"):
        overlaps(masks, masks[:, :1])


def test_all_that_is_found_is_right(figures):
    image = [0.9, 0.8], [1, 2], [2, 1], [[0, 0.97], [0.97, 0]]
    assert figures(image, image) == {"mAP": 1, "mAP50": 1, "mAP75": 1}


def test_an_overlap_counts_up_to_its_threshold(figures):
    # 0.72 is enough for 0.5, 0.55, 0.6, 0.65 and 0.7.
    assert figures(([0.9], [1], [1], [[0.72]])) == pytest.approx({"mAP": 0.5, "mAP50": 1, "mAP75": 0})


def test_an_object_is_found_once(figures):
    # Right, wrong (the same object again), right: precisions 1 up to a recall of 0.5, and 2/3 up to 1.
    twice = [0.9, 0.8, 0.7], [1, 1, 1], [1, 1], [[0.9, 0], [0.9, 0], [0, 0.9]]
    assert figures(twice)["mAP50"] == pytest.approx((51 + 50 * 2 / 3) / 101)
    # The second one may take another object than the one it overlaps most.
    other = [0.9, 0.8], [1, 1], [1, 1], [[0.9, 0], [0.8, 0.6]]
    assert figures(other)["mAP50"] == 1


def test_scores_are_compared_across_images(figures):
    wrong, right = ([0.9], [1], np.zeros(0, int), np.zeros((1, 0))), ([0.5], [1], [1], [[0.8]])
    assert figures(wrong, right)["mAP50"] == pytest.approx(0.5)
    assert figures(right, (np.array([0.1]), *wrong[1:]))["mAP50"] == 1


def test_classes_count_alike_if_they_have_objects(figures):
    # Of two objects of class 1, one is found; the one of class 2 is found; nothing of class 3 is there.
    shared = [[0.8, 0, 0], [0, 0, 0.8], [0, 0, 0]]
    assert figures(([0.9, 0.8, 0.7], [1, 2, 3], [1, 1, 2], shared))["mAP50"] == pytest.approx(
        (51 / 101 + 1) / 2
    )
    nothing = np.zeros(0), np.zeros(0, int), [1], np.zeros((0, 1))
    assert figures(nothing)["mAP"] == 0


def test_what_does_not_belong_together_is_refused(figures):
    with pytest.raises(ValueError, match=r"received \(1,\), \(1,\), \(2,\) and \(1, 1\)"):
        figures(([0.9], [1], [1, 1], [[0.5]]))
    with pytest.raises(ValueError, match=r"scores are finite; received \[nan\]"):
        figures(([np.nan], [1], [1], [[0.5]]))
    with pytest.raises(ValueError, match=r"no image has an object"):
        figures(([0.9], [1], np.zeros(0, int), np.zeros((1, 0))))


@pytest.mark.slow
def test_the_figures_are_those_of_pycocotools(detection_example, figures):
    coco, evaluation = (pytest.importorskip(f"pycocotools.{name}") for name in ("coco", "cocoeval"))
    rng, images, annotations, results = np.random.default_rng(0), [], [], []
    overlaps = detection_example("average_precision").box_overlaps
    for image in range(40):
        truth = rng.uniform([0, 0, 70, 70], [40, 40, 130, 130], (rng.integers(0, 5), 4))
        found = np.repeat(truth, 3, 0) + rng.normal(0, 5, (3 * len(truth), 4))
        true_labels = rng.integers(1, 4, len(truth))
        labels = np.where(rng.random(len(found)) < 0.8, np.repeat(true_labels, 3), 1)
        scores = rng.random(len(found))
        images.append((scores, labels, true_labels, overlaps(found, truth)))
        annotations += [as_coco(image, *pair) for pair in zip(truth, true_labels)]
        results += [as_coco(image, *pair, score=score) for *pair, score in zip(found, labels, scores)]
    for number, annotation in enumerate(annotations, 1):
        annotation.update(id=number, iscrowd=0)
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO()
        truth.dataset = {
            "images": [{"id": number} for number in range(40)],
            "annotations": annotations,
            "categories": [{"id": label} for label in (1, 2, 3)],
            "info": {},
        }
        truth.createIndex()
        oracle = evaluation.COCOeval(truth, truth.loadRes(results), "bbox")
        oracle.evaluate()
        oracle.accumulate()
        oracle.summarize()
    assert list(figures(*images).values()) == pytest.approx(oracle.stats[:3], abs=1e-6)
    assert 0.1 < oracle.stats[0] < 0.9


def as_coco(image, box, label, **values):
    left, top, right, bottom = map(float, box)
    width, height = right - left, bottom - top
    place = {"bbox": [left, top, width, height], "area": width * height}
    return {"image_id": image, "category_id": int(label), **place, **values}


@pytest.fixture
def run(detection_example):
    """Computes tensors that a function makes."""

    def tensors(make):
        with tf.Graph().as_default(), tf.Session() as session:
            return session.run(make())

    return tensors


def test_changes_make_the_boxes_again(detection_example, run):
    geometry, rng = detection_example("box_geometry"), np.random.default_rng(0)
    low = rng.uniform(0, 40, (2, 5, 2))
    boxes = np.concatenate([low, low + rng.uniform(10, 50, (2, 5, 2))], 2).astype(np.float32)
    anchors = np.array([[30, 30, 60, 50]] * 5, np.float32)
    again = run(lambda: geometry.decode(geometry.encode(boxes, anchors), anchors, 96))
    assert np.allclose(again, boxes.clip(0, 96), atol=1e-3)


def test_anchors_lie_around_their_cells(detection_example):
    make_anchors = detection_example("box_geometry").make_anchors
    anchors = make_anchors(16, 8, (8,), ratios=(1.0, 4.0)).reshape(2, 2, 2, 4)
    assert anchors[0, 1].tolist() == [[8, 0, 16, 8], [10, -4, 14, 12]]
    with pytest.raises(ValueError, match="multiple of the stride, 8; received 20"):
        make_anchors(20, 8, (8,))


def test_what_overlaps_a_better_box_is_dropped(detection_example, run):
    suppress = detection_example("box_geometry").suppress
    boxes = np.stack([THREE, THREE])
    boxes[1, 1] = [1, 0, 10, 10]
    places, there = run(lambda: suppress(tf.constant(boxes), tf.constant([[0.1, 0.9, 0.5]] * 2), 3, 0.5))
    assert places.tolist() == [[1, 2, 0], [1, 2, 0]]
    assert there.tolist() == [[True] * 3, [True, True, False]]


def test_regions_are_sampled_exactly(detection_example, run):
    # Of a feature that is the place itself, the mean in each cell is its centre.
    align = detection_example("region_heads").align
    centres = (np.arange(24, dtype=np.float32) + 0.5) * 4
    features = np.stack(np.meshgrid(centres, centres), 2)[None]
    boxes = np.array([[[8.0, 20.0, 36.0, 41.0], [3.0, 3.5, 90.0, 80.25]]], np.float32)
    found = run(lambda: align(tf.constant(features), tf.constant(boxes), 7, 4))
    for region, (left, top, right, bottom) in zip(found, boxes[0]):
        cells = (np.arange(7) + 0.5) / 7
        wanted = np.meshgrid(left + cells * (right - left), top + cells * (bottom - top))
        assert np.allclose(region, np.stack(wanted, 2), atol=1e-3)


def test_anchors_are_objects_or_none_or_neither(detection_example, run):
    label = detection_example("region_proposals").label_anchors
    anchors = np.array([[0, 0, 10, 10], [0, 0, 10, 22], [50, 50, 60, 60], [20, 0, 40, 10]], np.float32)
    boxes = np.array([[[0, 0, 10, 10], [20, 0, 30, 11], [0, 0, 0, 0]]], np.float32)
    objects, others, nearest = run(lambda: label(anchors, tf.constant(boxes)))
    assert objects.tolist() == [[True, False, False, True]]  # the last: nothing is nearer to its object
    assert others.tolist() == [[False, False, True, False]]
    assert nearest[0, [0, 3]].tolist() == [0, 1]


def test_masks_are_pasted_where_their_boxes_are(detection_example):
    figures, scenes = detection_example("detection_figures"), detection_example("shape_scenes")
    box = np.array([[12.0, 20.0, 40.0, 48.0]], np.float32)
    upper = np.tile((np.arange(28) < 14).astype(np.float32)[:, None], 28)
    (pasted,) = figures.paste(upper[None], box, 64)
    assert scenes.box_of(pasted) == [12, 20, 40, 34] and pasted.sum() == 28 * 14
    assert figures.paste(upper[None][:0], box[:0], 64).shape == (0, 64, 64)


def test_image_boxes_and_masks_move_alike(detection_example):
    scenes, rng = detection_example("shape_scenes"), np.random.default_rng(0)
    drawn = [scenes.draw_scene(rng, scenes.SIZE + scenes.MARGIN) for _ in range(20)]
    flow = scenes.augmented(drawn)
    flow.seed(1)
    objects = 0
    for image, boxes, classes, instances in flow:
        assert image.shape == (scenes.SIZE, scenes.SIZE, 3) and instances.shape == image.shape[:2]
        there = int((classes > 0).sum())
        objects += there
        assert instances.max() == there and not boxes[there:].any()
        for number, box in enumerate(boxes[:there], 1):
            tight = np.array(scenes.box_of(instances == number))
            inside = (box > 0) & (box < scenes.SIZE)
            # What a crop has cut may be narrower than what is left of its box.
            assert np.array_equal(tight, box) if inside.all() else (tight[:2] >= box[:2]).all()
            assert len(np.unique(image[instances == number] // 64, axis=0)) < 12  # of one colour, with noise
    assert objects > 30


def test_scenes_are_drawn_again(detection_example):
    scenes = detection_example("shape_scenes")
    first, second = (scenes.draw_scene(np.random.default_rng(5), 96) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_wrong_number_is_refused(run_example_of, capsys):
    with pytest.raises(SystemExit):
        run_example_of("detection", "faster_rcnn.py", "--epochs", "0")
    assert "expected a whole number from 1 on, received '0'" in capsys.readouterr().err
