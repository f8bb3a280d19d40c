import type { JsonValue } from "@bufbuild/protobuf";
import type { PaginationRules } from "../../../gen/latchkey/v1/provider_pb.ts";

/**
 * Returns the rules under the peer's names. The peer has no name for paging by the last item: such a script passes its
 * own rules.
 */
export function paginationJson(rules: PaginationRules | undefined): JsonValue {
  if (rules === undefined || rules.kind === "" || rules.lastItem !== "") return null;
  const { kind, items, next, parameter, limitParameter, limit } = rules;
  const named = {
    response_path: items,
    limit_name_in_request: limitParameter,
    ...(kind === "cursor" && { cursor_path_in_response: next, cursor_name_in_request: parameter }),
    ...(kind === "link" &&
      (next === "" ? { link_rel_in_response_header: "next" } : { link_path_in_response_body: next })),
    ...(kind === "offset" && { offset_name_in_request: parameter }),
  };
  const used = Object.entries(named).filter(([, value]) => value !== "");
  return { type: kind, ...(limit > 0 && { limit }), ...Object.fromEntries(used) };
}
