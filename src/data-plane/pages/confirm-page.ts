import { html } from "../../base/html.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { formActionsOf, hidden, type IntegrationChoice, marksOf, titleOf } from "./connect-page.ts";
import { page } from "./layout.ts";
import { filled, type PageSettings, settingsQuery } from "./page-settings.ts";
import { busySubmit } from "./scripts.ts";
import { askedBy, askingTitle, type SessionOwner } from "./session-owner.ts";

interface Confirmation {
  readonly owner: SessionOwner;
  readonly settings: PageSettings;
  /** The browser's parameters, and the proof that this page was shown to the browser. */
  readonly fields: Readonly<Record<string, string>>;
}

/** Returns the page for a browser that another site sends to a provider: nothing happens before the person agrees. */
export function confirmPage(choice: IntegrationChoice, { owner, settings, fields }: Confirmation): RouteAnswer {
  const title = titleOf(choice, settings);
  const { form } = settings.texts;
  const content = html`${askedBy(owner, settings, title)}<form method="post" action="./${encodeURIComponent(choice.integration.key)}/confirm${settingsQuery(settings)}">
${hidden(fields)}<button>${form.connect}</button><p class="quiet lead">${filled(form.leaving, { title })}</p></form>`;
  return page(askingTitle(settings, form.title, form.wants, title), content, {
    settings,
    marks: marksOf(choice, settings),
    scripts: [busySubmit],
    formActions: formActionsOf(choice.provider),
  });
}
