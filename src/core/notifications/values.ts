import { type LookupRule, LookupRule_Transform, type NotificationRules } from "../../gen/latchkey/v1/provider_pb.ts";
import { emailHash } from "./email-hash.ts";
import type { Lookup } from "./notification.ts";
import type { NotificationReading } from "./reading.ts";
import { verificationOf } from "./schemes/schemes.ts";
import { isUsable, valuesOf } from "./value-rule.ts";

/** Values that a provider's rules find in a notification. */
export interface NotificationValues {
  /** Identifies the message when it is redelivered; undefined if the notification has too little data. */
  readonly messageId: string | undefined;
  /** In the order of the rules. */
  readonly lookups: readonly Lookup[];
  /** The channel that delivered the notification, and its number within the channel, as received. */
  readonly channel: string | undefined;
  readonly number: string | undefined;
  /** The provider's ID of the resource that the channel watches. */
  readonly resourceId: string | undefined;
  /** Event kinds in the provider's words, such as `push`; empty if the notification names none. */
  readonly kinds: readonly string[];
  /** Announces the channel instead of a change. */
  readonly isSync: boolean;
}

export function notificationValues(
  rules: NotificationRules | undefined,
  reading: NotificationReading,
): NotificationValues {
  if (rules === undefined) return nothing;
  const { messageId, lookups, channel, number, state, syncState, resourceId, kind } = rules;
  const read = new ValuesRead(rules, reading);
  return {
    messageId: messageIdOf(messageId.map((name) => read.all(name))) ?? signedIdOf(rules, reading),
    lookups: lookups.map((rule, i) => new ReadLookup(i, rule, read)),
    channel: read.first(channel),
    number: read.first(number),
    resourceId: read.first(resourceId),
    kinds: read.all(kind),
    isSync: state !== "" && syncState !== "" && read.first(state) === syncState,
  };
}

/** Returns the message ID that the signature scheme signs, if the rules name no other. */
function signedIdOf({ messageId, signature }: NotificationRules, reading: NotificationReading): string | undefined {
  const scheme = verificationOf(signature);
  if (messageId.length > 0 || signature === undefined || scheme === undefined || scheme === "none") return undefined;
  const header = scheme.signedIdHeader(signature);
  const id = header === undefined ? undefined : reading.header(header);
  return id !== undefined && isUsable(id) ? id : undefined;
}

const none: readonly string[] = [];
const nothing: NotificationValues = {
  messageId: undefined,
  lookups: [],
  channel: undefined,
  number: undefined,
  resourceId: undefined,
  kinds: none,
  isSync: false,
};

/** Values by rule name, each looked up once. There are few: an array is cheaper than a map. */
class ValuesRead {
  readonly #rules: NotificationRules;
  readonly #reading: NotificationReading;
  readonly #names: string[] = [];
  readonly #found: (readonly string[])[] = [];

  constructor(rules: NotificationRules, reading: NotificationReading) {
    this.#rules = rules;
    this.#reading = reading;
  }

  all(name: string): readonly string[] {
    const known = this.#found[this.#names.indexOf(name)];
    if (known !== undefined) return known;
    const { values } = this.#rules;
    const rule = Object.hasOwn(values, name) ? values[name] : undefined;
    const found = rule === undefined ? none : valuesOf(rule, this.#reading);
    this.#names.push(name);
    this.#found.push(found);
    return found;
  }

  first(name: string): string | undefined {
    return this.all(name)[0];
  }
}

/** Computes the values of a lookup on first use: most often the first lookup already matches. */
class ReadLookup implements Lookup {
  readonly rule: number;
  readonly field: string;
  readonly #name: string;
  readonly #transform: LookupRule_Transform;
  readonly #read: ValuesRead;

  constructor(rule: number, { field, value, transform }: LookupRule, read: ValuesRead) {
    this.rule = rule;
    this.field = field;
    this.#name = value;
    this.#transform = transform;
    this.#read = read;
  }

  get values(): readonly string[] {
    const found = this.#read.all(this.#name);
    if (this.#transform === LookupRule_Transform.EMAIL_HASH) return found.map(emailHash);
    return this.#transform === LookupRule_Transform.LOWER_CASE ? found.map((value) => value.toLowerCase()) : found;
  }
}

/**
 * Returns the ID of the message with this number in a channel; undefined if the rules build message IDs from other
 * values.
 */
export function messageIdIn(
  { messageId, channel, number }: Pick<NotificationRules, "messageId" | "channel" | "number">,
  of: { readonly channel: string; readonly number: bigint },
): string | undefined {
  const isOfBoth = messageId.length === 2 && messageId.includes(channel) && messageId.includes(number);
  if (!isOfBoth || channel === "" || number === "" || channel === number) return undefined;
  return messageIdOf(messageId.map((name) => [name === channel ? of.channel : String(of.number)]));
}

function messageIdOf(parts: readonly (readonly string[])[]): string | undefined {
  if (parts.length === 0 || parts.some((values) => values.length === 0)) return undefined;
  // No value is empty or contains NUL (see `isUsable`), so two messages cannot share an ID.
  return parts.map((values) => values.join("\0\0")).join("\0");
}
