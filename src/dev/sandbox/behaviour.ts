import * as v from "valibot";
import { endpoints, type KnownEndpoint } from "./endpoints.ts";

/**
 * How the sandbox behaves: what an operator of a provider could set, and what goes wrong with one. Each part has its
 * default; a change names what it changes.
 */
const seconds = v.pipe(v.number(), v.minValue(0), v.maxValue(315_360_000));
const milliseconds = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(3_600_000));
const status = v.pipe(v.number(), v.integer(), v.minValue(200), v.maxValue(599));
const headerText = v.pipe(v.string(), v.regex(/^[\t\x20-\x7e\x80-\xff]*$/, "must fit into a header"));
const headers = v.record(v.pipe(v.string(), v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/)), headerText);

const common = {
  /** How often; until changed, unless said. */
  times: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  /** Only token requests of this `grant_type`. */
  grantType: v.optional(v.string()),
  /** Waits before it acts. */
  delayMs: v.optional(milliseconds),
  /** Acts at once, and waits before it answers. */
  holdMs: v.optional(milliseconds),
};

const misstep = v.variant("kind", [
  /** As usual: for a delay alone, or to let some pass before the next in the row. */
  v.strictObject({ kind: v.literal("ordinary"), ...common }),
  /** An error in the shape of the endpoint. */
  v.strictObject({
    kind: v.literal("error"),
    status: v.optional(status, 400),
    error: v.string(),
    description: v.optional(v.string(), ""),
    headers: v.optional(headers, {}),
    ...common,
  }),
  /** Whatever it says here, as it stands. */
  v.strictObject({
    kind: v.literal("raw"),
    status: v.optional(status, 200),
    contentType: v.optional(headerText, "text/html; charset=utf-8"),
    text: v.string(),
    headers: v.optional(headers, {}),
    ...common,
  }),
  v.strictObject({ kind: v.literal("redirect"), status: v.optional(status, 302), location: headerText, ...common }),
  /** One JSON object of so many bytes. */
  v.strictObject({
    kind: v.literal("large"),
    bytes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(32), v.maxValue(67_108_864)), 5_242_880),
    ...common,
  }),
  /** 200 and JSON, but for two bytes that no UTF-8 has. */
  v.strictObject({ kind: v.literal("invalid-utf8"), ...common }),
  /** A body that never ends, as fast as it is taken. */
  v.strictObject({ kind: v.literal("endless"), ...common }),
  /** A body of one byte a second, for ever. */
  v.strictObject({ kind: v.literal("trickle"), ...common }),
  /** A head, ten bytes of a hundred, and no more. */
  v.strictObject({ kind: v.literal("stall"), ...common }),
  /** Takes the request, and never answers. */
  v.strictObject({ kind: v.literal("silent"), ...common }),
  /** TCP reset once the head is there; nothing is done. */
  v.strictObject({ kind: v.literal("reset-before-reading"), ...common }),
  /** TCP reset once all has been read; nothing is done. */
  v.strictObject({ kind: v.literal("reset-after-reading"), ...common }),
  /** Does what was asked, rotates a token say, and resets instead of answering. */
  v.strictObject({ kind: v.literal("drop-answer"), ...common }),
  /** Does what was asked, and resets in the middle of the answer's body. */
  v.strictObject({ kind: v.literal("cut-answer"), ...common }),
]);

const answers = v.strictObject(
  // Object.fromEntries forgets the names; they are those of the table.
  Object.fromEntries(endpoints.map((name) => [name, v.optional(v.array(misstep))])) as Record<
    KnownEndpoint,
    v.OptionalSchema<v.ArraySchema<typeof misstep, undefined>, undefined>
  >,
);

const tokenAnswer = v.strictObject({
  /** In place of, or beside, what would be said: `{"expires_in": "3600.5", "instance_url": "https://…"}`. */
  fields: v.optional(v.record(v.string(), v.unknown()), {}),
  omit: v.optional(v.array(v.string()), []),
  /** Everything within this field. */
  nestUnder: v.optional(v.string(), ""),
  format: v.optional(v.picklist(["json", "form"]), "json"),
});

