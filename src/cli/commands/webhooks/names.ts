import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Forward, Notification } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { escapeControl, escapeControlInLines } from "../../terminal/escape-control.ts";
import { formatCount } from "../../terminal/format.ts";

/** Returns `calendar/ada`, or just the integration if no connection is concerned. */
export const subjectOf = ({ integration, connectionId }: Forward): string =>
  connectionId === "" ? integration : `${integration}/${connectionId}`;

/** Returns the provider's own ID, which may have several parts; empty if there is none. */
export const messageOf = ({ messageId }: Notification): string => messageId.split(/\0+/).join(" ");

const shownConnections = 3;

/** Names the matching connections; if there are many, only the first few. */
export function connectionsOf({ matches }: Pick<Notification, "matches">): string {
  const shown = matches.slice(0, shownConnections).map(({ id }) => id);
  const more = matches.length - shown.length;
  return more === 0 ? shown.join(",") : `${shown.join(",")} and ${more} more`;
}

export const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

/** Shows a body as text, if it is text. */
export function bodyText(body: Uint8Array): string {
  const text = textIn(body);
  return text === undefined ? `${formatCount(body.length, "byte")}, not text; --json shows them in base64` : text;
}

/** Shows a body on one line, shortened to fit. */
export function gist(body: Uint8Array): string {
  const text = textIn(body)?.replace(/\s+/g, " ").trim();
  if (text === undefined) return formatCount(body.length, "byte");
  return escapeControl(text.length > gistLength ? `${text.slice(0, gistLength)}…` : text);
}

const gistLength = 60;

function textIn(body: Uint8Array): string | undefined {
  try {
    return escapeControlInLines(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    /* Not text, such as a picture. */
    return undefined;
  }
}

/** The bound of a filter. */
export const bound = (ms: number | undefined): Timestamp | undefined =>
  ms === undefined ? undefined : timestampFromMs(ms);
