import { type Html, html } from "../../base/html.ts";
import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import { filled, filledHtml, type PageSettings } from "./page-settings.ts";

/** The owner of a session, in words that an end user can check before connecting. */
export interface SessionOwner {
  /** The application that made the session. */
  readonly application: string;
  readonly user: string;
}

interface OwnedSession {
  readonly session: Pick<ConnectSession, "environment" | "endUser" | "tags">;
  readonly allowedOrigins: readonly string[];
}

const maxOrigins = 3;

/**
 * Describes the application by the hosts of its pages, which its users know, or else by the environment's name.
 * Describes the user by name and email address: users choose their names themselves.
 */
export function ownerOf({ session: { environment, endUser, tags }, allowedOrigins }: OwnedSession): SessionOwner {
  const hosts = allowedOrigins.slice(0, maxOrigins).map((origin) => new URL(origin).host);
  const name = endUser?.displayName || tags["end_user_display_name"] || "";
  const address = endUser?.email || tags["end_user_email"] || endUser?.id || tags["end_user_id"] || "";
  const others = Object.entries(tags).map(([key, value]) => `${key} ${value}`);
  const known = [name, address].filter((text) => text !== "");
  return {
    application: hosts.length > 0 ? hosts.join(", ") : environment,
    user: known.length === 2 ? `${name} (${address})` : (known[0] ?? others.join(", ")),
  };
}

/** Returns the title of a page on which an application asks. Without its name, `plain`. */
export const askingTitle = ({ brand }: PageSettings, plain: string, named: string, title = ""): string =>
  brand.name === "" ? filled(plain, { title }) : filled(named, { title, application: brand.name });

/** Names the application and the user, so that a person does not connect an account for the sender of a link. */
export function askedBy({ application, user }: SessionOwner, { texts, brand }: PageSettings, title?: string): Html {
  const { asked, askedFor, askedTitle, askedTitleFor, askedWarning, forUser } = texts.form;
  const text = title === undefined ? (user === "" ? asked : askedFor) : user === "" ? askedTitle : askedTitleFor;
  const names = {
    application: html`<strong>${application}</strong>`,
    user: html`<strong>${user}</strong>`,
    title: html`${title ?? ""}`,
  };
  // With a name, the title says who asks.
  const sentence = brand.name === "" ? text : forUser;
  const lead = brand.name !== "" && user === "" ? html`` : html`<p class="lead">${filledHtml(sentence, names)}</p>`;
  return html`${lead}<p class="quiet lead">${askedWarning}</p>`;
}
