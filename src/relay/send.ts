import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate } from "node:zlib";
import { lowerCase } from "../base/http/field-name.ts";
import { RequestFailed, type SendSmallRequest, type SmallAnswer, type SmallRequest } from "../base/small-requests.ts";
import { version } from "../base/version.ts";
import { whenAborted } from "../base/when-aborted.ts";
import type { Exchange, UpstreamRequest } from "./exchange.ts";
import { RelayFailure } from "./failure.ts";
import type { ResponseHead } from "./http1/response-head.ts";
import { originOf } from "./origin.ts";
import type { ResponseReceiver } from "./response-receiver.ts";
import type { Upstream } from "./upstream.ts";

const defaultDeadlineMs = 60_000;
const defaultMaxBytes = 1024 * 1024;
/** RFC 9110, 9.2.2: idempotent methods may use a connection that was idle. */
const repeatable = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);
/**
 * Maximum idle time of a connection for other methods: servers keep idle connections for some seconds at least, and
 * intermediaries for minutes.
 */
const followMs = 1_000;

/**
 * Sends small requests through the relay: to the same addresses only, with the same trust, and without following
 * redirects.
 */
export function createSend(upstream: Pick<Upstream, "admit" | "send">): SendSmallRequest {
  return (request, { signal, deadlineMs = defaultDeadlineMs, maxBytes = defaultMaxBytes } = {}) =>
    new Promise((resolve, reject) => {
      let exchange: Exchange | undefined;
      let status: number | undefined;
      let isSettled = false;
      let stay: (() => void) | undefined;
      const late = setTimeout(() => giveUp("deadline", "no complete response in time"), deadlineMs);
      const leave = () => giveUp("left", "the caller has left");

      const settle = (then: () => void) => {
        if (isSettled) return;
        isSettled = true;
        clearTimeout(late);
        stay?.();
        then();
      };
      const fail = (reason: string, cause: Error) => {
        const mayHaveArrived = exchange?.mayHaveArrived === true;
        settle(() => reject(new RequestFailed({ reason, mayHaveArrived, status }, cause.message, { cause })));
      };
      function giveUp(reason: string, message: string): void {
        const given = exchange;
        fail(reason, new Error(message));
        given?.abort();
      }

      if (signal?.aborted === true) {
        leave();
        return;
      }
      stay = signal && whenAborted(signal, leave);
      const collected = collecting({
        maxBytes,
        began: (head) => {
          status = head.status;
        },
        tooLarge: () => giveUp("too_large", `the response is larger than ${maxBytes} bytes`),
        ended(head, body) {
          decoded(head, body, maxBytes).then(
            (answer) => settle(() => resolve(answer)),
            (error: Error) => fail(error instanceof AnswerTooLarge ? "too_large" : "malformed", error),
          );
        },
        failed: (failure) => fail(failure.kind, failure),
      });
      try {
        const { head, body } = toUpstream(upstream, request);
        exchange = upstream.send(head, collected);
        if (body.length > 0) exchange.write(body);
        if (head.body !== "none") exchange.end([]);
      } catch (error) {
        if (error instanceof UnsendableRequest) fail("unsendable", error);
        else if (error instanceof RelayFailure) fail(error.kind, error);
        else settle(() => reject(error));
      }
    });
}

interface UpstreamSend {
  readonly head: UpstreamRequest;
  readonly body: Buffer;
}

function toUpstream(upstream: Pick<Upstream, "admit">, request: SmallRequest): UpstreamSend {
  const { url, method, headers, clientCertificate, mayRepeat = false, mayFollow = false } = request;
  const parsed = URL.parse(url);
  const address = parsed === null ? undefined : originOf(parsed);
  if (parsed === null || address === undefined) throw new UnsendableRequest("the address is not valid");
  const origin = upstream.admit({ ...address, clientCertificate, isApart: mayFollow });
  const { target = `${parsed.pathname}${parsed.search}` } = request;
  if (!/^\/[\x21-\x7e]*$/.test(target)) throw new UnsendableRequest("the path of the request is not valid");
  const body = Buffer.from(request.body ?? "");
  const hasBody = request.body !== undefined;
  // The last value of a name wins, and only Latchkey frames the request.
  const fields = new Map([["user-agent", userAgent]]);
  for (const [name, value] of Object.entries(headers)) fields.set(name.toLowerCase(), value);
  for (const name of ours) fields.delete(name);
  fields.set("accept-encoding", "identity").set("host", origin.authority);
  if (hasBody) fields.set("content-length", String(body.length));
  let lines = "";
  for (const [name, value] of fields) {
    if (!isSendable(name, value)) throw new UnsendableRequest("a header of the request is not valid");
    lines += `${name}: ${value}\r\n`;
  }
  return {
    head: {
      origin,
      method,
      head: `${method} ${target} HTTP/1.1\r\n${lines}\r\n`,
      body: hasBody ? "length" : "none",
      needsNew: !mayFollow && !mayRepeat && !repeatable.has(method),
      mayRepeat,
      ...(mayFollow ? { idleAtMostMs: followMs } : {}),
    },
    body,
  };
}

const userAgent = `latchkey/${version}`;
/** Headers that frame a request. */
const ours = ["content-length", "transfer-encoding", "connection"];

/** RFC 9110, 5.5 and 5.6.2: names and values that stay within their line. */
const isSendable = (name: string, value: string): boolean =>
  /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value);

interface CollectorCallbacks {
  readonly maxBytes: number;
  readonly began: (head: ResponseHead) => void;
  readonly tooLarge: () => void;
  readonly ended: (head: ResponseHead, body: Buffer) => void;
  readonly failed: (failure: RelayFailure) => void;
}

function collecting({ maxBytes, began, tooLarge, ended, failed }: CollectorCallbacks): ResponseReceiver {
  const parts: Buffer[] = [];
  let head: ResponseHead | undefined;
  let size = 0;
  return {
    onInformational() {},
    onHead(given) {
      head = given;
      began(given);
      if (typeof given.framing === "number" && given.framing > maxBytes) tooLarge();
    },
    onContent(content, release) {
      size += content.length;
      if (size > maxBytes) tooLarge();
      else parts.push(Buffer.from(content));
      release?.();
      return true;
    },
    onEnd() {
      if (head !== undefined) ended(head, Buffer.concat(parts));
    },
    onFailure: failed,
    onDrain() {},
  };
}

class AnswerTooLarge extends Error {}
/** A request that fails however often it is repeated. */
class UnsendableRequest extends Error {}

const decoders: Readonly<Record<string, (body: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>> = {
  gzip: promisify(gunzip),
  "x-gzip": promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
};

/** Decodes a compressed body: some servers compress although the request forbids compression. */
async function decoded({ status, fields }: ResponseHead, body: Buffer, maxBytes: number): Promise<SmallAnswer> {
  const header = (wanted: string) => {
    for (let i = 0; i < fields.length; i += 2) {
      if (lowerCase(fields[i] ?? "") === wanted) return fields[i + 1];
    }
    return undefined;
  };
  const coding = (header("content-encoding") ?? "identity").toLowerCase();
  if (coding === "identity" || coding === "" || body.length === 0) return { status, header, fields, body };
  const decode = Object.hasOwn(decoders, coding) ? decoders[coding] : undefined;
  if (decode === undefined) throw new Error("the response has an encoding that was not requested");
  try {
    return { status, header, fields, body: await decode(body, { maxOutputLength: maxBytes }) };
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") {
      throw new AnswerTooLarge(`the response is larger than ${maxBytes} bytes`, { cause });
    }
    throw new Error("the response does not match its content-encoding", { cause });
  }
}
