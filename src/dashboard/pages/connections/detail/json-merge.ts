import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** A key that two people changed to different values. */
export interface JsonConflict {
  readonly key: string;
  /** Undefined: the key was removed. */
  readonly mine: JsonValue | undefined;
  readonly theirs: JsonValue | undefined;
}

export interface JsonMerge {
  /** Both changes together; where they disagree, the choice counts. */
  readonly merged: JsonObject;
  readonly conflicts: readonly JsonConflict[];
}

interface JsonVersions {
  /** What both began from. */
  readonly base: JsonObject;
  readonly mine: JsonObject;
  readonly theirs: JsonObject;
  /** Keys for which their value is taken. */
  readonly takesTheirs: readonly string[];
}

const isSame = (one: JsonValue | undefined, other: JsonValue | undefined): boolean => textOf(one) === textOf(other);

/** Keys in one order, so that equal objects have equal texts. */
const textOf = (value: JsonValue | undefined): string =>
  value === undefined
    ? ""
    : JSON.stringify(value, (_, part: unknown) =>
        typeof part === "object" && part !== null && !Array.isArray(part)
          ? Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)))
          : part,
      );

/** Merges two changes of one object, key by key. */
export function mergeJson({ base, mine, theirs, takesTheirs }: JsonVersions): JsonMerge {
  const merged: [string, JsonValue][] = [];
  const conflicts: JsonConflict[] = [];
  for (const key of new Set([...Object.keys(theirs), ...Object.keys(mine)])) {
    const [before, own, other] = [base, mine, theirs].map((one) => (Object.hasOwn(one, key) ? one[key] : undefined));
    const isConflict = !isSame(own, other) && !isSame(own, before) && !isSame(other, before);
    if (isConflict) conflicts.push({ key, mine: own, theirs: other });
    const isMine = isConflict ? !takesTheirs.includes(key) : !isSame(own, before);
    const value = isMine ? own : other;
    if (value !== undefined) merged.push([key, value]);
  }
  return { merged: Object.fromEntries(merged), conflicts };
}
