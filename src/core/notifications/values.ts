import {
  type LookupRule,
  LookupRule_Transform,
  type NotificationRules,
  type ValueRule,
} from "../../gen/latchkey/v1/provider_pb.ts";
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
  const { valueRules, messageId, lookups, channel, number, state, resourceId, kind } = placesOf(rules);
  const read = new ValuesRead(valueRules, reading);
  return {
    messageId: messageIdOf(messageId.map((place) => read.all(place))) ?? signedIdOf(rules, reading),
    lookups: lookups.map((one, i) => new ReadLookup(i, one, read)),
    channel: read.first(channel),
    number: read.first(number),
    resourceId: read.first(resourceId),
    kinds: read.all(kind),
    isSync: rules.state !== "" && rules.syncState !== "" && read.first(state) === rules.syncState,
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

/** The places of a provider's values in a list of their rules: found by name once, not for each notification. */
interface ValuePlaces {
  /** Undefined: there is no rule of that name. */
  readonly valueRules: readonly (ValueRule | undefined)[];
  readonly messageId: readonly number[];
  readonly lookups: readonly PlacedLookup[];
  readonly channel: number;
  readonly number: number;
  readonly state: number;
  readonly resourceId: number;
  readonly kind: number;
}

interface PlacedLookup extends Pick<LookupRule, "field" | "transform"> {
  readonly place: number;
}

const places = new WeakMap<NotificationRules, ValuePlaces>();

function placesOf(rules: NotificationRules): ValuePlaces {
  const known = places.get(rules);
  if (known !== undefined) return known;
  const { values, messageId, lookups, channel, number, state, resourceId, kind } = rules;
  const names: string[] = [];
  const placeOf = (name: string): number => {
    if (!names.includes(name)) names.push(name);
    return names.indexOf(name);
  };
  const made = {
    messageId: messageId.map(placeOf),
    lookups: lookups.map(({ field, transform, value }) => ({ field, transform, place: placeOf(value) })),
    channel: placeOf(channel),
    number: placeOf(number),
    state: placeOf(state),
    resourceId: placeOf(resourceId),
    kind: placeOf(kind),
  };
  const valueRules = names.map((name) => (Object.hasOwn(values, name) ? values[name] : undefined));
  const all = { valueRules, ...made };
  places.set(rules, all);
  return all;
}

/** Values by place, each looked up once. */
class ValuesRead {
  readonly #rules: ValuePlaces["valueRules"];
  readonly #reading: NotificationReading;
  readonly #found: (readonly string[] | undefined)[];

  constructor(rules: ValuePlaces["valueRules"], reading: NotificationReading) {
    this.#rules = rules;
    this.#reading = reading;
    this.#found = rules.map(unread);
  }

  all(place: number): readonly string[] {
    const known = this.#found[place];
    if (known !== undefined) return known;
    const rule = this.#rules[place];
    const found = rule === undefined ? none : valuesOf(rule, this.#reading);
    this.#found[place] = found;
    return found;
  }

  first(place: number): string | undefined {
    return this.all(place)[0];
  }
}

const unread = () => undefined;

/** Computes the values of a lookup on first use: most often the first lookup already matches. */
class ReadLookup implements Lookup {
  readonly rule: number;
  readonly field: string;
  readonly #place: number;
  readonly #transform: LookupRule_Transform;
  readonly #read: ValuesRead;

  constructor(rule: number, { field, place, transform }: PlacedLookup, read: ValuesRead) {
    this.rule = rule;
    this.field = field;
    this.#place = place;
    this.#transform = transform;
    this.#read = read;
  }

  get values(): readonly string[] {
    const found = this.#read.all(this.#place);
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
