import { Fault } from "../../base/fault.ts";

/** Options that a caller sends to the proxy itself. */
export interface ProxyOptions {
  /** Undefined: the provider's own base URL. */
  readonly baseUrl: string | undefined;
  /** Maximum number of retries. */
  readonly retries: number;
  /** Additional statuses to retry. */
  readonly retryOn: readonly number[];
  /** The further token to use; undefined: the main one. */
  readonly token: string | undefined;
  /** Token of the user that the request acts for. */
  readonly subject: string | undefined;
}

const maxRetries = 10;
const maxBaseUrlLength = 2_048;

/** Throws `invalid_headers`. `header` returns a field by its name in lower case; an empty field counts as absent. */
export function proxyOptions(header: (name: string) => string | undefined): ProxyOptions {
  const baseUrl = header("base-url-override") || undefined;
  if (baseUrl !== undefined && baseUrl.length > maxBaseUrlLength) {
    throw new Fault("host_not_allowed", "the Base-Url-Override header is too long");
  }
  const retries = retriesOf(header("retries"));
  const retryOn = statusesOf(header("retry-on"));
  const token = tokenOf(header("latchkey-token"));
  const subject = header("latchkey-subject-token") || undefined;
  if (token !== undefined && subject !== undefined) {
    throw new Fault("invalid_headers", "send either Latchkey-Token or Latchkey-Subject-Token, not both");
  }
  const isPlain = baseUrl === undefined && retries === 0 && retryOn.length === 0 && (token ?? subject) === undefined;
  return isPlain ? nothing : { baseUrl, retries, retryOn, token, subject };
}

/** The options of most callers, shared by all of them. */
const nothing: ProxyOptions = { baseUrl: undefined, retries: 0, retryOn: [], token: undefined, subject: undefined };

function tokenOf(text: string | undefined): string | undefined {
  if (text === undefined || text === "") return undefined;
  if (/^[a-z][a-z0-9_-]{0,62}$/.test(text)) return text;
  throw new Fault("invalid_headers", "Latchkey-Token must be the name of a further token");
}

function retriesOf(text: string | undefined): number {
  if (text === undefined || text === "") return 0;
  const retries = /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
  if (retries <= maxRetries) return retries;
  throw new Fault("invalid_headers", `Retries must be a number from 0 to ${maxRetries}`);
}

function statusesOf(text: string | undefined): number[] {
  if (text === undefined || text.trim() === "") return [];
  return text.split(",").map((part) => {
    const status = /^\s*([1-5]\d\d)\s*$/.exec(part)?.[1];
    if (status === undefined)
      throw new Fault("invalid_headers", "Retry-On must be a comma-separated list of status codes");
    return Number(status);
  });
}
