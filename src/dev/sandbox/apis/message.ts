/** A mail message as the mail API stores it. */
export interface Message {
  readonly id: string;
  readonly threadId: string;
  readonly labelIds: readonly string[];
  readonly snippet: string;
  readonly internalDate: string;
  /** RFC 5322, as it was sent. */
  readonly raw: string;
}

interface NewMessage {
  readonly id: string;
  readonly raw: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly labelIds: readonly string[];
}

export function messageOf({ id, raw, at, labelIds }: NewMessage): Message {
  const { text } = parse(raw);
  return { id, threadId: id, labelIds, snippet: text.trim().slice(0, 100), internalDate: String(at), raw };
}

interface Letter {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly at: number;
}

export const rawMessage = ({ from, to, subject, text, at }: Letter) =>
  `From: ${from}\r\nTo: ${to}\r\nSubject: ${subject}\r\nDate: ${new Date(at).toUTCString()}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n${text}\r\n`;

/** Formats a message as the `format` parameter requests; any unknown format is `full`. */
export function formatMessage({ raw, ...message }: Message, format: string): unknown {
  const sizeEstimate = Buffer.byteLength(raw);
  if (format === "minimal") return { ...message, sizeEstimate };
  if (format === "raw") return { ...message, sizeEstimate, raw: Buffer.from(raw).toString("base64url") };
  const { headers, text } = parse(raw);
  const data = Buffer.from(text).toString("base64url");
  const body = format === "metadata" ? {} : { body: { size: Buffer.byteLength(text), data } };
  return { ...message, sizeEstimate, payload: { mimeType: "text/plain", headers, ...body } };
}

interface ParsedMessage {
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly text: string;
}

function parse(raw: string): ParsedMessage {
  const end = raw.search(/\r?\n\r?\n/);
  const head = end === -1 ? raw : raw.slice(0, end);
  const headers = head.split(/\r?\n(?![ \t])/).flatMap((line) => {
    const [, name, value] = /^([^:]+):\s*([\s\S]*)$/.exec(line) ?? [];
    return name === undefined || value === undefined ? [] : [{ name, value }];
  });
  return { headers, text: end === -1 ? "" : raw.slice(end).replace(/^(\r?\n){2}/, "") };
}
