import type { Attachment } from "../../auth/attachment.ts";
import { GrowingBytes } from "../../base/growing-bytes.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import { secretValues } from "../../broker/audit/secret-values.ts";
import type { LiveConnection } from "../../broker/credentials/live-connections.ts";
import { attachedSecrets } from "../../core/secrets/attached-secrets.ts";
import { createSecretSearch, type SecretSearch } from "../../core/secrets/secret-search.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import { type Integration, Integration_Reflection } from "../../gen/latchkey/v1/integration_pb.ts";
import type { ResponseHead } from "../../relay/http1/response-head.ts";
import { forwardingReceiver, type ResponseReceiver } from "../../relay/response-receiver.ts";

/** The current credentials of a request: refused ones may have been replaced. */
export interface RequestCredentials {
  readonly attachment: Attachment;
  readonly live: LiveConnection;
}

interface GuardedAnswer {
  readonly integration: Integration;
  readonly sent: () => RequestCredentials;
  /** Ends the exchange and sends the caller an error: the response has not begun. */
  readonly refuse: (message: string) => void;
  /** The response is over, or the caller has left. */
  readonly isGone: () => boolean;
}

/** Bytes of a body that are held back and searched first; the rest is masked as it arrives. */
const heldBytes = 64 * 1024;

export const isReflectionGuarded = ({ reflection }: Integration): boolean =>
  reflection === Integration_Reflection.MASK || reflection === Integration_Reflection.REFUSE;

/**
 * Hides credentials that a provider quotes from the request: callers of the proxy must not learn them. Searches the
 * reason, header names and values, bodies of any type and trailers for all credentials of the connection, in the forms
 * that `SecretSearch` knows.
 */
export function guardReflection(receiver: ResponseReceiver, guarded: GuardedAnswer): ResponseReceiver {
  const { integration, sent, refuse, isGone } = guarded;
  if (!isReflectionGuarded(integration)) return receiver;
  const guard = { search: () => searchFor(sent()), refuse, isGone };
  return integration.reflection === Integration_Reflection.MASK ? masking(receiver, guard) : refusing(receiver, guard);
}

interface Guard extends Pick<GuardedAnswer, "refuse" | "isGone"> {
  readonly search: () => SecretSearch;
}

/** Cached with an attachment, which lives as long as its connection is in memory. */
const searches = new WeakMap<Attachment, SecretSearch>();

function searchFor({ attachment, live }: RequestCredentials): SecretSearch {
  const known = searches.get(attachment);
  if (known !== undefined) return known;
  const stored = secretValues(CredentialsSchema, live.credentials);
  const made = createSecretSearch([...attachedSecrets(attachment), ...stored, live.secrets?.clientSecret ?? ""]);
  searches.set(attachment, made);
  return made;
}

