import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import {
  RequestFailed,
  type SendSmallRequest,
  type SmallAnswer,
  type SmallRequest,
} from "../../base/small-requests.ts";
import { isObject } from "../../core/dialect/json-fields.ts";

/** Requests of a discovery. They share one deadline, follow no redirect, and reach only what egress allows. */
export interface DiscoveryRequests {
  /** Sends a request without credentials. Throws `discovery_failed`. */
  send(request: SmallRequest, what: string): Promise<ProbeAnswer>;
  /** Returns a JSON document; undefined if there is none at this URL. Throws `discovery_failed`. */
  document(url: string, what: string): Promise<JsonObject | undefined>;
}

export interface ProbeAnswer {
  readonly status: number;
  /** Undefined if the response began and did not end, as an event stream does. */
  readonly answer: SmallAnswer | undefined;
}

const wholeMs = 30_000;
const eachMs = 10_000;
const maxBytes = 256 * 1024;

export function createDiscoveryRequests(send: SendSmallRequest): DiscoveryRequests {
  const until = performance.now() + wholeMs;

  async function probe(request: SmallRequest, what: string): Promise<ProbeAnswer> {
    requireHttps(request.url, what);
    const leftMs = until - performance.now();
    if (leftMs <= 0) throw discoveryFailed(`${what} did not answer within ${wholeMs / 1_000} seconds`);
    try {
      const answer = await send(request, { deadlineMs: Math.min(leftMs, eachMs), maxBytes });
      return { status: answer.status, answer };
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      if (error.status !== undefined && error.reason === "deadline") return { status: error.status, answer: undefined };
      throw discoveryFailed(`${what} at ${hostOf(request.url)} could not be reached: ${reasonText(error)}`, error);
    }
  }

  return {
    send: probe,
    async document(url, what) {
      const { status, answer } = await probe({ url, method: "GET", headers: { accept: "application/json" } }, what);
      // A server in trouble might name another issuer at the next URL than it would at this one.
      if (status >= 500 || status === 429) throw discoveryFailed(`${what} answered ${status}: ${url}`);
      return status === 200 && answer !== undefined ? jsonIn(answer.body) : undefined;
    },
  };
}

export const discoveryFailed = (message: string, cause?: unknown) =>
  new Fault("discovery_failed", `the MCP server could not be set up: ${message}`, { cause });

export const metadataMissing = (issuers: readonly string[]) =>
  discoveryFailed(
    `the metadata of its authorization server are missing (${issuers.join(", ")}); a server that only takes API keys needs a description of its own`,
  );

/** Without TLS only here, and only where the operator has allowed the port. */
const onThisMachine: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** Private hosts that the operator allows without TLS are written with `https` as well. */
export function requireHttps(url: string, what: string): URL {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const isHttps = parsed?.protocol === "https:" || (parsed?.protocol === "http:" && onThisMachine.has(parsed.hostname));
  if (parsed === undefined || !isHttps || parsed.username + parsed.password + parsed.hash !== "") {
    throw discoveryFailed(`${what} must have an https URL without a user name or fragment`);
  }
  return parsed;
}

/** Why a server was not reached, with what the operator can do. */
const reasons: Readonly<Record<string, string>> = {
  address_forbidden: "its address is private, or without TLS; LATCHKEY_ALLOW_PRIVATE allows such hosts",
  refused: "it refuses the connection",
  unknown_host: "there is no host of this name",
  untrusted: "its certificate is not trusted",
  connect_timeout: "it did not answer in time",
  answer_timeout: "it did not answer in time",
  deadline: "it did not answer in time",
  too_large: "its answer is too large",
};

const reasonText = ({ reason }: RequestFailed): string => reasons[reason] ?? reason;

const hostOf = (url: string): string => new URL(url).host;

function jsonIn(body: Buffer): JsonObject | undefined {
  try {
    const parsed: unknown = JSON.parse(body.toString("utf8"));
    return isObject(parsed as JsonObject) ? (parsed as JsonObject) : undefined;
  } catch {
    // A page that answers 200 at every path is no document.
    return undefined;
  }
}
