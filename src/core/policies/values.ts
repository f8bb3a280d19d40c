import { type CelResult, type CelValue, celError, isCelError, isCelList, isCelMap } from "@bufbuild/cel";
import { isReflectMessage } from "@bufbuild/protobuf/reflect";
import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";

/** An error of a condition. A class of our own: the library's errors collect a stack, which takes microseconds. */
export class EvaluationFailure {
  readonly message: string;
  /** The value exists, and is not known here: a recorded request lacks it. */
  readonly isUnknown: boolean;

  constructor(message: string, { isUnknown = false }: { readonly isUnknown?: boolean } = {}) {
    this.message = message;
    this.isUnknown = isUnknown;
  }
}

/** The result of an expression. Values are those of `@bufbuild/cel`, so that its functions can be called with them. */
export type EvaluationResult = CelValue | EvaluationFailure;

export const resultOf = (result: CelResult): EvaluationResult =>
  isCelError(result) ? new EvaluationFailure(result.message) : result;

export const libraryResultOf = (result: EvaluationResult): CelResult =>
  result instanceof EvaluationFailure ? celError(result.message) : result;

type TimeMessage = Timestamp | Duration;

/** Returns the message of a timestamp or a duration; undefined for any other value. */
export function timeMessageOf(value: EvaluationResult): TimeMessage | undefined {
  if (typeof value !== "object" || !isReflectMessage(value)) return undefined;
  const { message } = value;
  return isTimeMessage(message) ? message : undefined;
}

const isTimeMessage = (message: { readonly $typeName: string }): message is TimeMessage =>
  message.$typeName === "google.protobuf.Timestamp" || message.$typeName === "google.protobuf.Duration";

export function compareTimes(left: TimeMessage, right: TimeMessage): number {
  if (left.seconds !== right.seconds) return left.seconds < right.seconds ? -1 : 1;
  return left.nanos - right.nanos;
}

/** Returns whether two simple values are equal; undefined if either is none, and the library must compare them. */
export function equalSimple(left: CelValue, right: CelValue): boolean | undefined {
  if (left === right && typeof left !== "object") return true;
  const kind = typeof left;
  const other = typeof right;
  if (kind === "object" || other === "object") return left === null || right === null ? left === right : undefined;
  // Numbers are equal across types: 1 == 1.0.
  if ((kind === "number" && other === "bigint") || (kind === "bigint" && other === "number")) {
    // biome-ignore lint/suspicious/noDoubleEquals: the only operator that compares a bigint with a number exactly.
    return left == right;
  }
  return left === right;
}

/** Returns the size of a value in steps of evaluation: comparing or searching it takes as long as so many nodes. */
export function stepsFor(value: EvaluationResult): number {
  if (typeof value === "string") return value.length >> 6;
  if (typeof value !== "object" || value === null) return 0;
  if (isCelList(value) || isCelMap(value)) return value.size;
  return value instanceof Uint8Array ? value.length >> 6 : 0;
}

/** A value that is not known may be anything; an error is certain. */
export const worseFailure = (first: EvaluationFailure | undefined, second: EvaluationFailure): EvaluationFailure =>
  first === undefined || second.isUnknown ? second : first;
