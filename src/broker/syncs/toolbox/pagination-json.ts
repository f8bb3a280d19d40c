import type { JsonValue } from "@bufbuild/protobuf";
import type { PaginationRules } from "../../../gen/latchkey/v1/provider_pb.ts";

/** Returns the rules under the names of the SDK's `paginate`. */
export function paginationJson(rules: PaginationRules | undefined): JsonValue {
  if (rules === undefined || rules.kind === "") return null;
  const { kind, items, next, parameter, limitParameter, limit, lastItem, more } = rules;
  const named = {
    response_path: items,
    limit_name_in_request: limitParameter,
    has_more_path: more,
    ...(kind === "cursor" && {
      cursor_path_in_response: next,
      cursor_path_in_last_item: lastItem,
      cursor_name_in_request: parameter,
    }),
    ...(kind === "link" &&
      (next === "" ? { link_rel_in_response_header: "next" } : { link_path_in_response_body: next })),
    ...(kind === "offset" && { offset_name_in_request: parameter }),
  };
  const used = Object.entries(named).filter(([, value]) => value !== "");
  return { type: kind, ...(limit > 0 && { limit }), ...Object.fromEntries(used) };
}
