import type { ApiKeyRules } from "../gen/latchkey/v1/provider_pb.ts";
import { requireHeaderValue } from "./header-value.ts";
import { type AttachedNames, CannotAttach, type FixedAttachment } from "./scheme.ts";

type KeyPlacement =
  | { readonly header: string; readonly prefix: string; readonly query?: undefined }
  | { readonly query: string; readonly header?: undefined };

/** The default is a bearer token (RFC 6750, section 2.1). */
function placeOf(rules: ApiKeyRules | undefined): KeyPlacement {
  const { header = "", query = "", prefix = "" } = rules ?? {};
  if (header !== "") return { header, prefix };
  if (query !== "") return { query };
  return { header: "authorization", prefix: prefix === "" ? "Bearer " : prefix };
}

interface Secret {
  /** Name for an operator: "the access token". */
  readonly what: string;
  readonly value: string;
}

/** Places a secret, unchanged, where the provider expects it. */
export function place({ what, value }: Secret, rules: ApiKeyRules | undefined): FixedAttachment {
  if (value === "") throw new CannotAttach(`${what} is missing`);
  const at = placeOf(rules);
  if (at.query !== undefined) return { kind: "fixed", headers: [], query: [[at.query, value]] };
  const headers = [[at.header, requireHeaderValue(at.prefix + value, what)]] as const;
  return { kind: "fixed", headers, query: [] };
}

export function placedNames(rules: ApiKeyRules | undefined): AttachedNames {
  const at = placeOf(rules);
  return at.query === undefined
    ? { headers: [at.header.toLowerCase()], query: [] }
    : { headers: [], query: [at.query] };
}
