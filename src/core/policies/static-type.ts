import { CelScalar, type CelType } from "@bufbuild/cel";

/** A type as the check of a condition knows it; `dyn` is known only when a request comes. */
export type StaticType =
  | { readonly kind: "simple"; readonly name: string }
  | { readonly kind: "list"; readonly element: StaticType }
  | { readonly kind: "map"; readonly key: StaticType; readonly value: StaticType };

const simple = (name: string): StaticType => ({ kind: "simple", name });

export const dyn = simple("dyn");
export const bool = simple("bool");
export const int = simple("int");
export const uint = simple("uint");
export const double = simple("double");
export const string = simple("string");
export const bytes = simple("bytes");
export const nullType = simple("null_type");
export const typeType = simple("type");
export const timestamp = simple("google.protobuf.Timestamp");
export const duration = simple("google.protobuf.Duration");
export const listOf = (element: StaticType): StaticType => ({ kind: "list", element });
export const mapOf = (key: StaticType, value: StaticType): StaticType => ({ kind: "map", key, value });

export const simpleType = simple;

const numbers = new Set(["int", "uint", "double"]);

export const isDyn = (type: StaticType): boolean => type === dyn || (type.kind === "simple" && type.name === "dyn");
export const isNamed = (type: StaticType, name: string): boolean => nameOf(type) === name;
export const isNumber = (type: StaticType): boolean => numbers.has(nameOf(type));

export const nameOf = (type: StaticType): string => (type.kind === "simple" ? type.name : type.kind);

/** Returns the type in the words of documentation and messages. */
export function describeType(type: StaticType): string {
  if (type.kind === "list") return `list(${describeType(type.element)})`;
  if (type.kind === "map") return `map(${describeType(type.key)}, ${describeType(type.value)})`;
  return type.name.replace("google.protobuf.", "").toLowerCase();
}

/** Returns whether values of the two types can be equal at all. */
export function isComparable(left: StaticType, right: StaticType): boolean {
  if (isDyn(left) || isDyn(right)) return true;
  if (isNumber(left) && isNumber(right)) return true;
  if (left.kind === "list" && right.kind === "list") return isComparable(left.element, right.element);
  if (left.kind === "map" && right.kind === "map") {
    return isComparable(left.key, right.key) && isComparable(left.value, right.value);
  }
  return nameOf(left) === nameOf(right);
}

/** Returns the type that both branches have, or `dyn`. */
export function joinTypes(left: StaticType, right: StaticType): StaticType {
  if (left.kind === "list" && right.kind === "list") return listOf(joinTypes(left.element, right.element));
  if (left.kind === "map" && right.kind === "map") {
    return mapOf(joinTypes(left.key, right.key), joinTypes(left.value, right.value));
  }
  return nameOf(left) === nameOf(right) ? left : dyn;
}

/** Translates a type of the library's function table. */
export function staticTypeOf(type: CelType): StaticType {
  if (type.kind === "list") return listOf(staticTypeOf(type.element));
  if (type.kind === "map") return mapOf(staticTypeOf(type.key), staticTypeOf(type.value));
  return type === CelScalar.DYN ? dyn : simple(type.name);
}
