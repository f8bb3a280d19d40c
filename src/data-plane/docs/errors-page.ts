import { type FaultCode, faults } from "../../base/fault.ts";
import { faultCatalog } from "../../base/fault-catalog.ts";
import { type FaultEntry, faultSubjects } from "../../base/faults/entry.ts";
import { type Html, html } from "../../base/html.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { plainPage } from "./plain-page.ts";

/** Returns the page that the `doc_url` of every error leads to. Loaded when it is first asked for. */
export function errorsPage(): RouteAnswer {
  const all = (Object.keys(faults) as FaultCode[]).map((code) => ({ code, ...faultCatalog[code] }));
  const sections = faultSubjects.map((subject) => {
    const entries = all.filter((entry) => entry.subject === subject).map(entryOf);
    return html`<h2>${subject}</h2>
${entries}`;
  });
  const content = html`<p>Every error that Latchkey itself answers has one of these codes, in the body and in the header <code>latchkey-error</code>. An answer without this header is the provider's.</p>
${sections}`;
  return plainPage("Error codes", content);
}

const entryOf = ({ code, meaning, action, example }: { readonly code: FaultCode } & FaultEntry): Html => {
  const { status, rpc } = faults[code];
  return html`<section id="${code}"><h3><a href="#${code}"><code>${code}</code></a></h3>
<p class="quiet">HTTP ${status}, gRPC ${rpc}</p>
<p>${marked(meaning)}</p>
<p><b>What to do:</b> ${marked(action)}</p>
<p class="quiet">Example: <code>${example}</code></p></section>
`;
};

/** Text with `code` in it. */
const marked = (text: string): readonly Html[] =>
  text.split("`").map((part, i) => (i % 2 === 1 ? html`<code>${part}</code>` : html`${part}`));
