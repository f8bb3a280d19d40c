import type { JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../base/fault.ts";
import { type SendOptions, type SmallAnswer, Unanswered } from "../base/sending.ts";
import type { World } from "../base/world.ts";
import { describedValues, type Filed } from "../core/described-values.ts";
import {
  type ChannelValues,
  type FilledRequest,
  filledChannelRequest,
  filledRequest,
} from "../core/request-template.ts";
import type { DescribeRule, RequestTemplate } from "../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../providers/dotted-path.ts";
import type { AskWithConnection } from "./connection-request.ts";
import type { LiveConnection } from "./live.ts";

/** Small requests of our own with a connection's credentials: to the provider's hosts, as the proxy would send them. */
export interface ProviderAsks {
  /** What its provider says of a connection that is about to be filed. Whatever goes wrong, it is filed all the same. */
  describe(live: LiveConnection): Promise<Filed>;
  /** Whether the provider takes the credentials, as far as one request can tell. */
  prove(live: LiveConnection): Promise<"good" | "refused" | "unproven">;
  /**
   * Asks for what a template describes, with these values in it. Rejects with `Unanswered`, and with a Fault where
   * there is nothing that could be asked.
   */
  ofChannel(live: LiveConnection, asked: ChannelAsk): Promise<SmallAnswer>;
}

export interface ChannelAsk {
  readonly template: RequestTemplate;
  readonly values: ChannelValues;
  readonly deadlineMs: number;
  readonly signal?: AbortSignal | undefined;
}

interface ProviderAsksOptions {
  readonly askWith: AskWithConnection;
  readonly world: World;
}

/** An end user waits for it. */
const deadlineMs = 10_000;
const maxBytes = 256 * 1024;
const maxRequests = 5;

export function createProviderAsks({ askWith, world }: ProviderAsksOptions): ProviderAsks {
  async function ask(
    live: LiveConnection,
    { method, path, body }: FilledRequest,
    options: SendOptions = { deadlineMs },
  ): Promise<SmallAnswer> {
    const content = body === "" ? undefined : Buffer.from(body);
    const rawHeaders = [
      ...["Accept", "application/json"],
      ...(content === undefined ? [] : ["Content-Type", "application/json"]),
    ];
    return askWith(live, { method, path, rawHeaders, content }, { ...options, maxBytes });
  }

  const configOf = ({ integration, connection }: LiveConnection) => ({
    ...integration.connectionDefaults,
    ...connection.connectionConfig,
  });

  async function described(live: LiveConnection, template: RequestTemplate, rules: readonly DescribeRule[]) {
    const filled = filledRequest(template, configOf(live));
    if (filled === undefined) return nothing;
    try {
      const answer = await ask(live, filled);
      const body = answer.status >= 200 && answer.status < 300 ? jsonOf(answer) : undefined;
      if (body !== undefined) return describedValues(rules, body);
      world.log.warn("a new connection's provider said nothing of it", { ...namesOf(live), status: answer.status });
    } catch (error) {
      const reason = error instanceof Unanswered ? error.reason : error instanceof Fault ? error.code : undefined;
      if (reason === undefined) throw error;
      world.log.warn("a new connection's provider was asked about it in vain", { ...namesOf(live), reason });
    }
    return nothing;
  }

  return {
    async describe(live) {
      // Rules with the same request are answered by one.
      const byRequest = new Map<string, { readonly template: RequestTemplate; readonly rules: DescribeRule[] }>();
      for (const rule of live.provider.describe) {
        if (rule.request === undefined) continue;
        const key = [rule.request.method, rule.request.path, rule.request.body].join("\0");
        const known = byRequest.get(key);
        if (known === undefined) byRequest.set(key, { template: rule.request, rules: [rule] });
        else known.rules.push(rule);
      }
      const asked = [...byRequest.values()].slice(0, maxRequests);
      const all = await Promise.all(asked.map(({ template, rules }) => described(live, template, rules)));
      return {
        metadata: Object.assign({}, ...all.map(({ metadata }) => metadata)),
        connectionConfig: Object.assign({}, ...all.map(({ connectionConfig }) => connectionConfig)),
      };
    },
    async prove(live) {
      const { verification } = live.provider;
      const request =
        verification?.request === undefined ? undefined : filledRequest(verification.request, configOf(live));
      if (verification === undefined || request === undefined) return "unproven";
      try {
        const answer = await ask(live, request);
        const { refusedStatuses, accepted } = verification;
        if ((refusedStatuses.length > 0 ? refusedStatuses : [401, 403]).includes(answer.status)) return "refused";
        if (answer.status < 200 || answer.status > 299) return "unproven";
        if (accepted === "") return "good";
        const body = jsonOf(answer);
        return body !== undefined && valueAt(accepted, body) ? "good" : "refused";
      } catch (error) {
        // A provider that is away says nothing about a key.
        if (error instanceof Unanswered) return "unproven";
        throw error;
      }
    },
    async ofChannel(live, { template, values, deadlineMs: withinMs, signal }) {
      const request = filledChannelRequest(template, configOf(live), values);
      if (request === undefined)
        throw new Fault("invalid_path", "the connection lacks a value that its provider needs");
      return ask(live, request, { deadlineMs: withinMs, signal });
    },
  };
}

const nothing: Filed = { metadata: {}, connectionConfig: {} };
const namesOf = ({ integration, connection }: LiveConnection) => ({
  environment: integration.environment,
  integration: integration.key,
  connection: connection.ref?.id,
});

export function jsonOf({ body }: Pick<SmallAnswer, "body">): JsonValue | undefined {
  try {
    // JSON.parse returns JSON and nothing else.
    return JSON.parse(body.toString("utf8")) as JsonValue;
  } catch {
    // Not JSON: then it says nothing.
    return undefined;
  }
}
