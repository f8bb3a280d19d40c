import type { Random } from "./random.ts";

const words = ["a", "b", "GET", "POST", "x-a", "github", "ada", "/v1/a", "repo", "", "é𝕏"];
const fields = ["a", "b", "list", "deep", "text", "flag"];
const patterns = ["^a+$", "b", "^/v[0-9]+/", "(?i)GET|post", "[^a-z]", "\\\\d{2,3}"];
const quoted = (random: Random) => JSON.stringify(random.of(words));

interface Scope {
  /** Variables of macros: name and type. */
  readonly locals: readonly { readonly name: string; readonly type: "string" | "dyn" | "int" }[];
  readonly loops: number;
}
const outside: Scope = { locals: [], loops: 0 };

/** Writes a random condition. Most of them compile; some have errors when they are evaluated. */
export const randomCondition = (random: Random, depth = 4): string => boolOf(random, depth, outside);

function boolOf(random: Random, depth: number, scope: Scope): string {
  if (depth <= 0) return leafOf(random, scope);
  const bool = () => boolOf(random, depth - 1, scope);
  const string = () => stringOf(random, depth - 1, scope);
  const int = () => intOf(random, depth - 1, scope);
  const dyn = () => dynOf(random, depth - 1, scope);
  const order = () => random.of(["<", "<=", ">", ">="]);
  const equality = () => random.of(["==", "!="]);
  return random.of([
    () => `(${bool()} && ${bool()})`,
    () => `(${bool()} || ${bool()})`,
    () => `(${bool()} && ${bool()} && ${bool()})`,
    () => `!(${bool()})`,
    () => `(${bool()} ? ${bool()} : ${bool()})`,
    () => `${string()} ${equality()} ${string()}`,
    () => `${string()} ${order()} ${string()}`,
    () => `${int()} ${random.of(["==", "!=", "<", "<=", ">", ">="])} ${int()}`,
    () => `${dyn()} ${equality()} ${dyn()}`,
    () => `${dyn()} ${order()} ${random.of([int, string, dyn])()}`,
    () => `${string()}.${random.of(["startsWith", "endsWith", "contains"])}(${string()})`,
    () => `${random.of([string, dyn])()}.matches("${random.of(patterns)}")`,
    () => `${dyn()}.${random.of(["startsWith", "contains"])}(${string()})`,
    () => `${string()} in [${string()}, ${quoted(random)}]`,
    () => `${random.of([string, dyn])()} in ${random.of(["request.headers", "request.query", "request.body"])}`,
    () => `${random.of([int, dyn])()} in ${dyn()}`,
    () => `has(request.headers.${random.of(["a", "accept", "b"])})`,
    () => `has(request.body.${random.of(fields)})`,
    () => `has(request.body.deep.${random.of(fields)})`,
    () => macroOf(random, depth - 1, scope),
    () => `request.time ${order()} timestamp("${random.of(["2026-01-01T00:00:00Z", "2026-06-01T12:30:00.5Z"])}")`,
    () =>
      `request.time - timestamp("2026-01-01T00:00:00Z") ${order()} duration("${random.of(["1h", "300ms", "90m"])}")`,
    () => dyn(),
    () => `type(${dyn()}) == ${random.of(["string", "int", "double", "map", "list", "bool", "null_type"])}`,
    () => `[${string()}, ${string()}] == [${string()}, ${string()}]`,
    () => `{${quoted(random)}: ${int()}} == {${quoted(random)}: ${int()}}`,
  ])();
}

function leafOf(random: Random, scope: Scope): string {
  return random.of([
    () => `request.method == ${quoted(random)}`,
    () => `request.method in ["GET", "POST"]`,
    () => `integration.key == ${quoted(random)}`,
    () => `has(request.headers.${random.of(["a", "b"])})`,
    () => random.of(["true", "false"]),
    () => `${stringOf(random, 0, scope)} == ${stringOf(random, 0, scope)}`,
  ])();
}

