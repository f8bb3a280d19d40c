/** The pages of the dashboard, from its own table: a page that is added is tested without anyone thinking of it. */
import { fileURLToPath } from "node:url";

interface KnownRoute {
  readonly path: string;
  readonly title: string;
}

/** A page with an address to see it at. */
export interface SamplePage {
  /** Such as `connections-integration-id`. */
  readonly name: string;
  /** The path below `/ui`. */
  readonly path: string;
  readonly pattern: string;
}

/** Addresses of pages that show one thing, by their patterns without the names of parameters: `/logs/:`. */
export type SamplePaths = Readonly<Record<string, string>>;

/** Returns every page of the dashboard. A page with parameters must have a sample. */
export async function allPages(samples: SamplePaths): Promise<readonly SamplePage[]> {
  // By its path: the types of the dashboard are those of a browser.
  const table = fileURLToPath(new URL("../../../src/dashboard/shell/routes.ts", import.meta.url));
  const { routes } = (await import(table)) as { readonly routes: readonly KnownRoute[] };
  return routes.map(({ path: pattern }) => {
    const path = pattern.includes(":") ? samples[pattern.replaceAll(/:[^/]+/g, ":")] : pattern;
    if (path === undefined) throw new Error(`add a sample of the page ${pattern} to test/support/dashboard`);
    return { name: pattern.replaceAll(/[/:]+/g, "-").replace(/^-/, "") || "overview", path, pattern };
  });
}
