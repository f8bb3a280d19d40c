import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import type { Duplex } from "node:stream";
import { version } from "../base/version.ts";

export interface CollectorConfig {
  /** The whole URL, with its path. */
  readonly endpoint: string;
  /** Secret: mostly an API key. */
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** PEM: trusted instead of the default authorities. */
  readonly ca: string | undefined;
  /** Opens connections in place of Node's agent; undefined: the agent does. */
  readonly connect?: ((withinMs: number) => Promise<Duplex>) | undefined;
}

/** A receiver of spans, by OTLP over HTTP. */
export interface Collector {
  /** Host and port, for warnings. */
  readonly peer: string;
  /** Never rejects. */
  send(message: string): Promise<ExportOutcome>;
  /** Fails the request in progress and all later ones. */
  destroy(): void;
}

export type ExportOutcome =
  /** `refused`: the number of spans that the collector rejected. */
  | { readonly isTaken: true; readonly refused: number }
  | {
      readonly isTaken: false;
      readonly reason: string;
      readonly isRetryable: boolean;
      /** The delay of `retry-after`. */
      readonly retryAfterMs: number | undefined;
    };

/** OTLP, "Failures": only these statuses may be retried. */
const retryable = new Set([429, 502, 503, 504]);
/** Larger than any response of a collector. */
const maxAnswerBytes = 64 * 1024;

export function createCollector({ endpoint, headers, timeoutMs, ca, connect }: CollectorConfig): Collector {
  const url = new URL(endpoint);
  const { request, Agent } = url.protocol === "https:" ? https : http;
  // Its own agent, so that spans share no connections with requests to providers.
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ...(ca === undefined ? {} : { ca }) });
  if (connect !== undefined) {
    Object.assign(agent, {
      createConnection(_: unknown, ready: (error: Error | null, socket?: Duplex) => void) {
        connect(timeoutMs).then((socket) => ready(null, socket), ready);
      },
    });
  }
  const ended = new AbortController();
  const requestHeaders = { ...headers, "content-type": "application/json", "user-agent": `latchkey/${version}` };

  function post(message: string, isRetry = false): Promise<IncomingMessage> {
    const signal = AbortSignal.any([ended.signal, AbortSignal.timeout(timeoutMs)]);
    const body = Buffer.from(message);
    return new Promise((resolve, reject) => {
      const exportRequest = request(url, {
        method: "POST",
        agent,
        signal,
        headers: { ...requestHeaders, "content-length": body.length },
      });
      exportRequest.on("error", (error: NodeJS.ErrnoException) => {
        // The collector had closed an idle connection in the meantime: retry at once.
        if (exportRequest.reusedSocket && error.code === "ECONNRESET" && !isRetry) resolve(post(message, true));
        else reject(error);
      });
      exportRequest.on("response", resolve).end(body);
    });
  }

  return {
    peer: url.host,
    async send(message) {
      try {
        const answer = await post(message);
        const text = await textOf(answer);
        const { statusCode: status = 0, headers: fields } = answer;
        if (status >= 200 && status < 300) return { isTaken: true, refused: refusedIn(text) };
        const seconds = Number(fields["retry-after"] ?? Number.NaN);
        return {
          isTaken: false,
          reason: `status ${status}`,
          isRetryable: retryable.has(status),
          retryAfterMs: seconds >= 0 ? seconds * 1_000 : undefined,
        };
      } catch (error) {
        const { code, name } = error as NodeJS.ErrnoException;
        return { isTaken: false, reason: code ?? name, isRetryable: true, retryAfterMs: undefined };
      }
    },
    destroy() {
      ended.abort();
      agent.destroy();
    },
  };
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of answer as AsyncIterable<Buffer>) {
    length += part.length;
    // The collector has the spans; the rest of a long response is not needed.
    if (length > maxAnswerBytes) break;
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Reads `ExportTraceServiceResponse.partial_success`; its 64-bit number is mostly a string in JSON. */
function refusedIn(text: string): number {
  try {
    const { partialSuccess } = JSON.parse(text) as { partialSuccess?: { rejectedSpans?: unknown } };
    const refused = Number(partialSuccess?.rejectedSpans ?? 0);
    return refused > 0 ? refused : 0;
  } catch {
    // Some collectors answer with an empty or a text body; the status is enough.
    return 0;
  }
}
