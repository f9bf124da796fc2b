"""The page's style sheet, for light and dark screens, and for paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1b1f24; --paper: #ffffff; --grey: #59636e; --line: #c8cdd3;
  --band: #eef1f4; --link: #0550ae;
  --line-0: #0072b2; --line-1: #c44f00; --line-2: #00805d; --line-3: #b0568a;
  --line-4: #a87400; --line-5: #2b8cc4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ed; --paper: #14171b; --grey: #a0a8b2; --line: #3d444d;
    --band: #20252b; --link: #79b8ff;
    --line-0: #56b4e9; --line-1: #ff8c42; --line-2: #2ec79b; --line-3: #e59ac2;
    --line-4: #f0c040; --line-5: #9cd2f2;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 80rem; padding: 1rem 1.5rem 4rem;
  font: 16px/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--paper);
}
a { color: var(--link); }
h1 { font-size: 1.6rem; }
h2 { font-size: 1.3rem; margin-top: 2.5rem; }
h3 { font-size: 1.1rem; margin: 2.5rem 0 .25rem; padding-top: 1rem;
  border-top: 1px solid var(--line); }
p { max-width: 46rem; margin: .5rem 0; }
.quiet { color: var(--grey); }
svg { display: block; width: 100%; max-width: 62rem; height: auto;
  margin: .75rem 0; fill: currentColor; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
svg text { font-family: system-ui, sans-serif !important; }
.scroll { overflow: auto; max-height: 32rem; margin: .75rem 0 1.5rem; }
table { border-collapse: collapse; font-size: .875rem; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0;
  border-bottom: 1px solid var(--line); font-weight: normal; }
thead th { position: sticky; top: 0; background: var(--paper);
  color: var(--grey); vertical-align: bottom; line-height: 1.25; }
td { font-variant-numeric: tabular-nums; }
.short { white-space: nowrap; }
/* Said by the summary already; still there for a screen reader. */
details caption { position: absolute; width: 1px; height: 1px;
  overflow: hidden; clip-path: inset(50%); }
details { margin: .5rem 0; }
summary { cursor: pointer; font-weight: 600; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media print { .scroll { max-height: none; overflow: visible; } }
"""
