"""A running average in a loop of your own: the model trains on, and the average is written at the end."""

import torch

import smelt
from smelt.callbacks import running_average

model = torch.nn.Linear(2, 1)
optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
inputs, targets = torch.eye(2), torch.tensor([[1.0], [-1.0]])

with running_average(model, since=10) as average:
    for _ in range(30):
        loss = (model(inputs) - targets).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        average.update()
    with average.swapped():  # the average in the model's place, for as long as this lasts
        averaged_loss = (model(inputs) - targets).square().mean()

average.save("averaged")
assert averaged_loss < 0.1
assert smelt.inspect("averaged").parameters == 3
