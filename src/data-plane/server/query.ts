import type { Mistake } from "../../base/fault.ts";
import { hintOf } from "../../base/similar.ts";
import { invalid, misspelledIn } from "./mistakes.ts";

/** Reads a query parameter by parameter. `end` reports all mistakes at once. */
export interface QueryReader {
  text(name: string): string | undefined;
  /** All values of a parameter, whether it is repeated or a comma-separated list. */
  list(name: string): readonly string[];
  /** All values of a repeated parameter, with their commas. */
  all(name: string): readonly string[];
  integer(name: string, bounds: { readonly min: number; readonly max: number }): number | undefined;
  /** `fallback` is the value of an absent flag. */
  flag(name: string, fallback?: boolean): boolean;
  /** `name[key]=value`, by key. */
  map(name: string): Readonly<Record<string, string>>;
  refuse(name: string, message: string): void;
  /** Refuses each parameter that was not read. */
  refuseRest(message: string): void;
  /** Throws if there are mistakes. Returns the unread parameters. */
  end(): readonly string[];
}

/** Limits the unknown parameters that are compared with the known ones. */
const maxCompared = 20;

/** `refusesMisspelled`: an unknown parameter that is close to a known one is a mistake. */
export function readQuery(raw: string, refusesMisspelled = false): QueryReader {
  const params = new URLSearchParams(raw);
  const unread = new Set(params.keys());
  const asked = new Set<string>();
  const mistakes: Mistake[] = [];
  const refuse = (name: string, message: string) => void mistakes.push({ path: [name], message });

  function read(name: string): void {
    asked.add(name);
    unread.delete(name);
  }

  function findMisspelled(): Mistake[] {
    const absent = [...asked].filter((name) => !params.has(name));
    return [...unread].slice(0, maxCompared).flatMap((name) => {
      const hint = hintOf(name, absent);
      return hint === undefined ? [] : [{ path: [name], message: `unknown parameter "${name}"; ${hint}` }];
    });
  }

  function text(name: string): string | undefined {
    read(name);
    const values = params.getAll(name);
    if (values.length > 1) refuse(name, "must not be repeated");
    const [value] = values;
    return value === "" ? undefined : value;
  }

  return {
    text,
    refuse,
    refuseRest(message) {
      for (const name of unread) refuse(name, message);
    },
    list(name) {
      read(name);
      return params
        .getAll(name)
        .flatMap((value) => value.split(","))
        .filter((value) => value !== "");
    },
    all(name) {
      read(name);
      return params.getAll(name);
    },
    integer(name, { min, max }) {
      const value = text(name);
      if (value === undefined) return undefined;
      const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
      if (number >= min && number <= max) return number;
      refuse(name, `must be a whole number from ${min} to ${max}`);
      return undefined;
    },
    flag(name, fallback = false) {
      const value = text(name);
      if (value === undefined) return fallback;
      if (value !== "true" && value !== "false") refuse(name, "must be true or false");
      return value === "true";
    },
    map(name) {
      const found = [...new Set(params.keys())].filter((key) => key.startsWith(`${name}[`) && key.endsWith("]"));
      return Object.fromEntries(found.map((key) => [key.slice(name.length + 1, -1), text(key) ?? ""]));
    },
    end() {
      if (unread.size > 0 && (mistakes.length > 0 || refusesMisspelled)) {
        const misspelled = findMisspelled();
        if (misspelled.length > 0) throw misspelledIn("invalid_query_params", misspelled, mistakes);
      }
      if (mistakes.length > 0) throw invalid("invalid_query_params", "the query", mistakes);
      return [...unread];
    },
  };
}
