"""Kuzushiji-MNIST: cursive Japanese characters in the format of MNIST (Clanuwat et al., arXiv:1812.01718)."""

from ctrobust.data.mnist import like_mnist

# Sizes and SHA-256 are those of TensorFlow Datasets (tensorflow_datasets/url_checksums/kmnist.txt). The SHA-256 of the
# uncompressed files is not published. Mean and standard deviation are the usual ones of KMNIST's training images.
KMNIST = like_mnist(
    "kmnist",
    "70,000 cursive Japanese characters in 10 classes, grayscale 28 x 28",
    ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
    mean=0.1918,
    std=0.3483,
    mirrors=("https://codh.rois.ac.jp/kmnist/dataset/kmnist/", "http://codh.rois.ac.jp/kmnist/dataset/kmnist/"),
    downloads={
        "train-images-idx3-ubyte": (18165135, "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4"),
        "train-labels-idx1-ubyte": (29497, "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17"),
        "t10k-images-idx3-ubyte": (3041136, "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5"),
        "t10k-labels-idx1-ubyte": (5120, "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c"),
    },
    sha256={},
)
