import type { JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { RequestFailed, type SendOptions, type SmallAnswer } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { placeholderValues, type ReadValue } from "../../core/outgoing/placeholder-values.ts";
import { retryAfterMs } from "../../core/outgoing/retry-after.ts";
import type { DescribeRule, RequestTemplate } from "../../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../../providers/dotted-path.ts";
import { type DescribedValues, describedValues } from "../connections/described-values.ts";
import {
  type ChannelValues,
  type FilledRequest,
  filledChannelRequest,
  filledRequest,
} from "../tokens/request-template.ts";
import type { AskWithConnection } from "./connection-request.ts";
import type { LiveConnection } from "./live-connections.ts";

/** Small requests of our own with a connection's credentials to the provider's hosts, sent as the proxy would. */
export interface ProviderRequests {
  /** Asks the provider about a connection before it is stored. Failures never keep the connection from being stored. */
  describe(live: LiveConnection): Promise<DescribedValues>;
  /** Requests the fields of these rules. Logs nothing, and returns every failure beside the values found. */
  tryDescribe(live: LiveConnection, rules: readonly DescribeRule[], signal: AbortSignal): Promise<Description>;
  /** Sends the request of a choice. `earlier_choice`: it needs a value that is still missing. */
  list(live: LiveConnection, template: RequestTemplate): Promise<ListAnswer>;
  /** Tests whether the provider accepts the credentials, as far as one request can show. */
  prove(live: LiveConnection): Promise<"good" | "refused" | "unproven">;
  /**
   * Sends a channel request from a template with these values. Rejects with `Unanswered`, and with a Fault if no
   * request can be made.
   */
  ofChannel(live: LiveConnection, request: ChannelAsk): Promise<SmallAnswer>;
}

export interface Description {
  readonly filed: DescribedValues;
  readonly failures: readonly DescribeFailure[];
}

export interface DescribeFailure {
  /** A word such as `status_401`, `refused` or `deadline`. */
  readonly reason: string;
  /** The status of the response, if there was one. */
  readonly status?: number;
  readonly retryAfterMs?: number | undefined;
}

/** The response to the request for a list, or why there is none. */
export type ListAnswer = { readonly body: JsonValue } | { readonly problem: string };

export interface ChannelAsk {
  readonly template: RequestTemplate;
  readonly values: ChannelValues;
  readonly deadlineMs: number;
  readonly signal?: AbortSignal | undefined;
}

interface ProviderRequestsOptions {
  readonly askWith: AskWithConnection;
  readonly world: World;
}

/** Short, since an end user waits for the response. */
const deadlineMs = 10_000;
const maxBytes = 256 * 1024;
const maxRequests = 5;
const maxListBytes = 4 * 1024 * 1024;

interface AskOptions extends SendOptions {
  /** False: the connection must have all values that the provider's description requires. */
  readonly mayLack?: boolean;
}

interface DescribeRequest {
  readonly template: RequestTemplate;
  readonly rules: readonly DescribeRule[];
}

/** Sends a filled request and returns the whole response. */
type Ask = (live: LiveConnection, request: FilledRequest, options?: AskOptions) => Promise<SmallAnswer>;

const createAsk =
  (askWith: AskWithConnection): Ask =>
  (live, { method, path, body, contentType, headers }, { mayLack = true, ...options } = { deadlineMs }) => {
    const content = body === "" ? undefined : Buffer.from(body);
    const own = new Set(headers.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase()));
    const rawHeaders = [
      ...(own.has("accept") ? [] : ["Accept", "application/json"]),
      ...(content === undefined || own.has("content-type") ? [] : ["Content-Type", contentType]),
      ...headers,
    ];
    return askWith(live, { method, path, rawHeaders, content, mayLack }, { maxBytes, ...options });
  };

