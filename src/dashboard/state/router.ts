/** The address of the page is the state of the page: every filter is in it, and reload and Back lead to the same. */
import { signal } from "@preact/signals";

const base = "/ui";

export interface PageAddress {
  /** The path below `/ui`, such as `/connections`. */
  readonly path: string;
  readonly query: URLSearchParams;
}

const read = (): PageAddress => ({
  path: window.location.pathname.slice(base.length).replace(/\/+$/, "") || "/",
  query: new URLSearchParams(window.location.search),
});

export const address = signal<PageAddress>(read());
window.addEventListener("popstate", () => {
  address.value = read();
});

/** Returns the link of a page. The environment goes along; other filters go only if named. */
export function linkTo(path: string, query: Readonly<Record<string, string | undefined>> = {}): string {
  const all = new URLSearchParams();
  const env = address.value.query.get("env");
  if (env !== null) all.set("env", env);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "") all.delete(name);
    else all.set(name, value);
  }
  const text = all.toString();
  return `${base}${path === "/" ? "/" : path}${text === "" ? "" : `?${text}`}`;
}

/** Joins path segments; each may hold any character. */
export const pathOf = (...segments: readonly string[]): string =>
  segments.map((segment) => `/${encodeURIComponent(segment)}`).join("");

export function navigate(link: string): void {
  if (link === currentLink()) return;
  window.history.pushState(undefined, "", link);
  address.value = read();
  window.scrollTo(0, 0);
}

const currentLink = () => `${window.location.pathname}${window.location.search}`;

/** Changes filters of the present page. An empty value removes one. Back skips filters unless `push` is set. */
export function setQuery(changes: Readonly<Record<string, string | undefined>>, { push = false } = {}): void {
  const query = new URLSearchParams(address.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  const link = `${window.location.pathname}${text === "" ? "" : `?${text}`}`;
  if (link === currentLink()) return;
  if (push) window.history.pushState(undefined, "", link);
  else window.history.replaceState(undefined, "", link);
  address.value = read();
}

/** Reads a filter; empty if not set. */
export const queryValue = (name: string): string => address.value.query.get(name) ?? "";

/** Follows links to our own pages without loading the page again. */
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!(link instanceof HTMLAnchorElement) || link.target !== "" || link.hasAttribute("download")) return;
  const to = new URL(link.href);
  if (to.origin !== window.location.origin || !to.pathname.startsWith(`${base}/`)) return;
  event.preventDefault();
  navigate(`${to.pathname}${to.search}`);
});
