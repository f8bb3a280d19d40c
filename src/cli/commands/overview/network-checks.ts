import { dataAddressOf } from "../../data/data-address.ts";
import { sendToData } from "../../data/data-request.ts";
import { findEnvironmentKey } from "../../data/environment-key.ts";
import type { CommandSession } from "../../session.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import type { Finding } from "./finding.ts";

const timeoutMs = 5_000;

export async function checkData({ terminal }: CommandSession, data: string | undefined): Promise<readonly Finding[]> {
  const check = "data listener";
  const address = dataAddressOf(data, terminal);
  try {
    const response = await sendToData(address, { method: "GET", path: "/health", signal: terminal.signal, timeoutMs });
    response.resume();
    if (response.statusCode === 200) return [{ check, status: "ok", message: `${address.text} answers` }];
    return [
      {
        check,
        status: "fail",
        message: `${address.text} answers /health with ${response.statusCode}`,
        remedy: "set --data or LATCHKEY_DATA to the address of LATCHKEY_DATA_LISTEN",
      },
    ];
  } catch (error) {
    const message = `${address.text} cannot be reached: ${reasonOf(error)}`;
    return [{ check, status: "fail", message, remedy: "start Latchkey, or set --data or LATCHKEY_DATA" }];
  }
}

/** Checks the key with which a service calls the data listener, if there is one here. */
export async function checkEnvironmentKey(
  { terminal }: CommandSession,
  data: string | undefined,
): Promise<readonly Finding[]> {
  const check = "environment key";
  try {
    const key = await findEnvironmentKey({}, terminal);
    const headers = { authorization: `Bearer ${key}` };
    const path = "/connections?limit=1";
    const response = await sendToData(dataAddressOf(data, terminal), { method: "GET", path, headers, timeoutMs });
    response.resume();
    const code = response.headers["latchkey-error"];
    if (response.statusCode === 200) return [{ check, status: "ok", message: "the data listener accepts it" }];
    if (code === "missing_scope") {
      return [{ check, status: "warn", message: "the key may not read connections: is it the key of an environment?" }];
    }
    const message = `the data listener refuses it: ${typeof code === "string" ? code : response.statusCode}`;
    return [{ check, status: "fail", message, remedy: "`latchkey keys create -e <environment>` makes a new key" }];
  } catch (error) {
    if (!(error instanceof UsageMistake)) return [];
    const message = "none here: your service needs one, this command does not";
    return [{ check, status: "ok", message }];
  }
}

/** Checks that browsers and providers can reach the public URL, as far as this machine can tell. */
export async function checkPublicUrl(publicUrl: string): Promise<readonly Finding[]> {
  const check = "public URL";
  const url = URL.canParse(publicUrl) ? new URL(publicUrl) : undefined;
  if (url === undefined) return [{ check, status: "warn", message: `${publicUrl} is not an http address` }];
  const isLocal = /^(localhost|127\.|\[::1\])/.test(url.hostname);
  const scheme: Finding =
    url.protocol === "https:"
      ? { check, status: "ok", message: `${publicUrl} is https` }
      : {
          check,
          status: "warn",
          message: `${publicUrl} is not https${isLocal ? ": fine for development" : ""}`,
          remedy: "in production, set LATCHKEY_PUBLIC_URL to the https address that browsers and providers reach",
        };
  return [scheme, await checkCallback(`${publicUrl.replace(/\/$/, "")}/oauth/callback`)];
}

async function checkCallback(callback: string): Promise<Finding> {
  const check = "redirect URI";
  try {
    const response = await fetch(callback, { redirect: "manual", signal: AbortSignal.timeout(timeoutMs) });
    await response.body?.cancel();
    // A callback without parameters is refused, by Latchkey itself.
    if (response.headers.has("latchkey-error")) return { check, status: "ok", message: `${callback} answers` };
    return {
      check,
      status: "fail",
      message: `${callback} answers ${response.status}, and not from Latchkey`,
      remedy: "let your load balancer route /oauth/callback, /connect and /webhook to the data or public listener",
    };
  } catch (error) {
    return {
      check,
      status: "fail",
      message: `${callback} cannot be reached from here: ${reasonOf(error)}`,
      remedy: "check the DNS name, the certificate and the load balancer of LATCHKEY_PUBLIC_URL",
    };
  }
}

/** Checks that something answers at a forward URL. */
export async function checkForwardUrl(environment: string, url: string): Promise<Finding> {
  const check = "forward URL";
  try {
    const response = await fetch(url, { method: "HEAD", redirect: "manual", signal: AbortSignal.timeout(timeoutMs) });
    await response.body?.cancel();
    return { check, status: "ok", message: `${environment}: ${originOf(url)} answers` };
  } catch (error) {
    return {
      check,
      status: "warn",
      message: `${environment}: ${originOf(url)} cannot be reached from here: ${reasonOf(error)}`,
      remedy: "start your service; if only the server can reach it, ignore this",
    };
  }
}

/** The path of a forward URL may hold a secret. */
const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : "the URL");

function reasonOf(error: unknown): string {
  const { code, message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
  return code ?? message;
}