export function createProviderRequests({ askWith, world }: ProviderRequestsOptions): ProviderRequests {
  const ask = createAsk(askWith);

  async function described(live: LiveConnection, { template, rules }: DescribeRequest, signal?: AbortSignal) {
    const filled = filledRequest(template, placeholderValues(live).read);
    if (filled === undefined) return { filed: nothing };
    try {
      const answer = await ask(live, filled, { deadlineMs, signal });
      const { status } = answer;
      const isGood = status >= 200 && status <= 299;
      const body = isGood ? jsonOf(answer) : undefined;
      if (body !== undefined) return { filed: describedValues(rules, body) };
      const waitMs = retryAfterMs(answer.header("retry-after"), "", world.now());
      const reason = isGood ? "not_json" : `status_${status}`;
      return { filed: nothing, failure: { reason, status, retryAfterMs: waitMs } };
    } catch (error) {
      const reason = error instanceof RequestFailed ? error.reason : error instanceof Fault ? error.code : undefined;
      if (reason === undefined) throw error;
      return { filed: nothing, failure: { reason } };
    }
  }

  async function tryDescribe(
    live: LiveConnection,
    wanted: readonly DescribeRule[],
    signal?: AbortSignal,
  ): Promise<Description> {
    const requests = requestsOf(wanted).slice(0, maxRequests);
    const all = await Promise.all(requests.map((request) => described(live, request, signal)));
    return {
      filed: {
        metadata: Object.assign({}, ...all.map(({ filed }) => filed.metadata)),
        connectionConfig: Object.assign({}, ...all.map(({ filed }) => filed.connectionConfig)),
      },
      failures: all.flatMap(({ failure }) => failure ?? []),
    };
  }

  return {
    async describe(live) {
      const { filed, failures } = await tryDescribe(live, live.provider.describe);
      for (const { reason } of failures)
        world.log.warn("the provider did not describe a new connection; its fields stay empty", {
          ...namesOf(live),
          reason,
        });
      return filed;
    },
    tryDescribe,
    async list(live, template) {
      const filled = filledRequest(template, placeholderValues(live).read);
      if (filled === undefined) return { problem: "earlier_choice" };
      try {
        const answer = await ask(live, filled, { deadlineMs, maxBytes: maxListBytes });
        const { status } = answer;
        if (status < 200 || status > 299) return { problem: `status_${status}` };
        const body = jsonOf(answer);
        return body === undefined ? { problem: "not_json" } : { body };
      } catch (error) {
        if (error instanceof RequestFailed) return { problem: error.reason };
        if (error instanceof Fault) return { problem: error.code };
        throw error;
      }
    },
    async prove(live) {
      const { verification } = live.provider;
      const request =
        verification?.request === undefined
          ? undefined
          : filledRequest(verification.request, placeholderValues(live).read);
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
        // An unreachable provider proves nothing about a key.
        if (error instanceof RequestFailed) return "unproven";
        throw error;
      }
    },
    async ofChannel(live, { template, values, deadlineMs: withinMs, signal }) {
      const request = filledChannelRequest(template, readerFor(live), values);
      if (request === undefined)
        throw new Fault("invalid_path", "the connection lacks a value that the provider's request needs");
      return ask(live, request, { deadlineMs: withinMs, signal, mayLack: false });
    },
  };
}

/** Groups the rules by request, so that equal requests are sent once. */
function requestsOf(wanted: readonly DescribeRule[]): readonly DescribeRequest[] {
  const byRequest = new Map<string, { readonly template: RequestTemplate; readonly rules: DescribeRule[] }>();
  for (const rule of wanted) {
    if (rule.request === undefined) continue;
    const { method, path, body, format, headers } = rule.request;
    const key = JSON.stringify([method, path, body, format, headers]);
    const known = byRequest.get(key);
    if (known === undefined) byRequest.set(key, { template: rule.request, rules: [rule] });
    else known.rules.push(rule);
  }
  return [...byRequest.values()];
}

/** The client's secret is part of a request only where that is the provider's way to tell who asks. */
function readerFor(live: LiveConnection): ReadValue {
  const { read } = placeholderValues(live);
  if (live.provider.channel?.authorization !== "none") return read;
  const secret = live.secrets?.clientSecret || undefined;
  return (name) => (name === "integration.clientSecret" ? secret : read(name));
}

const nothing: DescribedValues = { metadata: {}, connectionConfig: {} };
const namesOf = ({ integration, connection }: LiveConnection) => ({
  environment: integration.environment,
  integration: integration.key,
  connection: connection.ref?.id,
});

export function jsonOf({ body }: Pick<SmallAnswer, "body">): JsonValue | undefined {
  try {
    // JSON.parse returns only JSON values.
    return JSON.parse(body.toString("utf8")) as JsonValue;
  } catch {
    // A body that is not JSON has no values.
    return undefined;
  }
}
