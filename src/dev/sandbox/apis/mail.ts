import { randomBytes } from "node:crypto";
import type { AccessCheck } from "../auth/access.ts";
import { type Call, json, objectOf, refuse } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import { pageOf } from "./paging.ts";

interface Message {
  readonly id: string;
  readonly threadId: string;
  readonly labelIds: readonly string[];
  readonly snippet: string;
  readonly internalDate: string;
  /** RFC 5322, as it was sent. */
  readonly raw: string;
}

/** Each user's mail: listed, searched by word, read and sent. Nothing leaves the sandbox. */
export interface Mail {
  readonly routes: readonly SandboxRoute[];
  reset(): void;
}

interface MailOptions {
  readonly now: () => number;
  readonly access: AccessCheck;
}

const toRead = ["gmail.readonly", "gmail.modify", "mail.google.com"];
const toSend = ["gmail.send", "gmail.modify", "gmail.compose", "mail.google.com"];
const mostMessages = 1_000;

export function createMail({ now, access }: MailOptions): Mail {
  const owned = new Map<string, Message[]>();

  /** The latest first. */
  function of(person: Person): Message[] {
    const found = owned.get(person.id);
    if (found !== undefined) return found;
    const first = Array.from({ length: 12 }, (_, i) => {
      const at = Date.UTC(2026, 0, 12 - i, 9);
      const text = `Message ${12 - i}: the engine runs.`;
      const raw = rawMessage({ from: "bob@example.com", to: person.email, subject: `Note ${12 - i}`, text, at });
      return messageOf({ id: `mail-${12 - i}`, raw, at, labelIds: ["INBOX"] });
    });
    owned.set(person.id, first);
    return first;
  }

  /** `me`, or the caller's own address: nobody reads another's mail. */
  function callerOf(call: Call, scopes: readonly string[]): Person {
    const { person } = access.require(call, scopes);
    const user = call.params["user"] ?? "";
    if (user !== "me" && user !== person.email) throw refuse(403, "forbidden", `Delegation denied for ${person.email}`);
    return person;
  }

  function send(call: Call): Message {
    const person = callerOf(call, toSend);
    const { raw } = objectOf(call);
    if (typeof raw !== "string" || raw === "")
      throw refuse(400, "invalidArgument", "'raw' RFC822 payload is required.");
    const text = Buffer.from(raw, "base64url").toString("utf8");
    const id = randomBytes(8).toString("hex");
    const message = messageOf({ id, raw: text, at: now(), labelIds: ["SENT"] });
    const messages = of(person);
    messages.unshift(message);
    messages.splice(mostMessages);
    return message;
  }

  return {
    routes: [
      {
        method: "GET",
        path: "/gmail/v1/users/:user/profile",
        endpoint: "mail",
        answer(call) {
          const person = callerOf(call, toRead);
          const messagesTotal = of(person).length;
          return json({ emailAddress: person.email, messagesTotal, threadsTotal: messagesTotal, historyId: "1" });
        },
      },
      {
        method: "GET",
        path: "/gmail/v1/users/:user/labels",
        endpoint: "mail",
        answer(call) {
          callerOf(call, toRead);
          return json({ labels: ["INBOX", "SENT"].map((id) => ({ id, name: id, type: "system" })) });
        },
      },
      {
        method: "GET",
        path: "/gmail/v1/users/:user/messages",
        endpoint: "mail",
        answer(call) {
          const person = callerOf(call, toRead);
          const label = call.query.get("labelIds");
          const word = (call.query.get("q") ?? "").toLowerCase();
          const found = of(person).filter(
            ({ labelIds, raw }) => (label === null || labelIds.includes(label)) && raw.toLowerCase().includes(word),
          );
          const size = { name: "maxResults", most: 500, otherwise: 100 };
          const { page, ...next } = pageOf(found, { query: call.query, size });
          const messages = page.map(({ id, threadId }) => ({ id, threadId }));
          return json({ messages, resultSizeEstimate: found.length, ...next });
        },
      },
      {
        method: "POST",
        path: "/gmail/v1/users/:user/messages/send",
        endpoint: "mail",
        answer(call) {
          const { id, threadId, labelIds } = send(call);
          return json({ id, threadId, labelIds });
        },
      },
      {
        method: "GET",
        path: "/gmail/v1/users/:user/messages/:id",
        endpoint: "mail",
        answer(call) {
          const person = callerOf(call, toRead);
          const message = of(person).find(({ id }) => id === call.params["id"]);
          if (message === undefined) throw refuse(404, "notFound", "Requested entity was not found.");
          return json(shown(message, call.query.get("format") ?? "full"));
        },
      },
    ],
    reset: () => owned.clear(),
  };
}

interface Letter {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly at: number;
}

const rawMessage = ({ from, to, subject, text, at }: Letter) =>
  `From: ${from}\r\nTo: ${to}\r\nSubject: ${subject}\r\nDate: ${new Date(at).toUTCString()}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n${text}\r\n`;

function messageOf({
  id,
  raw,
  at,
  labelIds,
}: {
  id: string;
  raw: string;
  at: number;
  labelIds: readonly string[];
}): Message {
  const { text } = parts(raw);
  return { id, threadId: id, labelIds, snippet: text.trim().slice(0, 100), internalDate: String(at), raw };
}

function parts(raw: string): { readonly headers: readonly { name: string; value: string }[]; readonly text: string } {
  const end = raw.search(/\r?\n\r?\n/);
  const head = end === -1 ? raw : raw.slice(0, end);
  const headers = head.split(/\r?\n(?![ \t])/).flatMap((line) => {
    const [, name, value] = /^([^:]+):\s*([\s\S]*)$/.exec(line) ?? [];
    return name === undefined || value === undefined ? [] : [{ name, value }];
  });
  return { headers, text: end === -1 ? "" : raw.slice(end).replace(/^(\r?\n){2}/, "") };
}

function shown({ raw, ...message }: Message, format: string): unknown {
  const sizeEstimate = Buffer.byteLength(raw);
  if (format === "minimal") return { ...message, sizeEstimate };
  if (format === "raw") return { ...message, sizeEstimate, raw: Buffer.from(raw).toString("base64url") };
  const { headers, text } = parts(raw);
  const data = Buffer.from(text).toString("base64url");
  const body = format === "metadata" ? {} : { body: { size: Buffer.byteLength(text), data } };
  return { ...message, sizeEstimate, payload: { mimeType: "text/plain", headers, ...body } };
}
