"""Questions asked of the method: a folder each, with code and data.

`python -m reset_cycles.research.NAME --help` says what a question's program
does.

  NAME         the question                             its page
  board        How does it do beside others?            board/SCOREBOARD.md
  costs        What does it cost beyond bare optax?     costs/COSTS.md
  growing      What to do when the data grow?           growing/GROWING_DATA.md
  lost_runs    What if target or rate are wrong?        docs/choosing.md
  muon         What does Muon bring?                    muon/MUON.md
  own_loop     What to take in a loop of one's own?     own_loop/OWN_LOOP.md
  peaks        Which peak suits noise and length?       peaks/PEAKS.md
  real_runner  How is it in the benchmark's runner?     real_runner/README.md
  replay       Which rule to leave a cycle by?          replay/FINDINGS.md
  thesis       Do the thesis' figures and claims hold?  thesis/RESULTS.md

tests/research/NAME has a question's tests. What several questions use lies
beside them: `scores`, `run_logs`, `small`, `workers`, and in `former` the
setting that was in force before.
"""
