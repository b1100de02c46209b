"""The report's style: light and dark, from a phone's width up, no font from elsewhere."""

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--quiet:#59636e;--paper:#fff;--line:#d1d9e0;
--pass:#116329;--fail:#b3111d;--inconclusive:#7d4e00;--unsupported:#59636e;--bar:#0a69da;--tint:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--quiet:#9198a1;--paper:#0d1117;--line:#3d444d;
--pass:#4ac26b;--fail:#ff7b72;--inconclusive:#e3b341;--unsupported:#9198a1;--bar:#4493f8;--tint:#151b23}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1060px;margin:0 auto;padding:16px}
header,.first{border:1px solid var(--line);border-left:6px solid;border-radius:6px;
padding:12px 16px;background:var(--tint);margin-bottom:12px}
header p{margin:4px 0}
.first{overflow-wrap:anywhere}
header.pass{border-left-color:var(--pass)}
header.fail,.first.fail{border-left-color:var(--fail)}
header.inconclusive,.first.inconclusive{border-left-color:var(--inconclusive)}
h1{margin:0;font-size:26px;text-transform:uppercase;letter-spacing:.02em}
h1 small{display:inline-block;margin-left:12px;font-size:15px;font-weight:400;text-transform:none;
letter-spacing:0;color:var(--quiet)}
h2{font-size:18px;margin:24px 0 8px}h3{font-size:15px;margin:16px 0 4px}
.quiet{color:var(--quiet)}
.mark{font-weight:700}.mark.pass{color:var(--pass)}.mark.fail{color:var(--fail)}
.mark.inconclusive{color:var(--inconclusive)}.mark.unsupported{color:var(--unsupported)}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:5px 8px;border-bottom:1px solid var(--line);vertical-align:top;
overflow-wrap:anywhere}
th{overflow-wrap:normal}
td:nth-child(3){white-space:nowrap}
.number{text-align:right}
a{color:var(--bar)}
ul{padding-left:20px;overflow-wrap:anywhere}
details{border-bottom:1px solid var(--line);padding:5px 0}
summary{cursor:pointer}
code{font-size:13px}
.timeline{overflow-x:auto}
svg{display:block;min-width:560px;width:100%;height:auto;font:11px system-ui,sans-serif}
svg text{fill:var(--ink)}svg .quiet{fill:var(--quiet)}
svg .lane{stroke:var(--line)}svg .lease{fill:var(--bar);opacity:.28}
svg .lease.odd{opacity:.5}
svg .harm{fill:var(--fail);stroke:var(--fail)}
"""