function stringOf(random: Random, depth: number, scope: Scope): string {
  const local = scope.locals.find(({ type }) => type === "string");
  if (local !== undefined && random.below(3) === 0) return local.name;
  const shallow = [
    () => quoted(random),
    () => random.of(["request.method", "request.path", "request.raw_path", "request.host", "caller.key"]),
    () => random.of(["integration.key", "connection.id", "caller.session", "integration.environment"]),
    () => `request.headers["${random.of(["a", "b", "accept"])}"]`,
    () => `connection.tags.${random.of(["a", "b"])}`,
    () => `request.query.${random.of(["a", "b"])}[${random.below(3)}]`,
  ];
  if (depth <= 0) return random.of(shallow)();
  return random.of([
    ...shallow,
    () => `(${stringOf(random, depth - 1, scope)} + ${stringOf(random, depth - 1, scope)})`,
    () => `string(${intOf(random, depth - 1, scope)})`,
    () => `(${boolOf(random, depth - 1, scope)} ? ${stringOf(random, depth - 1, scope)} : ${quoted(random)})`,
    () => `[${stringOf(random, depth - 1, scope)}, ${quoted(random)}][${random.below(3)}]`,
  ])();
}

function intOf(random: Random, depth: number, scope: Scope): string {
  const shallow = [
    () => String(random.below(5) - 1),
    () => "request.size",
    () => `size(${stringOf(random, 0, scope)})`,
    () => random.of(["request.headers.size()", "size(caller.scopes)", "request.query.size()"]),
    () => `request.time.${random.of(["getHours", "getDayOfWeek", "getFullYear", "getDayOfYear"])}()`,
    () => `request.time.getHours("${random.of(["Europe/Berlin", "+05:30", "UTC", "Nowhere/Else"])}")`,
  ];
  if (depth <= 0) return random.of(shallow)();
  return random.of([
    ...shallow,
    () => `(${intOf(random, depth - 1, scope)} ${random.of(["+", "-", "*"])} ${intOf(random, depth - 1, scope)})`,
    () => `(${intOf(random, depth - 1, scope)} ${random.of(["/", "%"])} request.size)`,
    () => `int(${stringOf(random, depth - 1, scope)})`,
  ])();
}

function dynOf(random: Random, depth: number, scope: Scope): string {
  const local = scope.locals.find(({ type }) => type === "dyn");
  if (local !== undefined && random.below(2) === 0) return local.name;
  const shallow = [
    () => `request.body.${random.of(fields)}`,
    () => `request.body.deep.${random.of(fields)}`,
    () => `request.body.list[${random.below(4)}]`,
    () => `connection.metadata.${random.of(fields)}`,
    () => `dyn(${intOf(random, 0, scope)})`,
    () => random.of(["1.0", "2.5", "null", "true", "1u", 'b"a"']),
  ];
  if (depth <= 0) return random.of(shallow)();
  return random.of([...shallow, () => `request.body[${stringOf(random, depth - 1, scope)}]`, () => "request.body"])();
}

function macroOf(random: Random, depth: number, scope: Scope): string {
  if (scope.loops === 2) return "true";
  const name = `v${scope.loops}`;
  const [range, type] = random.of([
    ["caller.scopes", "string"],
    ["request.query", "string"],
    ["connection.tags", "string"],
    ["request.body.list", "dyn"],
    ["request.body.deep", "dyn"],
    ["request.body", "dyn"],
  ] as const);
  const inner: Scope = { locals: [{ name, type }, ...scope.locals], loops: scope.loops + 1 };
  const test = boolOf(random, depth, inner);
  const element = random.of([() => stringOf(random, depth, inner), () => dynOf(random, depth, inner)])();
  return random.of([
    () => `${range}.exists(${name}, ${test})`,
    () => `${range}.all(${name}, ${test})`,
    () => `${range}.exists_one(${name}, ${test})`,
    () => `size(${range}.filter(${name}, ${test})) == ${random.below(3)}`,
    () => `${range}.map(${name}, ${element}) == [${quoted(random)}]`,
    () => `size(${range}.map(${name}, ${test}, ${element})) > ${random.below(2)}`,
  ])();
}
