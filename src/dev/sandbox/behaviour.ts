import * as v from "valibot";
import { endpoints, type KnownEndpoint } from "./endpoints.ts";

/**
 * How the sandbox behaves: the settings that a provider's operator has, and the failures of a provider. Each setting
 * has a default; a change lists only the settings it changes.
 */
const seconds = v.pipe(v.number(), v.minValue(0), v.maxValue(315_360_000));
const milliseconds = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(3_600_000));
const status = v.pipe(v.number(), v.integer(), v.minValue(200), v.maxValue(599));
const headerText = v.pipe(v.string(), v.regex(/^[\t\x20-\x7e\x80-\xff]*$/, "must fit into a header"));
const headers = v.record(v.pipe(v.string(), v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/)), headerText);

const common = {
  /** How many times; default: until changed. */
  times: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  /** Only token requests of this `grant_type`. */
  grantType: v.optional(v.string()),
  /** Waits before the request is processed. */
  delayMs: v.optional(milliseconds),
  /** Processes the request at once, and waits before it answers. */
  holdMs: v.optional(milliseconds),
};

const misstep = v.variant("kind", [
  /** Answers as usual: for a delay alone, or to let some requests pass before the next entry of the list. */
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
  /** Answers exactly this. */
  v.strictObject({
    kind: v.literal("raw"),
    status: v.optional(status, 200),
    contentType: v.optional(headerText, "text/html; charset=utf-8"),
    text: v.string(),
    headers: v.optional(headers, {}),
    ...common,
  }),
  v.strictObject({ kind: v.literal("redirect"), status: v.optional(status, 302), location: headerText, ...common }),
  /** A JSON object of this size. */
  v.strictObject({
    kind: v.literal("large"),
    bytes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(32), v.maxValue(67_108_864)), 5_242_880),
    ...common,
  }),
  /** 200 and JSON, with two bytes that are invalid in UTF-8. */
  v.strictObject({ kind: v.literal("invalid-utf8"), ...common }),
  /** A body that never ends, as fast as the client reads. */
  v.strictObject({ kind: v.literal("endless"), ...common }),
  /** An endless body of one byte a second. */
  v.strictObject({ kind: v.literal("trickle"), ...common }),
  /** A response head and ten of a hundred bytes, then silence. */
  v.strictObject({ kind: v.literal("stall"), ...common }),
  /** Reads the request and never answers. */
  v.strictObject({ kind: v.literal("silent"), ...common }),
  /** TCP reset after the request head; the request is not processed. */
  v.strictObject({ kind: v.literal("reset-before-reading"), ...common }),
  /** TCP reset after the request body; the request is not processed. */
  v.strictObject({ kind: v.literal("reset-after-reading"), ...common }),
  /** Processes the request, for example rotates a token, and resets instead of answering. */
  v.strictObject({ kind: v.literal("drop-answer"), ...common }),
  /** Processes the request, and resets in the middle of the response body. */
  v.strictObject({ kind: v.literal("cut-answer"), ...common }),
]);

const answers = v.strictObject(
  // Object.fromEntries loses the key type; the keys come from the table.
  Object.fromEntries(endpoints.map((name) => [name, v.optional(v.array(misstep))])) as Record<
    KnownEndpoint,
    v.OptionalSchema<v.ArraySchema<typeof misstep, undefined>, undefined>
  >,
);

const tokenAnswer = v.strictObject({
  /** Replaces or adds fields: `{"expires_in": "3600.5", "instance_url": "https://…"}`. */
  fields: v.optional(v.record(v.string(), v.unknown()), {}),
  omit: v.optional(v.array(v.string()), []),
  /** Puts all fields into this one. */
  nestUnder: v.optional(v.string(), ""),
  format: v.optional(v.picklist(["json", "form"]), "json"),
});

