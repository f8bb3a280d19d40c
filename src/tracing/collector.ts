import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { version } from "../base/version.ts";

export interface CollectorConfig {
  /** Whole, with its path. */
  readonly endpoint: string;
  /** Secret: most often a key. */
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** PEM: trusted in place of the usual authorities. */
  readonly ca: string | undefined;
}

/** Where spans go, by OTLP over HTTP. */
export interface Collector {
  /** As a warning names it. */
  readonly peer: string;
  /** Throws nothing. */
  send(message: string): Promise<ExportOutcome>;
  /** What is under way fails, and so does whatever is sent from now on. */
  destroy(): void;
}

export type ExportOutcome =
  /** `refused`: of the spans, how many. */
  | { readonly isTaken: true; readonly refused: number }
  | {
      readonly isTaken: false;
      readonly reason: string;
      readonly mayTryAgain: boolean;
      /** For how long it asks us to wait. */
      readonly afterMs: number | undefined;
    };

/** OTLP, "Failures": any other status would come again. */
const passing = new Set([429, 502, 503, 504]);
/** All that a collector has to say fits into it. */
const maxAnswerBytes = 64 * 1024;

export function createCollector({ endpoint, headers, timeoutMs, ca }: CollectorConfig): Collector {
  const url = new URL(endpoint);
  const { request, Agent } = url.protocol === "https:" ? https : http;
  // Of its own: not one of the connections that lead to providers.
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ...(ca === undefined ? {} : { ca }) });
  const ended = new AbortController();
  const fields = { ...headers, "content-type": "application/json", "user-agent": `latchkey/${version}` };

  function post(message: string, isSecond = false): Promise<IncomingMessage> {
    const signal = AbortSignal.any([ended.signal, AbortSignal.timeout(timeoutMs)]);
    const body = Buffer.from(message);
    return new Promise((resolve, reject) => {
      const asking = request(url, {
        method: "POST",
        agent,
        signal,
        headers: { ...fields, "content-length": body.length },
      });
      asking.on("error", (error: NodeJS.ErrnoException) => {
        // A kept connection that it had closed in the meantime: nobody's fault, and no reason to wait.
        if (asking.reusedSocket && error.code === "ECONNRESET" && !isSecond) resolve(post(message, true));
        else reject(error);
      });
      asking.on("response", resolve).end(body);
    });
  }

  return {
    peer: url.host,
    async send(message) {
      try {
        const answer = await post(message);
        const text = await textOf(answer);
        const { statusCode: status = 0, headers: said } = answer;
        if (status >= 200 && status < 300) return { isTaken: true, refused: refusedIn(text) };
        const seconds = Number(said["retry-after"] ?? Number.NaN);
        return {
          isTaken: false,
          reason: `status ${status}`,
          mayTryAgain: passing.has(status),
          afterMs: seconds >= 0 ? seconds * 1_000 : undefined,
        };
      } catch (error) {
        const { code, name } = error as NodeJS.ErrnoException;
        return { isTaken: false, reason: code ?? name, mayTryAgain: true, afterMs: undefined };
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
    // It took the message: what it has to say beside that is not worth more.
    if (length > maxAnswerBytes) break;
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Of `ExportTraceServiceResponse.partial_success`; a 64-bit number, and so a text in most. */
function refusedIn(text: string): number {
  try {
    const { partialSuccess } = JSON.parse(text) as { partialSuccess?: { rejectedSpans?: unknown } };
    const refused = Number(partialSuccess?.rejectedSpans ?? 0);
    return refused > 0 ? refused : 0;
  } catch {
    // Some answer with nothing, or with a word: the status has said it.
    return 0;
  }
}
