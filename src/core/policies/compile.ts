import { CelScalar, type CelType, type CelValue, celList, celUint, listType, mapType, type parse } from "@bufbuild/cel";
import { compileIndex, compileSelect } from "./compile-access.ts";
import { compileCall } from "./compile-call.ts";
import { compileMacro } from "./compile-macro.ts";
import { readVariable } from "./facts.ts";
import { type Expression, planNode } from "./library.ts";
import { policyLimits } from "./limits.ts";
import * as types from "./static-type.ts";
import { libraryStep, strictTerm } from "./strict-term.ts";
import { ConditionMistake, constantTerm, type Term, type TermCompiler } from "./term.ts";
import { EvaluationFailure } from "./values.ts";
import { isVariable, type PolicyVariable, variableFields, variables } from "./variables.ts";

type ParsedCondition = ReturnType<typeof parse>;
type ExpressionOf<K extends Expression["exprKind"]["case"]> = Extract<Expression["exprKind"], { case: K }>["value"];

interface Local {
  readonly name: string;
  readonly type: types.StaticType;
  readonly slot: number;
}

/** Names of types, which are values in CEL: `type(request.body) == map`. */
const typeNames: ReadonlyMap<string, CelType> = new Map<string, CelType>([
  ["int", CelScalar.INT],
  ["uint", CelScalar.UINT],
  ["double", CelScalar.DOUBLE],
  ["bool", CelScalar.BOOL],
  ["string", CelScalar.STRING],
  ["bytes", CelScalar.BYTES],
  ["null_type", CelScalar.NULL],
  ["type", CelScalar.TYPE],
  ["list", listType(CelScalar.DYN)],
  ["map", mapType(CelScalar.DYN, CelScalar.DYN)],
]);

/** Compiles a parsed condition to closures, and checks names and types. Throws a ConditionMistake. */
export class ExpressionCompiler implements TermCompiler {
  /** Variables that the condition reads. */
  readonly used = new Set<PolicyVariable>();
  readonly #positions: Readonly<Record<string, number>>;
  readonly #locals: Local[] = [];
  #nodes = 0;
  #depth = 0;

  constructor({ sourceInfo }: ParsedCondition) {
    this.#positions = sourceInfo?.positions ?? {};
  }

  offsetOf({ id }: Expression): number {
    return this.#positions[String(id)] ?? 0;
  }

  compile(expression: Expression | undefined): Term {
    if (expression === undefined) throw new ConditionMistake("the expression is not complete", 0);
    this.#nodes += 1;
    if (this.#nodes > policyLimits.nodes || this.#depth >= policyLimits.depth) {
      throw new ConditionMistake("the condition is too large; use several policies", this.offsetOf(expression));
    }
    this.#depth += 1;
    const term = this.#compileKind(expression);
    this.#depth -= 1;
    return term;
  }

