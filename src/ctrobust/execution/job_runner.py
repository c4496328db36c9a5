"""Running one job: a training, an evaluation, an embedding or a verdict, into its run directory."""

from pathlib import Path

import numpy as np
import torch

from ctrobust import data as datasets
from ctrobust.attacks import parse
from ctrobust.errors import InputError
from ctrobust.execution.stored_evaluation import evaluate_stored, evaluation_data
from ctrobust.execution.stored_verdict import verdict_stored
from ctrobust.models import WeightsFile
from ctrobust.specs import EmbeddingJob, EvaluationJob, Job, TrainingJob, VerdictJob, WeightsJob
from ctrobust.store import JobIndex, RunDirectory, Store, embedding_file, write_arrays
from ctrobust.training import CheckpointPolicy, train


def run_job(
    job: Job, store: Store, data_root: Path | None = None, checkpointing: CheckpointPolicy | None = None
) -> None:
    """Run a job to its end; a job that was interrupted resumes."""
    if isinstance(job, TrainingJob):
        run = store.find_writable(job.training)
        train(job.training, run, data_root=data_root, resume=True, checkpointing=checkpointing)
    elif isinstance(job, EvaluationJob):
        _evaluate(job, find_trained(job, store), writable_run(job, store), data_root)
    elif isinstance(job, EmbeddingJob):
        embed(job, find_trained(job, store), writable_run(job, store), data_root)
    else:
        _verdict(job, find_trained(job, store), writable_run(job, store), data_root)


def find_trained(job: WeightsJob, store: Store) -> RunDirectory:
    """The finished run that has the weights; it may be in a read-only directory."""
    run = JobIndex(store).trained(job)
    if run is None:
        raise InputError(f"no finished run of the training that this job needs has its {job.weights} weights")
    return run


def writable_run(job: WeightsJob, store: Store) -> RunDirectory:
    """The run directory below the store's root that takes the result, with the spec and record of the run."""
    run = store.find_writable(job.training)
    if not run.record_file.exists():
        run.write_spec(job.training)
        run.write_record(find_trained(job, store).read_record())
    return run


def _weights(job: WeightsJob, run: RunDirectory) -> WeightsFile:
    return WeightsFile.read(run.model_file if job.weights == "last" else run.best_file)


def _evaluate(job: EvaluationJob, run: RunDirectory, into: RunDirectory, data_root: Path | None) -> None:
    weights = _weights(job, run)
    found = evaluation_data(weights, job.data or job.training.data, data_root, job.split)
    attack = None if job.attack == "none" else parse(job.attack)
    rows = evaluate_stored(
        weights, found, [attack], limit=job.limit, chunk=job.chunk, keep_probabilities=job.keep_probabilities, into=into
    )
    for _ in rows:
        pass


def _verdict(job: VerdictJob, run: RunDirectory, into: RunDirectory, data_root: Path | None) -> None:
    weights = _weights(job, run)
    found = evaluation_data(weights, job.training.data, data_root)
    verdict_stored(weights, found, eps=job.eps, norm=job.norm, limit=job.limit, seed=job.seed, into=into)


def embed(job: EmbeddingJob, run: RunDirectory, into: RunDirectory, data_root: Path | None = None) -> None:
    """Store the logits of a run's test images in another run directory or the same, and their t-SNE embedding."""
    model = _weights(job, run).build()
    found = datasets.load(job.training.data, job.split, data_root).take(job.limit)
    with torch.no_grad():
        logits = torch.cat([model(datasets.to_float(images)) for images in found.images.split(256)]).numpy()
    arrays = {"logits": logits.astype(np.float32), "labels": found.labels.numpy()}
    if job.embedding == "tsne":
        from sklearn.manifold import TSNE  # imported here because scikit-learn takes long to load

        perplexity = min(30.0, (len(logits) - 1) / 3)
        arrays["points"] = TSNE(perplexity=perplexity, random_state=job.seed, init="pca").fit_transform(logits)
    write_arrays(embedding_file(into, job), arrays)
