import { type Html, html } from "../../base/html.ts";
import type { ConnectionChoice } from "../../gen/latchkey/v1/connection_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { hidden } from "./connect-page.ts";
import { page } from "./layout.ts";
import { brandMark, marksRow } from "./marks.ts";
import { filled, type PageSettings, provided, settingsQuery } from "./page-settings.ts";
import { supportLink } from "./result-page.ts";
import { busySubmit } from "./scripts.ts";

interface ValuesPage {
  readonly settings: PageSettings;
  /** The integration's name for people. */
  readonly title: string;
  readonly choices: readonly ConnectionChoice[];
  readonly token: string;
  /** The last choice could not be stored. */
  readonly isRefused?: boolean | undefined;
  /** The address of the form, relative to the page's. */
  readonly action: string;
}

/** More options than this are a list to open. */
const maxRadios = 7;
const prefix = "choice.";

/** Returns the page on which the user of a new connection chooses, such as one of several sites. */
export function valuesPage({ settings, title, choices, token, isRefused, action }: ValuesPage): RouteAnswer {
  const { values, result } = settings.texts;
  const failed = choices.some(({ problem }) => problem !== "");
  const notice = isRefused === true ? values.refused : failed ? values.unavailable : "";
  const alert = notice === "" ? html`` : html`<p class="notice" role="alert">${notice}</p>`;
  const shown = choices.filter(({ options }) => options.length > 0);
  const button = shown.length === 0 ? result.tryAgain : values.choose;
  const content = html`${alert}<p class="lead">${values.lead}</p><form method="post" action="${action}${settingsQuery(settings)}">
${hidden({ token })}${shown.map((choice) => choiceHtml(choice, settings))}<button>${button}</button></form>${supportLink(settings)}`;
  return page(filled(values.title, { title }), content, {
    settings,
    marks: marksRow([brandMark(settings.brand)]),
    scripts: [busySubmit],
  });
}

function choiceHtml({ name, title, options }: ConnectionChoice, settings: PageSettings): Html {
  const field = `${prefix}${name}`;
  const label = provided(settings, title);
  if (options.length > maxRadios) {
    const listed = options.map(
      (one) => html`<option value="${one.id}"${one.chosen ? html` selected` : ""}>${one.label}</option>`,
    );
    return html`<label>${label}<select name="${field}" required><option value="">${settings.texts.values.pick}</option>${listed}</select></label>`;
  }
  const radios = options.map(
    (one) =>
      html`<label class="option"><input type="radio" name="${field}" value="${one.id}" required${one.chosen ? html` checked` : ""}><bdi>${one.label}</bdi></label>`,
  );
  return html`<fieldset><legend>${label}</legend>${radios}</fieldset>`;
}

/** Returns the chosen options in the body of the page's form, by the names of the choices. */
export const chosenIn = (body: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(body).flatMap(([field, value]) =>
      field.startsWith(prefix) && typeof value === "string" && value !== ""
        ? [[field.slice(prefix.length), value]]
        : [],
    ),
  );
