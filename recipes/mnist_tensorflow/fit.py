"""Trains a digit classifier with `fit` of tf_keras, over all tasks that TF_CONFIG names.

    drumbeat run job.yml
    python fit.py --data data

Keras 3's own `fit` doesn't work over several workers; loop.py is how it is done there.
"""

import cluster
import tf_keras as keras
from digits import network
from training import describe, finish, load_data, make_batches, parse_options

EPOCHS = 6


def main() -> None:
    """Joins the others, trains, tests, saves."""
    options = parse_options("Trains a digit classifier with tf_keras's fit.")
    digits = load_data(options)
    strategy = cluster.join()
    cluster.say(describe(digits, options))
    with strategy.scope():
        model = network(keras, digits, options.seed)
        model.compile(
            optimizer=keras.optimizers.SGD(options.lr, momentum=0.9),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    batches = strategy.distribute_datasets_from_function(make_batches(digits, options))
    steps = max(1, options.steps // EPOCHS)
    told = model.fit(batches, epochs=EPOCHS, steps_per_epoch=steps, verbose=2 if cluster.IS_LEADER else 0)
    finish(keras, model, digits, options, {"training_loss": told.history["loss"][-1]})


if __name__ == "__main__":
    main()
