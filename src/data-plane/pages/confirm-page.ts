import { html } from "../../base/html.ts";
import type { Answer } from "../routes.ts";
import { type Choice, formActionsOf, hidden, titleOf } from "./connect-page.ts";
import { page } from "./layout.ts";
import { askedBy, type SessionOwner } from "./session-owner.ts";

interface Confirmation {
  readonly owner: SessionOwner;
  /** What the browser came with, and the proof that this page was shown to it. */
  readonly fields: Readonly<Record<string, string>>;
}

/** What a browser is shown that another site sends to a provider: nothing happens before the person agrees. */
export function confirmPage(choice: Choice, { owner, fields }: Confirmation): Answer {
  const title = titleOf(choice);
  const content = html`${askedBy(owner, title)}<form method="post" action="${encodeURIComponent(choice.integration.key)}">
${hidden(fields)}<p class="quiet">You go to ${title}, sign in there, and come back here.</p><button>Connect</button></form>`;
  return page(`Connect ${title}`, content, { formActions: formActionsOf(choice.provider) });
}
