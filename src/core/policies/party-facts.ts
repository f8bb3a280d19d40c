import { type CelInput, type CelList, type CelMap, type CelValue, celList, celMap } from "@bufbuild/cel";
import type { JsonValue } from "@bufbuild/protobuf";
import { type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { TimestampSchema, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { EvaluationFailure } from "./values.ts";

/** The caller of what is judged, its integration and connection, and the time. */
export interface JudgedParties {
  readonly nowMs: number;
  readonly caller: JudgedCaller;
  /** Empty texts: the call is for no integration. */
  readonly integration: { readonly key: string; readonly provider: string; readonly environment: string };
  readonly connection: ConnectionFacts;
}

export interface JudgedCaller {
  readonly key: string;
  readonly session: string;
  readonly script: string;
  readonly identity: Readonly<Record<string, string>>;
  readonly scopes: readonly string[];
}

export interface ConnectionFacts {
  readonly id: string | EvaluationFailure;
  readonly tags: Readonly<Record<string, string>> | EvaluationFailure;
  readonly metadata: Readonly<Record<string, JsonValue>> | EvaluationFailure;
}

/** The values of parties that conditions read. */
export class PartyFacts {
  readonly #parties: JudgedParties;
  #time: ReflectMessage | undefined;

  constructor(parties: JudgedParties) {
    this.#parties = parties;
  }

  get time(): CelValue {
    this.#time ??= reflect(TimestampSchema, timestampFromMs(this.#parties.nowMs));
    return this.#time;
  }

  get callerKey(): string {
    return this.#parties.caller.key;
  }

  get callerSession(): string {
    return this.#parties.caller.session;
  }

  get callerScript(): string {
    return this.#parties.caller.script;
  }

  get callerIdentity(): CelMap {
    return mapOf(this.#parties.caller.identity);
  }

  get callerScopes(): CelList {
    return celList(this.#parties.caller.scopes);
  }

  get integrationKey(): string {
    return this.#parties.integration.key;
  }

  get integrationProvider(): string {
    return this.#parties.integration.provider;
  }

  get integrationEnvironment(): string {
    return this.#parties.integration.environment;
  }

  get connectionId(): string | EvaluationFailure {
    return this.#parties.connection.id;
  }

  get connectionTags(): CelMap | EvaluationFailure {
    const { tags } = this.#parties.connection;
    return tags instanceof EvaluationFailure ? tags : mapOf(tags);
  }

  get connectionMetadata(): CelMap | EvaluationFailure {
    const { metadata } = this.#parties.connection;
    return metadata instanceof EvaluationFailure ? metadata : mapOf(metadata);
  }
}

const mapOf = (values: Readonly<Record<string, JsonValue>>): CelMap =>
  celMap(new Map(Object.entries(values).map(([name, value]) => [name, celOfJson(value)])));

function celOfJson(value: JsonValue): CelInput {
  if (Array.isArray(value)) return celList(value.map(celOfJson));
  return typeof value === "object" && value !== null ? mapOf(value) : value;
}
