/** The style of the sandbox's pages, in light and dark. Borders of controls have at least 3:1, text at least 4.5:1. */
const light =
  "--ink:#16181d;--quiet:#5a6170;--paper:#f4f5f7;--card:#fff;--line:#dfe3ea;--edge:#868d9b;--hover:#f0f2f5;--do:#1f4fbf;--on-do:#fff;--good:#14683a;--good-paper:#e9f6ee;--bad:#a3131b;--code:#f0f2f5";
const dark =
  "--ink:#eceef2;--quiet:#a3aab8;--paper:#14161a;--card:#1e2127;--line:#343a45;--edge:#787f8f;--hover:#252932;--do:#8fb0ff;--on-do:#0c1220;--good:#7fd6a2;--good-paper:#1c3327;--bad:#ff9a9a;--code:#14161a";

export const style = `:root{color-scheme:light dark;${light}}@media (prefers-color-scheme:dark){:root{${dark}}}
*{box-sizing:border-box}body{max-width:26.5rem;margin:0 auto;padding:3rem 1rem;font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--paper);overflow-wrap:anywhere}body.wide{max-width:62rem}
h1{margin:0 0 .75rem;font-size:1.375rem;font-weight:650;line-height:1.3;letter-spacing:-.011em}h2{margin:0 0 .5rem;font-size:1rem;font-weight:650}h3{margin:1rem 0 .4rem;font-size:.8125rem;font-weight:600;color:var(--quiet)}
p{margin:.5rem 0}a{color:var(--do);text-underline-offset:.15em}.note{color:var(--quiet);font-size:.875rem}
section,.card{margin:1rem 0;padding:1.25rem;background:var(--card);border:1px solid var(--line);border-radius:.9rem}.columns{display:grid;gap:0 1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr))}
.troubles{gap:.25rem 1.25rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,13.25rem),1fr))}.stacked{display:grid;gap:.4rem}.stacked button{min-height:2.35rem;padding:.35rem .75rem;font-size:.875rem;text-align:left}form{margin:0}fieldset:first-of-type{margin-top:0}fieldset{margin:1rem 0;padding:0;border:0}legend{margin-bottom:.35rem;padding:0;font-weight:600;font-size:.9375rem}
label{display:flex;gap:.65rem;align-items:baseline;padding:.4rem 0}label.over{display:block;font-weight:600}label.over input{display:block;width:100%;margin-top:.35rem}label input{flex:none;accent-color:var(--do)}label span{min-width:0}
input[type=text]{font:inherit;flex:1;min-width:0;padding:.6rem .75rem;color:inherit;background:var(--card);border:1px solid var(--edge);border-radius:.6rem}
button{min-height:2.5rem;padding:.45rem .9rem;font:inherit;font-weight:550;font-size:.9375rem;color:inherit;background:var(--card);border:1px solid var(--edge);border-radius:.6rem;cursor:pointer}button:hover{background:var(--hover)}
button.do{color:var(--on-do);background:var(--do);border-color:var(--do)}button.do:hover{filter:brightness(.94)}.row{display:flex;flex-wrap:wrap;gap:.5rem;margin:.4rem 0}.decide{display:grid;gap:.75rem;margin-top:1.25rem}.decide button{min-height:2.9rem;font-weight:600}
:focus-visible{outline:3px solid var(--do);outline-offset:2px}.done{padding:.65rem .85rem;border-radius:.6rem;background:var(--good-paper);color:var(--good)}
table{width:100%;border-collapse:collapse;font-size:.9375rem}td,th{padding:.35rem 1rem .35rem 0;text-align:left;vertical-align:top;border-top:1px solid var(--line)}tr:first-child>*{border-top:0}th{font-weight:600}td.number{text-align:right;font-variant-numeric:tabular-nums}.scroll{overflow-x:auto}.scroll:focus-visible{outline-offset:-2px}.scroll table{white-space:nowrap}.quiet{color:var(--quiet)}.bad{color:var(--bad)}
ul{margin:.5rem 0;padding-left:1.25rem}code,pre{padding:.1em .3em;font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,monospace;background:var(--code);border-radius:.3rem}
@media (max-width:30rem){body{padding:1.25rem 1rem}th,td{padding-right:.75rem}table.stack td,table.stack th{display:block;border-top:0;padding:.15rem 0}table.stack th{margin-top:.5rem}}`;
