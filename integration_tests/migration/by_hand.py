"""What is left to do by hand, once `migrate` has rewritten the scripts in `before/`: what stands for what."""

from pathlib import Path

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in (HERE / "before").glob("*.py"))

CHANGES = {
    "resnet": [
        ("    logger.set_logger_dir(os.path.join('train_log', 'digits-resnet'))\n", ""),
        ("        max_epoch=2,\n", "        max_epoch=2,\n        log_dir='train_log/digits-resnet',\n"),
        # The tests have no GPUs.
        ("gpus=num_gpu,", "devices=['/cpu:0', '/cpu:1'],"),
    ],
    "own_callback": [
        (
            "    def _before_inference(self):",
            "    def produces(self):\n        return ['confusion_accuracy']\n\n"
            "    def _before_inference(self):",
        ),
    ],
    "inference": [
        ("    logger.set_logger_dir(LOG_DIR)\n", ""),
        ("max_epoch=4)", "max_epoch=4, log_dir=LOG_DIR)"),
        ("os.path.join(LOG_DIR, 'checkpoint')", "os.path.join(LOG_DIR, 'latest')"),
    ],
    "rnn": [
        ("towerpack_layers import FullyConnected", "towerpack_layers import RNN, FullyConnected"),
        (
            "tf.variable_scope('RNN', initializer=initializer)",
            "tf.variable_scope('', initializer=initializer)",
        ),
        (
            "outputs, last_state = tf.nn.dynamic_rnn(cell, input, dtype=tf.float32)",
            "outputs = RNN('RNN', input, cell)",
        ),
    ],
    "gan": [
        (
            "from towerpack_trainers import ModelDesc, TowerTrainer\n",
            "from towerpack_trainers import TrainConfig\n"
            "from towerpack_trainers.gan import GANCosts, GANModelDesc, GANTrainer\n",
        ),
        ("class Model(ModelDesc):", "class Model(GANModelDesc):"),
        ("        self.d_loss = ", "        d_loss = "),
        ("        self.g_loss = ", "        g_loss = "),
        ("add_moving_summary(self.d_loss, self.g_loss)", "add_moving_summary(d_loss, g_loss)"),
        ("        self.g_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, 'gen/')\n", ""),
        (
            "        self.d_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, 'discrim/')\n",
            "        return GANCosts(generator=g_loss, discriminator=d_loss)\n",
        ),
        (
            "GANTrainer(QueueInput(get_data()), Model()).train_with_defaults(\n",
            "GANTrainer(TrainConfig(\n        model=Model(),\n        data=QueueInput(get_data()),\n",
        ),
        ("        session_init=None,\n    )\n", "        session_init=None,\n    )).train()\n"),
    ],
}


def finished(name: str) -> str:
    """Returns a rewritten script with its work by hand done."""
    script = (HERE / "after" / f"{name}.py").read_text(encoding="utf-8")
    if name == "gan":  # the trainer of the examples is one of Towerpack's
        start, end = script.index("# TODO(towerpack): a trainer"), script.index("class Model")
        script = script[:start] + script[end:]
    for old, new in CHANGES.get(name, ()):
        assert script.count(old) == 1, (name, old)
        script = script.replace(old, new)
    return script
