import { type DescMethod, getOption, hasOption } from "@bufbuild/protobuf";
import { type Scope, scope } from "../../gen/latchkey/v1/access_pb.ts";

const known = new WeakMap<DescMethod, { readonly needed: Scope | undefined }>();

/**
 * Returns the scope that a method needs; undefined: it is open to all. Remembered: the library decodes an option again
 * for each question, in 7 µs, and streams are asked each second.
 */
export function scopeOf(method: DescMethod): Scope | undefined {
  const found = known.get(method);
  if (found !== undefined) return found.needed;
  const needed = hasOption(method, scope) ? getOption(method, scope) : undefined;
  known.set(method, { needed });
  return needed;
}
