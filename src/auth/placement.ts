import type { ApiKeyRules } from "../gen/latchkey/v1/provider_pb.ts";
import { requireHeaderValue } from "./header-value.ts";
import { type AttachedNames, CannotAttach, type FixedAttachment } from "./scheme.ts";

type KeyPlacement =
  | { readonly header: string; readonly prefix: string; readonly query?: undefined }
  | { readonly query: string; readonly header?: undefined };

/** A bearer token (RFC 6750, section 2.1) unless the rules say otherwise. */
function placeOf(rules: ApiKeyRules | undefined): KeyPlacement {
  const { header = "", query = "", prefix = "" } = rules ?? {};
  if (header !== "") return { header, prefix };
  if (query !== "") return { query };
  return { header: "authorization", prefix: prefix === "" ? "Bearer " : prefix };
}

interface Secret {
  /** What it is, for an operator: "the access token". */
  readonly what: string;
  readonly value: string;
}

/** A secret that is sent as it is, where the provider wants it. */
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
