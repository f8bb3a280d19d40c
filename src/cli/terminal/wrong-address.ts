import http from "node:http";
import https from "node:https";
import tls from "node:tls";
import { ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";

/** Listeners other than the control plane, or a wrong way of connecting to it. */
export type WrongDoor = "plain" | "tls" | "untrusted" | "data" | "ops";

const withinMs = 2_000;

/** Finds out what listens at an address where a call failed unlike any control plane fails; undefined if unknown. */
export async function findWrongDoor(thrown: unknown, address: string): Promise<WrongDoor | undefined> {
  if (!(thrown instanceof ConnectError) || address.startsWith("unix:")) return undefined;
  // The control plane adds details to each of its errors.
  if (thrown.findDetails(ErrorInfoSchema).length > 0) return undefined;
  const url = new URL(/^https?:\/\//.test(address) ? address : `http://${address}`);
  const codes = causesOf(thrown).map(({ code = "" }) => code);
  if (codes.some((code) => untrusted.test(code))) return "untrusted";
  if (url.protocol === "https:" && codes.some((code) => wrongVersion.test(code))) return "plain";
  if ((await statusAt(url, "/livez")) === 200) return "ops";
  if ((await statusAt(url, "/health")) === 200) return "data";
  return url.protocol === "http:" && (await speaksTls(url)) ? "tls" : undefined;
}

const wrongVersion = /^(?:ERR_SSL_|EPROTO)/;
const untrusted = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER|ERR_TLS_/;

/** Says what is wrong and what to type. */
export function wordsForWrongDoor(
  door: WrongDoor,
  address: string,
): { readonly message: string; readonly note: string } {
  const other = (scheme: string) => `${scheme}://${address.replace(/^https?:\/\//, "")}`;
  switch (door) {
    case "plain":
      return { message: `${address} does not speak TLS`, note: `use ${other("http")}` };
    case "tls":
      return { message: `${address} requires TLS`, note: `use ${other("https")}` };
    case "untrusted":
      return {
        message: `the certificate of ${address} is not trusted`,
        note: "set NODE_EXTRA_CA_CERTS to the PEM file of the authority that issued it",
      };
    default:
      return {
        message: `${address} is Latchkey's ${door} listener, not its control plane`,
        note: "set --address or LATCHKEY_CONTROL to the address of LATCHKEY_CONTROL_LISTEN, by default http://127.0.0.1:3004",
      };
  }
}

function causesOf(error: Error): readonly NodeJS.ErrnoException[] {
  return error.cause instanceof Error ? [error.cause, ...causesOf(error.cause)] : [];
}

/** Sends no key, and uses only the status of the response. */
function statusAt(url: URL, path: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const { request: send } = url.protocol === "https:" ? https : http;
    const options = {
      agent: false,
      timeout: withinMs,
      ...(url.protocol === "https:" && { rejectUnauthorized: false }),
    };
    const request = send(new URL(path, url), options, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve(undefined)).end();
    request.on("close", () => resolve(undefined));
  });
}

function speaksTls({ hostname, port }: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const host = hostname.replace(/^\[|\]$/g, "");
    const socket = tls.connect({ host, port: Number(port || 80), rejectUnauthorized: false, timeout: withinMs });
    const end = (speaks: boolean) => {
      resolve(speaks);
      socket.destroy();
    };
    socket.once("secureConnect", () => end(true)).once("timeout", () => end(false));
    socket.on("error", () => end(false));
  });
}
