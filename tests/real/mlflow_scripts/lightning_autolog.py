"""Lightning's trainer with MLflow's autolog."""

import mlflow
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset


class Line(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, _):
        samples, labels = batch
        loss = torch.nn.functional.mse_loss(self.layer(samples), labels)
        self.log("train_loss", loss, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
samples = torch.rand(32, 1)
mlflow.set_experiment("lightning")
mlflow.pytorch.autolog(log_models=False)
with mlflow.start_run() as run:
    trainer = Trainer(max_epochs=3, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Line(), DataLoader(TensorDataset(samples, 2 * samples), batch_size=8))

found = mlflow.get_run(run.info.run_id)
history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "train_loss_epoch")
assert len(history) == 3, found.data
assert history[-1].value < history[0].value
assert found.data.params["optimizer_name"] == "SGD"
assert found.data.params["epochs"] == "3"