const settings = v.strictObject({
  /** Whether the consent page asks, or answers itself. */
  consent: v.optional(v.picklist(["ask", "allow", "deny"]), "ask"),
  /** Of what is asked for, only these scopes are granted; null: all that the user allows. */
  grantOnly: v.optional(v.nullable(v.array(v.string())), null),
  /** RFC 9207, in the answer to the browser. */
  iss: v.optional(v.picklist(["right", "missing", "wrong"]), "right"),
  /** The issuer that the metadata documents name. */
  metadataIssuer: v.optional(v.picklist(["right", "wrong"]), "right"),
  pkce: v.optional(v.picklist(["optional", "required", "refused"]), "optional"),
  codeLifetimeS: v.optional(seconds, 60),
  accessTokenLifetimeS: v.optional(seconds, 3_600),
  /** Null: for ever. Seven days is what an app in testing gets. */
  refreshTokenLifetimeS: v.optional(v.nullable(seconds), null),
  /** `asked`: for `access_type=offline` or the scope `offline_access`. */
  refreshTokens: v.optional(v.picklist(["asked", "always", "never"]), "asked"),
  /** Of one user and one client; when there are more, the oldest stops working without a word. */
  maxRefreshTokens: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 100),
  /** A refresh token is good for one use. Used again, all that came of the same consent is revoked. */
  rotation: v.optional(v.boolean(), true),
  /** For so long after its use, the token just before the current one is still taken. */
  graceS: v.optional(seconds, 0),
  tokenAnswer: v.optional(tokenAnswer, {}),
  deviceIntervalS: v.optional(seconds, 5),
  deviceLifetimeS: v.optional(seconds, 600),
  /** OAuth 1.0a, the word that makes it 1.0a. */
  callbackConfirmed: v.optional(v.boolean(), true),
  /** How far a signed request's timestamp may be off. */
  timestampToleranceS: v.optional(seconds, 300),
  /** When the watch call names no expiration, and the most it can name. */
  channelLifetimeS: v.optional(seconds, 604_800),
  maxChannelLifetimeS: v.optional(seconds, 2_592_000),
  /** That live, in all; when there are as many, a watch call is refused. */
  maxChannels: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(100_000)), 50_000),
  notificationAttempts: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(20)), 3),
  notificationRetryMs: v.optional(milliseconds, 500),
  /** `dropped`: each is numbered, and never leaves. */
  notifications: v.optional(v.picklist(["sent", "dropped"]), "sent"),
  /** Each is sent so often, under its one number. */
  notificationCopies: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(10)), 1),
  /** By how much a channel's number grows with each: some providers leave numbers out. */
  messageNumberStep: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_000_000)), 1),
});

const change = v.strictObject({ ...v.partial(settings).entries, answers: v.optional(answers) });

export type BehaviourSettings = v.InferOutput<typeof settings>;
export type BehaviourChange = v.InferInput<typeof change>;
export type Misstep = v.InferOutput<typeof misstep>;

export interface Behaviour {
  readonly settings: () => BehaviourSettings;
  /** Changes what is named and leaves the rest. Throws `BehaviourMistake` naming what it does not understand. */
  change(wanted: unknown): void;
  reset(): void;
  /** Whether the connection of a request whose body has not been read is to be reset. */
  resetsBeforeReading(endpoint: KnownEndpoint): boolean;
  /** What is to go wrong with this request. */
  next(endpoint: KnownEndpoint, grantType: string | undefined): Misstep | undefined;
  /** As set, with how often each is still to come. */
  shown(): unknown;
}

export class BehaviourMistake extends Error {
  override readonly name = "BehaviourMistake";
}

export function createBehaviour(initial: BehaviourChange = {}): Behaviour {
  let current = v.parse(settings, {});
  let rows = new Map<string, { readonly misstep: Misstep; left: number }[]>();

  const due = (endpoint: KnownEndpoint, grantType: string | undefined) =>
    rows.get(endpoint)?.find(({ left, misstep: one }) => left > 0 && (one.grantType ?? grantType) === grantType);

  const behaviour: Behaviour = {
    settings: () => current,
    change(wanted) {
      const read = v.safeParse(change, wanted);
      if (!read.success) {
        throw new BehaviourMistake(
          read.issues.map((issue) => `${v.getDotPath(issue) ?? "the body"}: ${issue.message}`).join("; "),
        );
      }
      const { answers: row, ...named } = read.output;
      // Defaults of what was not named are not part of a change.
      const given = Object.entries(named).filter(([name]) => Object.hasOwn(Object(wanted), name));
      current = { ...current, ...Object.fromEntries(given) };
      for (const [name, list] of Object.entries(row ?? {})) {
        if (list === undefined) continue;
        rows.set(
          name,
          list.map((one) => ({ misstep: one, left: one.times ?? Number.POSITIVE_INFINITY })),
        );
      }
    },
    reset() {
      current = v.parse(settings, {});
      rows = new Map();
    },
    resetsBeforeReading(endpoint) {
      const found = due(endpoint, undefined);
      if (found?.misstep.kind !== "reset-before-reading") return false;
      found.left -= 1;
      return true;
    },
    next(endpoint, grantType) {
      const found = due(endpoint, grantType);
      if (found === undefined) return undefined;
      found.left -= 1;
      return found.misstep;
    },
    shown: () => ({
      ...current,
      answers: Object.fromEntries(
        [...rows].map(([name, row]) => [
          name,
          row
            .filter(({ left }) => left > 0)
            .map(({ misstep: one, left }) => ({ ...one, left: Number.isFinite(left) ? left : null })),
        ]),
      ),
    }),
  };
  behaviour.change(initial);
  return behaviour;
}
