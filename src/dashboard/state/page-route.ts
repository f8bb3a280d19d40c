import type { ComponentType } from "preact";

/** The values of a path's parameters, decoded. */
export type PathValues = Readonly<Record<string, string>>;

export interface PageProps {
  readonly values: PathValues;
}

/** A page and its address. The code of a page is loaded when it is first shown. */
export interface PageRoute {
  /** Such as `/connections/:integration/:id`. */
  readonly path: string;
  /** The title of the browser's tab, and of the page's name in lists. */
  readonly title: string;
  readonly load: () => Promise<ComponentType<PageProps>>;
}

/** Returns the values of the parameters if the path fits the pattern. */
export function matchPath(pattern: string, path: string): PathValues | undefined {
  const [wanted, given] = [pattern.split("/"), path.split("/")];
  if (wanted.length !== given.length) return undefined;
  const values: Record<string, string> = {};
  for (const [i, part] of wanted.entries()) {
    const text = given[i] ?? "";
    if (!part.startsWith(":")) {
      if (part !== text) return undefined;
      continue;
    }
    try {
      values[part.slice(1)] = decodeURIComponent(text);
    } catch {
      /* A broken escape names no page. */
      return undefined;
    }
  }
  return values;
}
