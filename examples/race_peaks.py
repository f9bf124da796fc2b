"""A race of three peak learning rates; the best one gets the rest of the steps.

You will see three networks begin a cycle each, with peaks of 0.0001, 0.003
and 0.1, and a line that says which is best after a tenth of the steps; that one
alone trains on to the end of its cycle. race_peaks.png shows the three.

  python examples/race_peaks.py
"""

import dataclasses

import jax
import plain_jax
from common import History, draw, spirals

from reset_cycles import THESIS, Cycles, State

PEAKS = (0.0001, 0.003, 0.1)
ONE_CYCLE = dataclasses.replace(
  THESIS,
  warmups=('linear',),
  decays=('cosine',),
  alter_lr=(0.0,),
  alter_warmup=(0.0,),
  lengths=(1.0,),
  reset_mode='cyclic',
  early_switching=False,
)


class Contestant:
  def __init__(self, peak: float, num_steps: int) -> None:
    chain = ONE_CYCLE.override({'learning_rate': peak, 'weight_decay': 0.001})
    self.cycles = Cycles(
      chain, num_steps, make_params=plain_jax.init, target=0.99
    )
    self.train_step = plain_jax.make_train_step(self.cycles)
    params = plain_jax.init(jax.random.PRNGKey(1))
    self.state = State(params, self.cycles.optimizer.init(params))
    self.step, self.history = 0, History(f'peak {peak}')

  def train(self, until: int, every: int) -> float:
    for step in range(self.step, until):
      self.state, events = self.cycles.before_step(step, self.state)
      rate = self.cycles.learning_rate(self.state)
      self.history.saw(step, events, rate)
      self.state = self.train_step(self.state, *spirals(step, count=64))
      if (step + 1) % every == 0:
        self.evaluate(step + 1)
    self.step = until
    return max(self.history.metrics.values())

  def evaluate(self, step: int) -> None:
    loss, accuracy = plain_jax.loss_fn(self.state.params, *spirals(2**31))
    self.history.metrics[step] = float(accuracy)
    self.state, events = self.cycles.after_evaluation(
      step, loss, accuracy, self.state
    )
    self.history.saw(step, events)


def main(num_steps: int = 1500, picture: str = 'race_peaks.png') -> History:
  every = max(num_steps // 50, 1)
  contestants = [Contestant(peak, num_steps) for peak in PEAKS]
  scores = [each.train(num_steps // 10, every) for each in contestants]
  winner = contestants[scores.index(max(scores))]
  print(f'after {num_steps // 10} steps {winner.history.name} is ahead')
  print(f'its best accuracy is {winner.train(num_steps, every):.3f}')
  draw(picture, [each.history for each in contestants], target=0.99)
  return winner.history


if __name__ == '__main__':
  main()