const fieldOf = ({ fields }: ResponseHead, name: string): string =>
  fields.find((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === name) ?? "";

/** Returns all headers of that name as one list, as a client reads them. */
const fieldsOf = ({ fields }: ResponseHead, name: string): string =>
  fields.filter((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === name).join(", ");

/** Returns an encoding that hides the body from a search; undefined: none. Only identity was requested. */
function encodingOf(head: ResponseHead): string | undefined {
  if (head.framing === "none" || head.framing === 0) return undefined;
  const isPlain = (encodings: string) => encodings.split(",").every((one) => /^(?:identity)?$/i.test(one.trim()));
  return [fieldsOf(head, "content-encoding"), fieldsOf(head, "grpc-encoding")].find((encoding) => !isPlain(encoding));
}

function unreadable(encoding: string): string {
  const shown = /^[\w, -]{1,40}$/.test(encoding) ? encoding : "an unknown encoding";
  return `the provider's response cannot be searched for credentials: it is sent as ${shown}, though identity was requested`;
}

const echoed = "the provider's response contains the credentials that were sent to it";

/** Returns whether a header frames the body: such headers are not changed, whatever the credentials are. */
const isFraming = (name: string): boolean => lowerCase(name) === "content-length";

function maskedText(text: string, search: SecretSearch): string {
  const bytes = Buffer.from(text, "latin1");
  const { ranges } = search.find(bytes);
  if (ranges.length === 0) return text;
  fill(bytes, ranges);
  return bytes.toString("latin1");
}

function maskedFields(fields: readonly string[], search: SecretSearch): string[] {
  return fields.map((text, i) => {
    const name = fields[i - (i % 2)] ?? "";
    if (isFraming(name)) return text;
    if (i % 2 === 1) return maskedText(text, search);
    return search.isInName(name) ? "*".repeat(name.length) : maskedText(text, search);
  });
}

function maskedHead({ status, fields, ...head }: ResponseHead, search: SecretSearch): ResponseHead {
  return { ...head, status, reason: maskedText(head.reason, search), fields: maskedFields(fields, search) };
}

function fill(bytes: Buffer, ranges: readonly number[]): void {
  for (let i = 0; i < ranges.length; i += 2) bytes.fill("*", ranges[i], ranges[i + 1]);
}

function isQuotedIn({ reason, fields }: Pick<ResponseHead, "reason" | "fields">, search: SecretSearch): boolean {
  const isIn = (text: string) => search.find(Buffer.from(text, "latin1")).ranges.length > 0;
  return (
    isIn(reason) ||
    fields.some((text, i) => {
      const name = fields[i - (i % 2)] ?? "";
      return !isFraming(name) && (isIn(text) || (i % 2 === 0 && search.isInName(name)));
    })
  );
}

/** Masks each secret with as many bytes, so that no length changes. */
function masking(receiver: ResponseReceiver, guard: Guard): ResponseReceiver {
  let body: MaskedBody | undefined;
  return {
    ...forwardingReceiver(receiver),
    onInformational: (head) => receiver.onInformational(maskedHead(plainHead(head), guard.search())),
    onHead(head, hasMore) {
      const encoding = encodingOf(head);
      if (encoding !== undefined) {
        guard.refuse(unreadable(encoding));
        return;
      }
      const search = guard.search();
      body = new MaskedBody(receiver, { search, isGone: guard.isGone, isStream: typeof head.framing !== "number" });
      // Held bytes are not content that follows at once.
      receiver.onHead(maskedHead(plainHead(head), search), hasMore && head.framing === "none");
    },
    onContent(content, free) {
      const wantsMore = body?.add(content) ?? false;
      free?.();
      return wantsMore;
    },
    onEnd(trailers) {
      if (body === undefined) return;
      body.end();
      receiver.onEnd(maskedFields(trailers, guard.search()));
    },
    onFailure(failure) {
      body?.drop();
      receiver.onFailure(failure);
    },
  };
}

interface MaskedBodyOptions {
  readonly search: SecretSearch;
  readonly isGone: () => boolean;
  /** The caller may wait for each piece of the body. */
  readonly isStream: boolean;
}

/** In a pause of a stream, a shorter beginning of a possible secret is sent: most are no secrets. */
const shortBytes = 4;
const pauseMs = 100;

/** A streamed body in which secrets are masked. A possible beginning of a secret waits for the rest. */
class MaskedBody {
  readonly #receiver: ResponseReceiver;
  readonly #options: MaskedBodyOptions;
  #held: Buffer<ArrayBufferLike> = noBytes;
  /** Held bytes that were already sent: they are kept to recognize the rest of a secret. */
  #sent = 0;
  #pause: NodeJS.Timeout | undefined;

  constructor(receiver: ResponseReceiver, options: MaskedBodyOptions) {
    this.#receiver = receiver;
    this.#options = options;
  }

  /** Copies `content`. Returns whether the receiver wants more. */
  add(content: Buffer): boolean {
    clearTimeout(this.#pause);
    const bytes = Buffer.concat([this.#held, content]);
    const { ranges, begun } = this.#options.search.find(bytes, { hasMore: true });
    const from = this.#sent;
    this.#held = Buffer.from(bytes.subarray(begun));
    this.#sent = Math.max(0, from - begun);
    fill(bytes, ranges);
    const wantsMore = begun <= from || this.#receiver.onContent(bytes.subarray(from, begun), undefined);
    const waiting = this.#held.length - this.#sent;
    if (this.#options.isStream && waiting > 0 && this.#held.length < shortBytes) {
      this.#pause = setTimeout(() => this.#goOn(), pauseMs);
    }
    return wantsMore;
  }

  end(): void {
    clearTimeout(this.#pause);
    fill(this.#held, this.#options.search.find(this.#held).ranges);
    if (this.#held.length > this.#sent) this.#receiver.onContent(this.#held.subarray(this.#sent), undefined);
    this.#held = noBytes;
    this.#sent = 0;
  }

  drop(): void {
    clearTimeout(this.#pause);
  }

  #goOn(): void {
    if (this.#options.isGone()) return;
    const content = Buffer.from(this.#held.subarray(this.#sent));
    this.#sent = this.#held.length;
    this.#receiver.onContent(content, undefined);
  }
}

const noBytes = Buffer.alloc(0);

/** Returns the parts of a head, which may compute them on access. */
function plainHead({ status, reason, fields, framing, keepsAlive, idleSeconds, isHttp2 }: ResponseHead): ResponseHead {
  return { status, reason, fields, framing, keepsAlive, idleSeconds, ...(isHttp2 === undefined ? {} : { isHttp2 }) };
}

/** Types of responses that may never end: held back, they would never arrive. */
const streamed =
  /^(?:text\/event-stream|application\/(?:grpc\b|(?:x-)?ndjson|(?:x-)?jsonl|json-seq|stream\+json)|multipart\/x-mixed-replace)/i;

const isStreamed = (head: ResponseHead): boolean =>
  typeof head.framing !== "number" && streamed.test(fieldOf(head, "content-type"));

/** Holds the beginning of a response back until the search has found no secret. */
function refusing(plain: ResponseReceiver, guard: Guard): ResponseReceiver {
  const { refuse } = guard;
  const masked = masking(plain, guard);
  let search = guard.search();
  let state: "refused" | "holding" | "passing" = "passing";
  let waiting: ResponseHead | undefined;
  let held = new GrowingBytes();
  /** Bytes before this position were searched. */
  let from = 0;

  function stop(message: string): void {
    state = "refused";
    held = new GrowingBytes();
    refuse(message);
  }

  /** Returns whether the receiver wants more. */
  function passOn(): boolean {
    state = "passing";
    const content = held.bytes;
    held = new GrowingBytes();
    if (waiting === undefined) return true;
    masked.onHead(waiting, content.length > 0);
    return content.length === 0 || masked.onContent(content, undefined);
  }

  return {
    ...forwardingReceiver(masked),
    onHead(head, hasMore) {
      search = guard.search();
      const encoding = encodingOf(head);
      if (encoding !== undefined) stop(unreadable(encoding));
      else if (isQuotedIn(head, search)) stop(echoed);
      else if (head.framing === "none" || isStreamed(head)) masked.onHead(head, hasMore);
      else {
        state = "holding";
        waiting = head;
      }
    },
    onContent(content, free) {
      if (state === "passing") return masked.onContent(content, free);
      if (state === "refused") {
        free?.();
        return false;
      }
      held.add(content);
      free?.();
      const { ranges, begun } = search.find(held.bytes, { from, hasMore: true });
      from = begun;
      if (ranges.length === 0) return held.bytes.length < heldBytes || passOn();
      stop(echoed);
      return false;
    },
    onEnd(trailers) {
      if (state === "refused") return;
      const isHeld = state === "holding";
      if (isHeld && isQuotedIn({ reason: "", fields: trailers }, search)) {
        stop(echoed);
        return;
      }
      if (isHeld) passOn();
      masked.onEnd(trailers);
    },
  };
}