const settings = v.strictObject({
  /** `ask` shows the consent page; the others decide without it. */
  consent: v.optional(v.picklist(["ask", "allow", "deny"]), "ask"),
  /** Grants only these of the requested scopes; null: all that the user allows. */
  grantOnly: v.optional(v.nullable(v.array(v.string())), null),
  /** The `iss` parameter of the redirect (RFC 9207). */
  iss: v.optional(v.picklist(["right", "missing", "wrong"]), "right"),
  /** The issuer that the metadata documents name. */
  metadataIssuer: v.optional(v.picklist(["right", "wrong"]), "right"),
  pkce: v.optional(v.picklist(["optional", "required", "refused"]), "optional"),
  codeLifetimeS: v.optional(seconds, 60),
  accessTokenLifetimeS: v.optional(seconds, 3_600),
  /** Null: without end. An app in testing gets seven days. */
  refreshTokenLifetimeS: v.optional(v.nullable(seconds), null),
  /** `asked`: for `access_type=offline` or the scope `offline_access`. */
  refreshTokens: v.optional(v.picklist(["asked", "always", "never"]), "asked"),
  /** The most of one user and one client; above it the oldest stops working without an error. */
  maxRefreshTokens: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 100),
  /** A refresh token works once. A second use revokes the whole grant. */
  rotation: v.optional(v.boolean(), true),
  /** How long the previous refresh token still works after its replacement. */
  graceS: v.optional(seconds, 0),
  tokenAnswer: v.optional(tokenAnswer, {}),
  deviceIntervalS: v.optional(seconds, 5),
  deviceLifetimeS: v.optional(seconds, 600),
  /** Whether `oauth_callback_confirmed` is sent, which makes it OAuth 1.0a. */
  callbackConfirmed: v.optional(v.boolean(), true),
  /** The largest error of a signed request's timestamp. */
  timestampToleranceS: v.optional(seconds, 300),
  /** The lifetime of a channel whose watch call names none, and the longest it may name. */
  channelLifetimeS: v.optional(seconds, 604_800),
  maxChannelLifetimeS: v.optional(seconds, 2_592_000),
  /** The most live channels; a watch call above it is refused. */
  maxChannels: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(100_000)), 50_000),
  notificationAttempts: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(20)), 3),
  notificationRetryMs: v.optional(milliseconds, 500),
  /** `dropped`: notifications are numbered but not sent. */
  notifications: v.optional(v.picklist(["sent", "dropped"]), "sent"),
  /** How many times each notification is sent, with the same number. */
  notificationCopies: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(10)), 1),
  /** The step between a channel's message numbers: some providers skip numbers. */
  messageNumberStep: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_000_000)), 1),
});

const change = v.strictObject({ ...v.partial(settings).entries, answers: v.optional(answers) });

export type BehaviourSettings = v.InferOutput<typeof settings>;
export type BehaviourChange = v.InferInput<typeof change>;
export type Misstep = v.InferOutput<typeof misstep>;

export interface Behaviour {
  readonly settings: () => BehaviourSettings;
  /** Changes the given settings and keeps the others. Throws `BehaviourMistake` naming every invalid field. */
  change(wanted: unknown): void;
  reset(): void;
  /** Whether to reset the connection before the request body is read. */
  resetsBeforeReading(endpoint: KnownEndpoint): boolean;
  /** The misbehavior for this request, if any. */
  next(endpoint: KnownEndpoint, grantType: string | undefined): Misstep | undefined;
  /** All settings, with the times that each misbehavior has left. */
  shown(): unknown;
}

export class BehaviourMistake extends Error {
  override readonly name = "BehaviourMistake";
}

export function createBehaviour(initial: BehaviourChange = {}): Behaviour {
  let current = v.parse(settings, {});
  let missteps = new Map<string, { readonly misstep: Misstep; left: number }[]>();

  const due = (endpoint: KnownEndpoint, grantType: string | undefined) =>
    missteps
      .get(endpoint)
      ?.find(({ left, misstep: entry }) => left > 0 && (entry.grantType ?? grantType) === grantType);

  const behaviour: Behaviour = {
    settings: () => current,
    change(wanted) {
      const read = v.safeParse(change, wanted);
      if (!read.success) {
        throw new BehaviourMistake(
          read.issues.map((issue) => `${v.getDotPath(issue) ?? "the body"}: ${issue.message}`).join("; "),
        );
      }
      const { answers: lists, ...named } = read.output;
      // The schema adds defaults for absent settings; they are not part of the change.
      const given = Object.entries(named).filter(([name]) => Object.hasOwn(Object(wanted), name));
      current = { ...current, ...Object.fromEntries(given) };
      for (const [name, list] of Object.entries(lists ?? {})) {
        if (list === undefined) continue;
        missteps.set(
          name,
          list.map((entry) => ({ misstep: entry, left: entry.times ?? Number.POSITIVE_INFINITY })),
        );
      }
    },
    reset() {
      current = v.parse(settings, {});
      missteps = new Map();
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
        [...missteps].map(([name, list]) => [
          name,
          list
            .filter(({ left }) => left > 0)
            .map(({ misstep: entry, left }) => ({ ...entry, left: Number.isFinite(left) ? left : null })),
        ]),
      ),
    }),
  };
  behaviour.change(initial);
  return behaviour;
}