  #compileKind(expression: Expression): Term {
    const { exprKind } = expression;
    switch (exprKind.case) {
      case "constExpr":
        return this.#constant(expression, exprKind.value);
      case "identExpr":
        return this.#identifier(expression, exprKind.value.name);
      case "selectExpr": {
        const { operand, field, testOnly } = exprKind.value;
        const variable = this.#variableAt(operand, field);
        if (variable === undefined) return compileSelect(this, expression, { operand, field, testOnly });
        if (testOnly) throw new ConditionMistake(hasOfVariable(variable), this.offsetOf(expression));
        return this.#variable(variable);
      }
      case "callExpr":
        return exprKind.value.function === "_[_]"
          ? compileIndex(this, expression, exprKind.value.args)
          : compileCall(this, expression, exprKind.value);
      case "listExpr":
        return this.#list(exprKind.value);
      case "structExpr":
        return this.#struct(expression, exprKind.value);
      case "comprehensionExpr":
        return compileMacro(this, expression, exprKind.value);
      case undefined:
        throw new ConditionMistake("the expression is not complete", this.offsetOf(expression));
    }
  }

  withLocal<T>({ name, type }: Pick<Local, "name" | "type">, run: (slot: number) => T): T {
    const slot = this.#locals.length;
    if (slot >= policyLimits.nestedMacros) {
      throw new ConditionMistake(`macros must be nested at most ${policyLimits.nestedMacros} deep`, 0);
    }
    if (variableFields.has(name) || typeNames.has(name)) {
      throw new ConditionMistake(`\`${name}\` must not be the variable of a macro; use another name`, 0);
    }
    this.#locals.push({ name, type, slot });
    const result = run(slot);
    this.#locals.pop();
    return result;
  }

  #constant(expression: Expression, { constantKind }: ExpressionOf<"constExpr">): Term {
    switch (constantKind.case) {
      case "boolValue":
        return constantTerm(types.bool, constantKind.value);
      case "stringValue":
        return constantTerm(types.string, constantKind.value);
      case "int64Value":
        return constantTerm(types.int, this.#within(expression, constantKind.value, -(2n ** 63n), 2n ** 63n - 1n));
      case "uint64Value":
        return constantTerm(types.uint, celUint(this.#within(expression, constantKind.value, 0n, 2n ** 64n - 1n)));
      case "doubleValue":
        return constantTerm(types.double, constantKind.value);
      case "bytesValue":
        return constantTerm(types.bytes, constantKind.value);
      case "nullValue":
        return constantTerm(types.nullType, null);
      case "durationValue":
      case "timestampValue":
      case undefined:
        throw new ConditionMistake("the constant is not valid", this.offsetOf(expression));
    }
  }

  #within(expression: Expression, value: bigint, least: bigint, most: bigint): bigint {
    if (value >= least && value <= most) return value;
    throw new ConditionMistake("the number must fit in 64 bits", this.offsetOf(expression));
  }

  #identifier(expression: Expression, name: string): Term {
    const local = this.#localOf(name);
    if (local !== undefined) {
      const { slot, type } = local;
      return { type, run: ({ locals }) => locals[slot] ?? noValue, nodes: 1 };
    }
    const type = typeNames.get(name);
    if (type !== undefined) return constantTerm(types.typeType, type);
    const fields = variableFields.get(name);
    const offset = this.offsetOf(expression);
    if (fields !== undefined) {
      throw new ConditionMistake(`name a field: ${fields.map((field) => `\`${name}.${field}\``).join(", ")}`, offset);
    }
    const roots = [...variableFields.keys()].map((root) => `\`${root}\``).join(", ");
    throw new ConditionMistake(`unknown variable \`${name}\`; there are ${roots}`, offset);
  }

  #localOf(name: string): Local | undefined {
    return this.#locals.findLast((local) => local.name === name);
  }

  /** Returns the variable that `request.path` names; undefined for a field of any other value. */
  #variableAt(operand: Expression | undefined, field: string): PolicyVariable | undefined {
    if (operand?.exprKind.case !== "identExpr") return undefined;
    const root = operand.exprKind.value.name;
    const fields = this.#localOf(root) === undefined ? variableFields.get(root) : undefined;
    if (fields === undefined) return undefined;
    const name = `${root}.${field}`;
    if (isVariable(name)) return name;
    const known = fields.map((one) => `\`${one}\``).join(", ");
    throw new ConditionMistake(`\`${root}\` has no field \`${field}\`; it has ${known}`, this.offsetOf(operand));
  }

  #variable(name: PolicyVariable): Term {
    this.used.add(name);
    return { type: variables[name].type, run: readVariable[name], nodes: 1 };
  }

  #list({ elements }: ExpressionOf<"listExpr">): Term {
    const terms = elements.map((element) => this.compile(element));
    const types_ = terms.map(({ type }) => type);
    const type = types.listOf(types_.length === 0 ? types.dyn : types_.reduce(types.joinTypes));
    const nodes = terms.reduce((sum, term) => sum + term.nodes, 1);
    const constants = terms.flatMap(({ constant }) => (constant === undefined ? [] : [constant.value]));
    if (constants.length === terms.length) return constantTerm(type, celList(constants));
    const run: Term["run"] = (evaluation) => {
      const values: CelValue[] = [];
      for (const term of terms) {
        const value = term.run(evaluation);
        if (value instanceof EvaluationFailure) return value;
        values.push(value);
      }
      return celList(values);
    };
    return { type, run, nodes };
  }

  /** A map, or a message of a well-known type: made by the library, from the values of keys and fields. */
  #struct(expression: Expression, struct: ExpressionOf<"structExpr">): Term {
    const terms: Term[] = [];
    const keyTypes: types.StaticType[] = [];
    const valueTypes: types.StaticType[] = [];
    for (const { keyKind, value } of struct.entries) {
      if (keyKind.case === "mapKey") {
        const key = this.compile(keyKind.value);
        this.#requireKey(keyKind.value, key);
        terms.push(key);
        keyTypes.push(key.type);
      }
      const term = this.compile(value);
      terms.push(term);
      valueTypes.push(term.type);
    }
    const isMap = struct.messageName === "";
    const build = planNode((operand) => {
      let next = 0;
      const entries = struct.entries.map((entry) =>
        entry.keyKind.case === "mapKey"
          ? { ...entry, keyKind: { case: "mapKey" as const, value: operand(next++) }, value: operand(next++) }
          : { ...entry, value: operand(next++) },
      );
      return { case: "structExpr", value: { ...struct, entries } };
    });
    const joined = (all: readonly types.StaticType[]) =>
      all.length === 0 ? types.dyn : all.reduce(types.joinTypes, all[0] ?? types.dyn);
    const type = isMap ? types.mapOf(joined(keyTypes), joined(valueTypes)) : types.dyn;
    return strictTerm(this, { expression, type, terms, apply: build, steps: libraryStep });
  }

  #requireKey(expression: Expression, { type }: Term): void {
    if (types.isDyn(type) || ["bool", "int", "uint", "string", "double"].includes(types.nameOf(type))) return;
    throw new ConditionMistake(
      `a key of a map must be a string, a bool or an integer, not ${types.describeType(type)}`,
      this.offsetOf(expression),
    );
  }
}

const noValue = new EvaluationFailure("the variable has no value");

const hasOfVariable = (name: PolicyVariable): string =>
  name === "request.body"
    ? "`has(request.body)` must be `request.body != null`"
    : `\`${name}\` is always set; compare its value`;
