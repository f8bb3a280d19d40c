import type { Attachment } from "../auth/attachment.ts";
import { lowerCase } from "../base/field-name.ts";
import { type Integration, Integration_Reflection } from "../gen/latchkey/v1/integration_pb.ts";
import { handedOn, type Receiver } from "../relay/connection.ts";
import type { ResponseHead } from "../relay/response-head.ts";

interface Guarded {
  readonly integration: Integration;
  readonly attachment: Attachment;
  /** Ends the exchange and tells the caller why; nothing has been sent to it. */
  readonly refuse: () => void;
}

/** So much of a body is looked at: pages that print the request do so at once. */
const lookedAtBytes = 64 * 1024;
/** Shorter ones would be found everywhere. */
const minSecretLength = 8;
const textTypes =
  /^(?:text\/|application\/(?:[\w.+-]*\+)?(?:json|xml|javascript|x-www-form-urlencoded|graphql|yaml)\b)/i;

export const isReflectionGuarded = ({ reflection }: Integration): boolean =>
  reflection === Integration_Reflection.MASK || reflection === Integration_Reflection.REFUSE;

/**
 * A caller of the proxy holds no credentials, and is not to learn them from a provider that echoes what it was sent.
 * Looked at are the fields and the first part of a text body; that is where echoes are, and not a promise.
 */
export function guardReflection(receiver: Receiver, { integration, attachment, refuse }: Guarded): Receiver {
  if (!isReflectionGuarded(integration)) return receiver;
  const secrets = secretsOf(attachment);
  if (secrets.length === 0) return receiver;
  return integration.reflection === Integration_Reflection.MASK
    ? masking(receiver, secrets)
    : refusing(receiver, { secrets, refuse });
}

/** The bytes that were sent, and what of them is the secret: a scheme before it is none. */
export function secretsOf(attachment: Attachment): readonly Buffer[] {
  const sent =
    attachment.kind === "fixed"
      ? [...attachment.headers, ...attachment.query].map(([, value]) => value)
      : (attachment.shown ?? []);
  const values = sent.flatMap((value) => {
    const bare = value.replace(/^[A-Za-z]+ +/, "");
    // As in `Token token=…`.
    const alone = bare.replace(/^[\w-]+=/, "");
    return [value, bare, alone, encodeURIComponent(bare), encodeURIComponent(alone)];
  });
  const long = [...new Set(values)].filter((value) => value.length >= minSecretLength);
  return long.toSorted((a, b) => b.length - a.length).map((value) => Buffer.from(value, "latin1"));
}

const typeOf = ({ fields }: ResponseHead): string | undefined =>
  fields.find((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === "content-type");

/** What does not say what it is may be anything. */
function isText(head: ResponseHead): boolean {
  const type = typeOf(head);
  return type === undefined || textTypes.test(type);
}

/** How much of the end of a piece may be the beginning of a secret. */
function begunIn(bytes: Buffer, secrets: readonly Buffer[]): number {
  let longest = 0;
  for (const secret of secrets) {
    for (let length = Math.min(secret.length - 1, bytes.length); length > longest; length -= 1) {
      if (bytes.compare(secret, 0, length, bytes.length - length) === 0) longest = length;
    }
  }
  return longest;
}

function masked(bytes: Buffer, secrets: readonly Buffer[]): void {
  for (const secret of secrets) {
    for (let at = bytes.indexOf(secret); at !== -1; at = bytes.indexOf(secret, at + secret.length)) {
      bytes.fill("*", at, at + secret.length);
    }
  }
}

/** As long as what it hides, so that no length changes; what may be the beginning of a secret waits for the rest. */
function masking(receiver: Receiver, secrets: readonly Buffer[]): Receiver {
  let isLooking = false;
  let seen = 0;
  let held = Buffer.alloc(0);
  const maskedText = (text: string) => {
    const bytes = Buffer.from(text, "latin1");
    masked(bytes, secrets);
    return bytes.toString("latin1");
  };
  const maskedHead = (head: ResponseHead): ResponseHead => ({
    ...head,
    reason: maskedText(head.reason),
    fields: head.fields.map((one, i) => (i % 2 === 1 ? maskedText(one) : one)),
  });

  function release(): void {
    if (held.length === 0) return;
    const rest = held;
    held = Buffer.alloc(0);
    receiver.onContent(rest, undefined);
  }

  return {
    ...handedOn(receiver),
    onInformational: (head) => receiver.onInformational(maskedHead(head)),
    onHead(head, hasMore) {
      isLooking = isText(head);
      // What is held back is no content that follows at once.
      receiver.onHead(maskedHead(head), hasMore && !isLooking);
    },
    onContent(content, free) {
      if (!isLooking) return receiver.onContent(content, free);
      const bytes = Buffer.concat([held, content]);
      free?.();
      masked(bytes, secrets);
      seen += content.length;
      isLooking = seen < lookedAtBytes;
      const ready = isLooking ? bytes.length - begunIn(bytes, secrets) : bytes.length;
      held = bytes.subarray(ready);
      return ready === 0 ? true : receiver.onContent(bytes.subarray(0, ready), undefined);
    },
    onEnd(trailers) {
      release();
      receiver.onEnd(trailers.map((one, i) => (i % 2 === 1 ? maskedText(one) : one)));
    },
  };
}

interface Refusing {
  readonly secrets: readonly Buffer[];
  readonly refuse: () => void;
}

/** Holds the beginning of an answer back until it is known to hold no secret. */
function refusing(plain: Receiver, { secrets, refuse }: Refusing): Receiver {
  // What waits for an end that never comes would never be seen: events are masked as they come.
  const streaming = masking(plain, secrets);
  let receiver = plain;
  let waiting: ResponseHead | undefined;
  let held = Buffer.alloc(0);
  const holds = (bytes: Buffer) => secrets.some((secret) => bytes.includes(secret));

  /** Returns whether more is wanted. */
  function letGo(): boolean {
    const head = waiting;
    waiting = undefined;
    if (head === undefined) return true;
    receiver.onHead(head, held.length > 0);
    return held.length === 0 || receiver.onContent(held, undefined);
  }

  return {
    ...handedOn(plain),
    onInformational: (head) => streaming.onInformational(head),
    onHead(head, hasMore) {
      if (holds(Buffer.from([head.reason, ...head.fields].join("\n"), "latin1"))) {
        refuse();
        return;
      }
      if (/^text\/event-stream\b/i.test(typeOf(head) ?? "")) receiver = streaming;
      else if (isText(head) && head.framing !== "none") waiting = head;
      if (waiting !== undefined) return;
      receiver.onHead(head, hasMore);
    },
    onContent(content, free) {
      if (waiting === undefined) return receiver.onContent(content, free);
      held = Buffer.concat([held, content]);
      free?.();
      if (holds(held)) {
        refuse();
        return false;
      }
      return held.length < lookedAtBytes || letGo();
    },
    onEnd(trailers) {
      if (waiting !== undefined && holds(Buffer.from(trailers.join("\n"), "latin1"))) {
        refuse();
        return;
      }
      letGo();
      streaming.onEnd(trailers);
    },
  };
}
