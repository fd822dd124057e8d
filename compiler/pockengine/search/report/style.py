"""How the page looks, by day and by night."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --ink: #1b1b1a; --soft: #5d5c58; --line: #e3e2de; --track: #ecebe7;
  --on: #2a6fc9; --on-soft: #e4eefb; --off: #b9b7b0; --limit: #b3421f; --beyond: rgba(179, 66, 31, .07);
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #161615; --card: #1f1f1e; --ink: #eeede9; --soft: #a9a7a0; --line: #34332f; --track: #2b2a27;
    --on: #5b9bf0; --on-soft: #1d2b40; --off: #65635c; --limit: #f08a63; --beyond: rgba(240, 138, 99, .08);
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 40px 24px 72px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 6px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 44px 0 4px; }
p { margin: 0; max-width: 80ch; }
section > p, .lead, .note { color: var(--soft); }
section > p { margin-bottom: 14px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(220px, 1fr)); gap: 14px; margin-top: 24px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px; }
.tile .label { color: var(--soft); font-size: 13px; }
.tile .value { font-size: 26px; font-weight: 600; line-height: 1.25; }
.note { font-size: 13px; }
.meter { display: block; width: 100%; height: 16px; margin-top: 8px; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 14px; }
.picture { width: 100%; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.scrolled { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: left; padding: 6px 10px; border-top: 1px solid var(--line); vertical-align: middle; }
thead th { border-top: 0; color: var(--soft); font-weight: 500; white-space: nowrap; }
tbody th { font-weight: 500; overflow-wrap: anywhere; min-width: 110px; max-width: 260px; }
.layers tbody th { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 12.5px; }
.layers tr.out th, .layers tr.out td { color: var(--soft); }
.compared tr.in { background: var(--on-soft); }
.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
.why { min-width: 190px; }
.over { color: var(--limit); }
.chips { min-width: 156px; }
.chip { display: inline-block; margin: 1px 4px 1px 0; padding: 0 8px; border-radius: 999px; font-size: 12px;
  border: 1px solid var(--line); color: var(--soft); white-space: nowrap; }
.chip.on { background: var(--on); border-color: var(--on); color: var(--card); font-weight: 500; }
.barred { display: flex; align-items: center; gap: 8px; white-space: nowrap; font-variant-numeric: tabular-nums; }
.track { fill: var(--track); }
.bar { fill: var(--off); }
.bar.on { fill: var(--on); }
.tick { stroke: var(--card); stroke-width: 1; }
.grid { stroke: var(--line); stroke-width: 1; }
.base { stroke: var(--off); stroke-width: 1; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: var(--soft); }
.label.found { fill: var(--on); font-weight: 600; }
.label.usual { fill: var(--ink); }
.leader { stroke: var(--off); stroke-width: 1; }
.front { fill: none; stroke: var(--on); stroke-width: 2; opacity: .55; }
.point { fill: var(--on); opacity: .55; }
circle.usual { fill: var(--card); stroke: var(--soft); stroke-width: 2; }
circle.found { fill: var(--on); stroke: var(--card); stroke-width: 2; }
line.limit { stroke: var(--limit); stroke-width: 1.5; stroke-dasharray: 4 3; }
text.limit { fill: var(--limit); }
.beyond { fill: var(--beyond); }
pre { margin: 10px 0 0; padding: 16px 18px; overflow-x: auto; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; font: 12.5px/1.55 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 10px 0 0; font-size: 13.5px; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 520px) { .pictures { grid-template-columns: 1fr; } }
@media print { body { background: #fff; } .tile, .picture, .scrolled, pre { break-inside: avoid; } }
"""
