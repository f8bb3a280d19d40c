import { existsSync, readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";

/** What a provider answers, in the shape that its documentation shows. */
export interface PlayedAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON, unless it is a text. */
  readonly body?: unknown;
}

/** An answer to one method and path. */
export interface RequestAnswer extends PlayedAnswer {
  /** `GET /v1/me`, with the query where it tells two requests apart. */
  readonly request: string;
}

/** A signed webhook, as the provider sends it. */
export interface WebhookVector {
  readonly source?: string;
  readonly method?: string;
  /** The time at which it was signed; default: now. */
  readonly at?: string;
  readonly secret?: string;
  /** The client secret that signs, where the app's secret does. */
  readonly client_secret?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** For a signature that covers the webhook URL, which each run chooses anew. */
  readonly sign?: {
    readonly header: string;
    readonly hash: string;
    readonly encoding: "hex" | "base64";
    readonly key: string;
    readonly prefix?: string;
    /** The signed text; `${url}` is the webhook URL. */
    readonly content: string;
  };
  /** For a JWT about the webhook URL, signed by a key that the run makes, or by `key` for HS256. */
  readonly jwt?: {
    readonly header: string;
    readonly prefix?: string;
    readonly algorithm: "RS256" | "HS256";
    readonly key?: string;
    /** `${url}` is the webhook URL; `iat`, `nbf` and `exp` are seconds from now. */
    readonly claims: Readonly<Record<string, string | number | boolean>>;
  };
  /** Answers to requests for the sender's keys. */
  readonly keys?: readonly RequestAnswer[];
  /** Whether the connection of this fixture is found. */
  readonly matches?: boolean;
  readonly kind?: string;
  readonly message_id?: string;
  /** The answer that the sender gets; default: 200 with any body. */
  readonly answer?: PlayedAnswer;
}

export interface ChallengeVector extends Omit<WebhookVector, "answer"> {
  readonly answer: PlayedAnswer;
  /** A text with `${url}`, the webhook URL, whose SHA-256 in hex the answer contains as `${hash}`. */
  readonly hashed?: string;
}

/** What the documentation of a provider shows: answers to each request, and a signed webhook. */
export interface ProviderFixture {
  readonly source?: string | readonly string[];
  readonly settings?: Readonly<Record<string, string>>;
  readonly connection_config?: Readonly<Record<string, string>>;
  readonly credentials?: Readonly<Record<string, unknown>>;
  readonly authorization?: { readonly params?: Readonly<Record<string, string>> };
  readonly callback?: Readonly<Record<string, string>>;
  readonly request_token?: PlayedAnswer;
  readonly token?: PlayedAnswer & { readonly request?: Readonly<Record<string, string>> };
  readonly exchanges?: readonly PlayedAnswer[];
  readonly refresh?: PlayedAnswer;
  readonly dead_grant?: PlayedAnswer;
  readonly describe?: readonly RequestAnswer[];
  readonly choose?: Readonly<Record<string, string>>;
  readonly expect?: {
    readonly connection_config?: Readonly<Record<string, unknown>>;
    readonly metadata?: Readonly<Record<string, unknown>>;
  };
  readonly call?: {
    readonly path: string;
    readonly url: string;
    readonly headers?: Readonly<Record<string, string>>;
  };
  readonly pages?: {
    readonly path: string;
    /** Path of the list, where the provider's lists have several names. */
    readonly list?: string;
    readonly first: PlayedAnswer;
    readonly second: PlayedAnswer;
    readonly items: number;
    /** A part of the address of the second request. */
    readonly second_request?: string;
  };
  readonly probe?: { readonly good: PlayedAnswer; readonly bad: PlayedAnswer };
  readonly limited?: PlayedAnswer;
  readonly webhook?: WebhookVector | readonly WebhookVector[];
  readonly challenge?: ChallengeVector | readonly ChallengeVector[];
}

const fields: readonly (keyof ProviderFixture)[] = [
  ...(["source", "settings", "connection_config", "credentials", "authorization", "callback"] as const),
  ...(["request_token", "token", "exchanges", "refresh", "dead_grant", "describe", "choose", "expect"] as const),
  ...(["call", "pages", "probe", "limited", "webhook", "challenge"] as const),
];

const folder = new URL("../../fixtures/providers/", import.meta.url);

/** The names of all providers with a fixture. */
export const fixtureNames = (): readonly string[] => readdirSync(folder).map((file) => file.replace(/\.yaml$/, ""));

export function readFixture(name: string): ProviderFixture | undefined {
  const file = new URL(`${name}.yaml`, folder);
  if (!existsSync(file)) return undefined;
  const fixture = parse(readFileSync(file, "utf8")) as ProviderFixture;
  const unknown = Object.keys(fixture).filter((field) => !fields.some((one) => one === field));
  if (unknown.length > 0) throw new Error(`${name}.yaml: unknown fields: ${unknown.join(", ")}`);
  return fixture;
}

export const listOf = <T>(value: T | readonly T[] | undefined): readonly T[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value as T];
