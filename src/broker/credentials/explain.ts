import { Fault } from "../../base/fault.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import type { Address, Binding } from "../../core/outgoing/binding.ts";
import { credentialFieldNames, outgoing } from "../../core/outgoing/outgoing.ts";
import { mistakeInPath } from "../../core/outgoing/provider-path.ts";
import { refusedAddress } from "../../core/outgoing/refused-address.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Attachments } from "./attachments.ts";
import type { Live } from "./live-connections.ts";

/** Shows how the proxy would send a request, by names and addresses only. Sends nothing. */
export type Explain = (request: RequestToExplain) => Promise<Explanation>;

export interface RequestToExplain {
  readonly ref: ConnectionRef;
  readonly method: string;
  readonly path: string;
  readonly headerNames: readonly string[];
  readonly baseUrlOverride: string;
  /** Name of a further token; empty: the main one. */
  readonly token: string;
}

export interface Explanation {
  readonly url: string;
  readonly provider: string;
  readonly credentialsKind: string;
  readonly headerNames: readonly string[];
  readonly injected: readonly string[];
  readonly dropped: readonly string[];
}

interface ExplainOptions {
  readonly live: Live;
  readonly attachments: Attachments;
}

export function createExplain({ live, attachments }: ExplainOptions): Explain {
  return async ({ ref, method, path: givenPath, headerNames, baseUrlOverride, token }) => {
    const found = await live.get(ref, token === "" ? {} : { token });
    const { attachment, binding } = attachments(found);
    const path = givenPath === "" ? "/" : givenPath;
    const mistake = mistakeInPath(path);
    if (mistake !== undefined) throw new Fault("invalid_path", mistake);
    const address = addressOf(binding, { path, baseUrlOverride });
    const { proxy, name: provider } = found.provider;
    const { head } = outgoing({
      proxied: {
        method: method === "" ? "GET" : method,
        path,
        rawHeaders: headerNames.flatMap((name) => [name, ""]),
        body: "none",
        key: undefined,
      },
      scheme: "https",
      host: new URL(address.origin).host,
      basePath: address.basePath,
      attachment,
      proxy,
      wantsPlain: false,
      content: undefined,
      nowMs: 0,
      nonce: () => "",
    });
    const sent = head
      .split("\r\n")
      .slice(1)
      .flatMap((line) => line.split(":", 1).filter((name) => name !== ""));
    const kept = new Set(sent.map(lowerCase));
    const attached = credentialFieldNames(attachment);
    const parameters = (attachment.query ?? []).map(([name]) => name);
    return {
      url: `${address.origin}${address.basePath}${path}`,
      provider,
      credentialsKind: found.credentials.kind.case ?? "none",
      headerNames: sent,
      injected: [...attached, ...parameters],
      dropped: headerNames.filter((name) => !kept.has(lowerCase(name)) || attached.has(lowerCase(name))),
    };
  };
}

function addressOf(
  binding: Binding,
  { path, baseUrlOverride }: { readonly path: string; readonly baseUrlOverride: string },
): Address {
  const address = baseUrlOverride === "" ? binding.addressFor(path) : binding.addressAt(baseUrlOverride);
  if (address !== undefined) return address;
  throw refusedAddress(binding, baseUrlOverride);
}
