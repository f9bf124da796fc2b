"""The engine of the submission, on both sides of the root modules.

Below soft_reset.py, early_switching.py and schedule_params.py, which use them:
checks, schedules, clock, plan, evaluation, horizon, workload, devices, train_step,
optimizers, relative_peak. Above these three: model_reset, state, events, records,
control and, below submission.py alone, run.
"""
