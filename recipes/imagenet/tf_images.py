"""Batches for TensorFlow, by `tf.data`: each rank reads its own images, decoded only where they are cropped."""

import tensorflow as tf
from folders import ImageFolder
from settings import FAKE_CLASSES, Settings

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
TEST_SHARE = 0.875


def normalized(pixels_BHWC: tf.Tensor) -> tf.Tensor:
    """Returns pixels of mean 0 and deviation 1."""
    return (tf.cast(pixels_BHWC, tf.float32) - tf.constant(MEAN)) / tf.constant(STD)


def random_part(content: tf.Tensor, size: int) -> tf.Tensor:
    """A random part of a JPEG, mirrored in half of the cases; nothing outside it is decoded."""
    shape = tf.io.extract_jpeg_shape(content)
    whole = tf.zeros([0, 0, 4], tf.float32)
    begin, extent, _ = tf.image.sample_distorted_bounding_box(
        shape, whole, area_range=(0.25, 1.0), aspect_ratio_range=(3 / 4, 4 / 3), use_image_if_no_bounding_boxes=True
    )
    window = tf.concat([begin[:2], extent[:2]], 0)
    pixels_HWC = tf.image.decode_and_crop_jpeg(content, window, channels=3)
    return tf.image.random_flip_left_right(tf.image.resize(pixels_HWC, (size, size)))


def middle_part(content: tf.Tensor, size: int) -> tf.Tensor:
    """The square in the middle that is tested."""
    shape = tf.io.extract_jpeg_shape(content)
    side = tf.cast(tf.cast(tf.minimum(shape[0], shape[1]), tf.float32) * TEST_SHARE, tf.int32)
    window = tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])
    return tf.image.resize(tf.image.decode_and_crop_jpeg(content, window, channels=3), (size, size))


def training_batches(folder: ImageFolder | None, settings: Settings, rank: int, size: int) -> tf.data.Dataset:
    """Full batches of one rank; each pass is an epoch in another order. folder: None = synthetic images."""
    if folder is None:
        pixels = tf.random.stateless_uniform([settings.image_size, settings.image_size, 3], (0, 0), 0, 256, tf.int32)
        one = (tf.cast(pixels, tf.uint8), tf.constant(0))
        images = settings.fake_images // (size * settings.batch_size) * settings.batch_size
        return tf.data.Dataset.range(images).map(lambda at: (one[0], at % FAKE_CLASSES)).batch(settings.batch_size)
    names = tf.data.Dataset.from_tensor_slices((folder.paths, folder.labels))
    # All ranks draw the same order: its shards have no image in common.
    names = names.shuffle(len(folder.paths), seed=settings.seed, reshuffle_each_iteration=True).shard(size, rank)
    names = names.take(len(folder.paths) // (size * settings.batch_size) * settings.batch_size)
    workers = max(1, min(settings.workers, 16))
    pixels = names.map(
        lambda path, label: (random_part(tf.io.read_file(path), settings.image_size), label), num_parallel_calls=workers
    )
    return pixels.batch(settings.batch_size, drop_remainder=True).prefetch(2)


def testing_batches(folder: ImageFolder, settings: Settings, rank: int, size: int) -> tf.data.Dataset:
    """One rank's part of the images to test, normalized: over all ranks, each once."""
    names = tf.data.Dataset.from_tensor_slices((folder.paths, folder.labels)).shard(size, rank)
    read = names.map(lambda path, label: (middle_part(tf.io.read_file(path), settings.image_size), label))
    return read.batch(settings.batch_size).map(lambda pixels_BHWC, labels_B: (normalized(pixels_BHWC), labels_B))
