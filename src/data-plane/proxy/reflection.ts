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

/** The credentials of a request, as of now: those that the provider has refused may have been replaced. */
export interface SentCredentials {
  readonly attachment: Attachment;
  readonly live: LiveConnection;
}

interface GuardedAnswer {
  readonly integration: Integration;
  readonly sent: () => SentCredentials;
  /** Ends the exchange and tells the caller why; nothing has been sent to it. */
  readonly refuse: (message: string) => void;
  /** The answer is over, or nobody waits for it. */
  readonly isGone: () => boolean;
}

/** So much of a body is held back until it is known to quote no credentials; what follows is masked as it comes. */
const heldBytes = 64 * 1024;

export const isReflectionGuarded = ({ reflection }: Integration): boolean =>
  reflection === Integration_Reflection.MASK || reflection === Integration_Reflection.REFUSE;

/**
 * A caller of the proxy holds no credentials, and must not learn them from a provider that quotes what it was sent.
 * Looks at the reason, at names and values of fields, at the body of any type and at the trailers, for all credentials
 * of the connection, in the forms that `SecretSearch` knows.
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

/** An attachment is kept as long as its connection is in memory. */
const searches = new WeakMap<Attachment, SecretSearch>();

function searchFor({ attachment, live }: SentCredentials): SecretSearch {
  const known = searches.get(attachment);
  if (known !== undefined) return known;
  const stored = secretValues(CredentialsSchema, live.credentials);
  const made = createSecretSearch([...attachedSecrets(attachment), ...stored, live.secrets?.clientSecret ?? ""]);
  searches.set(attachment, made);
  return made;
}

const fieldOf = ({ fields }: ResponseHead, name: string): string =>
  fields.find((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === name) ?? "";

/** All fields of that name: a client reads them as one list. */
const fieldsOf = ({ fields }: ResponseHead, name: string): string =>
  fields.filter((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === name).join(", ");

/** An encoding that hides the body from a search; undefined: there is none. Nothing but identity was asked for. */
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

/** What frames the body is left as it is, whatever the credentials are. */
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

/** Hides as many bytes as a secret has there, so that no length changes. */
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
      // What is held back is no content that follows at once.
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
  /** Somebody may wait for each piece of it. */
  readonly isStream: boolean;
}

/** In a pause of a stream, a beginning of a secret that is shorter than this goes on: most are none. */
const shortBytes = 4;
const pauseMs = 100;

/** A body on its way, in which secrets are masked. What may be the beginning of one waits for the rest. */
class MaskedBody {
  readonly #receiver: ResponseReceiver;
  readonly #options: MaskedBodyOptions;
  #held: Buffer<ArrayBufferLike> = noBytes;
  /** So many of the held bytes have gone on, and are kept to know the rest by. */
  #sent = 0;
  #pause: NodeJS.Timeout | undefined;

  constructor(receiver: ResponseReceiver, options: MaskedBodyOptions) {
    this.#receiver = receiver;
    this.#options = options;
  }

  /** Copies it. Returns whether more is wanted. */
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

/** Of a head that is taken to pieces when it is asked, the pieces. */
function plainHead({ status, reason, fields, framing, keepsAlive, idleSeconds, isHttp2 }: ResponseHead): ResponseHead {
  return { status, reason, fields, framing, keepsAlive, idleSeconds, ...(isHttp2 === undefined ? {} : { isHttp2 }) };
}

/** Types whose answers say one thing after another, maybe for ever: held back, they would never be seen. */
const streamed =
  /^(?:text\/event-stream|application\/(?:grpc\b|(?:x-)?ndjson|(?:x-)?jsonl|json-seq|stream\+json)|multipart\/x-mixed-replace)/i;

const isStreamed = (head: ResponseHead): boolean =>
  typeof head.framing !== "number" && streamed.test(fieldOf(head, "content-type"));

/** Holds the beginning of an answer back until it is known to quote no secret. */
function refusing(plain: ResponseReceiver, guard: Guard): ResponseReceiver {
  const { refuse } = guard;
  const masked = masking(plain, guard);
  let search = guard.search();
  let state: "refused" | "holding" | "passing" = "passing";
  let waiting: ResponseHead | undefined;
  let held = new GrowingBytes();
  /** What is before was looked at. */
  let from = 0;

  function stop(message: string): void {
    state = "refused";
    held = new GrowingBytes();
    refuse(message);
  }

  /** Returns whether more is wanted. */
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
