import { randomBytes } from "node:crypto";
import type { AccessCheck } from "../auth/access.ts";
import { type Call, json, objectOf, refuse, type SandboxAnswer } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import { formatMessage, type Message, messageOf, rawMessage } from "./message.ts";
import { pageOf } from "./paging.ts";

/** Each user's mail: listed, searched by word, read and sent. Nothing leaves the sandbox. */
export interface Mail {
  readonly routes: readonly SandboxRoute[];
  reset(): void;
}

interface MailOptions {
  readonly now: () => number;
  readonly access: AccessCheck;
}

const readScopes = ["gmail.readonly", "gmail.modify", "mail.google.com"];
const sendScopes = ["gmail.send", "gmail.modify", "gmail.compose", "mail.google.com"];
const maxMessages = 1_000;

export function createMail({ now, access }: MailOptions): Mail {
  const mailboxes = new Map<string, Message[]>();

  /** The latest message comes first. */
  function mailboxOf(person: Person): Message[] {
    const mailbox = mailboxes.get(person.id) ?? sampleMessages(person);
    mailboxes.set(person.id, mailbox);
    return mailbox;
  }

  /** `me` or the caller's own address: a user cannot read another's mail. */
  function callerOf(call: Call, scopes: readonly string[]): Person {
    const { person } = access.require(call, scopes);
    const user = call.params["user"] ?? "";
    if (user !== "me" && user !== person.email) throw refuse(403, "forbidden", `Delegation denied for ${person.email}`);
    return person;
  }

  function profile(call: Call): SandboxAnswer {
    const person = callerOf(call, readScopes);
    const messagesTotal = mailboxOf(person).length;
    return json({ emailAddress: person.email, messagesTotal, threadsTotal: messagesTotal, historyId: "1" });
  }

  function labels(call: Call): SandboxAnswer {
    callerOf(call, readScopes);
    return json({ labels: ["INBOX", "SENT"].map((id) => ({ id, name: id, type: "system" })) });
  }

  function list(call: Call): SandboxAnswer {
    const person = callerOf(call, readScopes);
    const label = call.query.get("labelIds");
    const word = (call.query.get("q") ?? "").toLowerCase();
    const found = mailboxOf(person).filter(
      ({ labelIds, raw }) => (label === null || labelIds.includes(label)) && raw.toLowerCase().includes(word),
    );
    const size = { name: "maxResults", most: 500, otherwise: 100 };
    const { page, ...next } = pageOf(found, { query: call.query, size });
    const messages = page.map(({ id, threadId }) => ({ id, threadId }));
    return json({ messages, resultSizeEstimate: found.length, ...next });
  }

  function send(call: Call): SandboxAnswer {
    const person = callerOf(call, sendScopes);
    const { raw } = objectOf(call);
    if (typeof raw !== "string" || raw === "")
      throw refuse(400, "invalidArgument", "'raw' RFC822 payload is required.");
    const text = Buffer.from(raw, "base64url").toString("utf8");
    const id = randomBytes(8).toString("hex");
    const message = messageOf({ id, raw: text, at: now(), labelIds: ["SENT"] });
    const mailbox = mailboxOf(person);
    mailbox.unshift(message);
    mailbox.splice(maxMessages);
    return json({ id, threadId: message.threadId, labelIds: message.labelIds });
  }

  function read(call: Call): SandboxAnswer {
    const person = callerOf(call, readScopes);
    const message = mailboxOf(person).find(({ id }) => id === call.params["id"]);
    if (message === undefined) throw refuse(404, "notFound", "Requested entity was not found.");
    return json(formatMessage(message, call.query.get("format") ?? "full"));
  }

  const user = "/gmail/v1/users/:user";
  return {
    routes: [
      { method: "GET", path: `${user}/profile`, endpoint: "mail", answer: profile },
      { method: "GET", path: `${user}/labels`, endpoint: "mail", answer: labels },
      { method: "GET", path: `${user}/messages`, endpoint: "mail", answer: list },
      { method: "POST", path: `${user}/messages/send`, endpoint: "mail", answer: send },
      { method: "GET", path: `${user}/messages/:id`, endpoint: "mail", answer: read },
    ],
    reset: () => mailboxes.clear(),
  };
}

/** The messages that a user starts with. */
const sampleMessages = (person: Person): Message[] =>
  Array.from({ length: 12 }, (_, i) => {
    const at = Date.UTC(2026, 0, 12 - i, 9);
    const text = `Message ${12 - i}: the engine runs.`;
    const raw = rawMessage({ from: "bob@example.com", to: person.email, subject: `Note ${12 - i}`, text, at });
    return messageOf({ id: `mail-${12 - i}`, raw, at, labelIds: ["INBOX"] });
  });
