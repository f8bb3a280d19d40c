import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import { RequestFailed, type SmallAnswer } from "../../../base/small-requests.ts";
import type { World } from "../../../base/world.ts";
import { retryAfterMs } from "../../../core/outgoing/retry-after.ts";
import { ToolFailure } from "../../../core/scripts/script.ts";
import type { AskWithConnection, ConnectionRequestTarget, NoteSent } from "../../credentials/connection-request.ts";
import type { Live, LiveConnection } from "../../credentials/live-connections.ts";
import type { Quotas } from "../../quotas/quotas.ts";
import type { AdmitScriptRequest } from "./script-admission.ts";
import type { ScriptRequest } from "./script-request.ts";

/** Sends a script's request with the credentials of its connection, which the script never sees. */
export type SendForScript = (context: ScriptRequestContext, request: ScriptRequest) => Promise<JsonObject>;

interface ScriptRequestContext {
  readonly live: () => Promise<LiveConnection>;
  readonly signal: AbortSignal;
  /**
   * The connection is about to be created and has no replacement credentials: stored credentials are different ones.
   */
  readonly isDraft: boolean;
  readonly noteSent?: NoteSent | undefined;
  /** Name of the script. */
  readonly script: string;
}

interface ScriptRequestsOptions {
  readonly live: Pick<Live, "replacementOf">;
  readonly askWith: AskWithConnection;
  readonly quotas: Pick<Quotas, "enter" | "noteResponse">;
  readonly admit: AdmitScriptRequest;
  readonly world: World;
}

const deadlineMs = 60_000;
/** Limits the response, which is held in memory, and as text in the script as well. */
const maxBytes = 16 * 1024 * 1024;
const firstDelayMs = 500;
const maxDelayMs = 60_000;
/** Limits the total time of a request with all its retries. */
const maxTotalMs = 300_000;
const networkFailures = new Set([
  "refused",
  "unreachable",
  "unknown_host",
  "connect_timeout",
  "answer_timeout",
  "closed",
  "egress_proxy",
]);

export function createScriptRequests(scriptOptions: ScriptRequestsOptions): SendForScript {
  const { live: connections, askWith, quotas, admit: admitRequest, world } = scriptOptions;

  async function attempt(
    context: ScriptRequestContext & { readonly isFirst: boolean; readonly noteApproved: () => void },
    request: ScriptRequest,
  ): Promise<SmallAnswer> {
    const { live, signal, isDraft, noteSent, isFirst, noteApproved } = context;
    const options = { deadlineMs, maxBytes, signal, noteSent };
    const found = await live();
    let approved: ConnectionRequestTarget | undefined;
    /** Judged each time: a connection that was read again may have other tags, another host or other credentials. */
    const ask = (one: LiveConnection, isFirst: boolean) => {
      const admit = async (target: ConnectionRequestTarget): Promise<void> => {
        const sent = { script: context.script, signal, request, live: one, target, isFirst, approved };
        if (!(await admitRequest(sent))) return;
        approved = target;
        noteApproved();
      };
      return askWith(one, request, { ...options, admit });
    };
    // A script can wait, and makes room for requests that people wait for.
    await quotas.enter(found, { path: request.path, priority: "background", patienceMs: deadlineMs });
    const answer = await ask(found, isFirst);
    quotas.noteResponse(found, request.path, answer);
    if (answer.status !== 401 || isDraft) return answer;
    // The provider rejected the request, so it had no effect: it may be repeated with other credentials, whatever its
    // method.
    const replacement = await connections.replacementOf(found).catch((error: unknown) => {
      if (error instanceof Fault) return undefined;
      throw error;
    });
    return replacement === undefined ? answer : ask(replacement, false);
  }

  function waitMs(
    result: SmallAnswer | RequestFailed,
    { retryOn }: ScriptRequest,
    attempts: number,
  ): number | undefined {
    if (result instanceof RequestFailed) {
      if (!networkFailures.has(result.reason)) return undefined;
    } else {
      const { status } = result;
      if (status !== 429 && status < 500 && !retryOn.includes(status)) return undefined;
    }
    const requestedMs =
      result instanceof RequestFailed ? undefined : retryAfterMs(result.header("retry-after"), "", world.now());
    const delayMs = requestedMs ?? Math.min(maxDelayMs, firstDelayMs * 2 ** attempts) * (0.5 + Math.random() / 2);
    return delayMs > maxDelayMs ? undefined : delayMs;
  }

  return async (context, request) => {
    const since = performance.now();
    let { retries } = request;
    const noteApproved = () => {
      retries = 0;
    };
    for (let attempts = 0; ; attempts += 1) {
      const tried = { ...context, isFirst: attempts === 0, noteApproved };
      const result = await attempt(tried, request).catch((error: unknown) => {
        if (error instanceof RequestFailed) return error;
        throw error;
      });
      const isGood = !(result instanceof RequestFailed) && result.status >= 200 && result.status < 300;
      const delayMs = isGood || attempts >= retries ? undefined : waitMs(result, request, attempts);
      if (delayMs === undefined || performance.now() - since + delayMs > maxTotalMs) return responseOf(result, request);
      await sleep(delayMs, undefined, { signal: context.signal }).catch(() => {
        throw new ToolFailure("cancelled", "the run has ended");
      });
    }
  };
}

function responseOf(result: SmallAnswer | RequestFailed, request: ScriptRequest): JsonObject {
  if (result instanceof RequestFailed) {
    const options = { details: { unanswered: true }, cause: result };
    throw new ToolFailure(result.reason, `no response from the provider: ${result.message}`, options);
  }
  const { status } = result;
  const response = { status, headers: headersOf(result), ...dataOf(result, request) };
  if (status >= 200 && status < 300) return response;
  throw new ToolFailure(`status_${status}`, `the provider answered ${status}`, { details: { response } });
}

function headersOf({ fields }: SmallAnswer): JsonObject {
  const headers: [string, string][] = [];
  for (let i = 0; i < fields.length; i += 2) headers.push([(fields[i] ?? "").toLowerCase(), fields[i + 1] ?? ""]);
  const byName = Map.groupBy(headers, ([name]) => name);
  // Built from pairs, an object has `__proto__` as an ordinary field.
  return Object.fromEntries(
    [...byName].map(([name, all]): [string, JsonValue] => [name, all.map(([, value]) => value).join(", ")]),
  );
}

/** Returns the data as axios does: parsed if the body is JSON, whatever its content type. */
function dataOf({ body }: SmallAnswer, { responseType }: ScriptRequest): JsonObject {
  if (responseType === "bytes") return { dataBase64: body.toString("base64") };
  const text = body.toString("utf8");
  if (responseType === "text") return { data: text };
  try {
    // JSON.parse returns only JSON values.
    return { data: JSON.parse(text) as JsonValue };
  } catch {
    // Not JSON: return the text.
    return { data: text };
  }
}
