"""The Trainer of transformers with its own reports to MLflow."""

import os
import tempfile

import mlflow
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

os.environ["MLFLOW_EXPERIMENT_NAME"] = "trainer"
os.environ["HF_MLFLOW_LOG_ARTIFACTS"] = "0"
torch.manual_seed(0)
config = BertConfig(
    vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
    max_position_embeddings=8,
)  # fmt: skip
rows = [{"input_ids": torch.arange(8) + n % 2, "labels": torch.tensor(n % 2)} for n in range(16)]
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), max_steps=4, logging_steps=1, per_device_train_batch_size=4, report_to=["mlflow"],
    use_cpu=True, save_strategy="no", disable_tqdm=True, run_name="bert",
)  # fmt: skip
Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=rows).train()

(run,) = mlflow.search_runs(experiment_names=["trainer"], output_format="list")
assert run.data.params["vocab_size"] == "20"
assert run.data.params["max_steps"] == "4"
history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
assert [one.step for one in history] == [1, 2, 3, 4], run.data
