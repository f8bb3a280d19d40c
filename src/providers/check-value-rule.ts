import type { Mistake } from "../base/fault.ts";
import type { ValueRule } from "../gen/latchkey/v1/provider_pb.ts";
import { mistake } from "./mistake.ts";

/** Checks a header name, which is kept in lower case. */
export const checkHeaderName = (name: string, path: string): Mistake[] =>
  /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(name) ? [] : [mistake(path, "must be a header name in lower case")];

/** Reports whether exactly one of several texts is set. */
export const isOneSet = (places: readonly string[]): boolean => places.filter((place) => place !== "").length === 1;

export function checkValueRule({ header, body, query, form }: ValueRule, path: string): Mistake[] {
  return [
    ...(isOneSet([header, body, query, form])
      ? []
      : [mistake(path, "must name exactly one of header, body, query and form")]),
    ...(header === "" ? [] : checkHeaderName(header, `${path}.header`)),
  ];
}
