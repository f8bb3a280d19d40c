/** Keys: one alone, or `g` and then one. They do nothing while the person writes in a field. */
import { signal } from "@preact/signals";
import { linkTo, navigate } from "./router.ts";

export const isHelpOpen = signal(false);

export const goKeys: Readonly<Record<string, readonly [path: string, name: string]>> = {
  o: ["/", "Overview"],
  i: ["/integrations", "Integrations"],
  c: ["/connections", "Connections"],
  n: ["/connect", "Connect"],
  h: ["/channels", "Channels"],
  w: ["/webhooks", "Webhooks"],
  d: ["/destinations", "Destinations"],
  s: ["/scripts", "Scripts"],
  u: ["/runs", "Runs"],
  t: ["/access-sessions", "Access sessions"],
  p: ["/approvals", "Approvals"],
  r: ["/requests", "Requests"],
  l: ["/logs", "Logs"],
  a: ["/audit", "Audit"],
  e: ["/environments", "Environments and keys"],
  y: ["/system", "System"],
};

const goWithinMs = 1_200;
let goUntil = 0;

const isWriting = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return;
  if (isWriting(event.target) || document.querySelector("dialog[open]") !== null) return;
  if (act(event.key)) event.preventDefault();
});

function act(key: string): boolean {
  const isGoing = performance.now() < goUntil;
  goUntil = 0;
  const place = isGoing ? goKeys[key] : undefined;
  if (place !== undefined) {
    navigate(linkTo(place[0]));
    return true;
  }
  if (key === "g") {
    goUntil = performance.now() + goWithinMs;
    return true;
  }
  if (key === "?") {
    isHelpOpen.value = true;
    return true;
  }
  if (key === "/") {
    const field = document.querySelector<HTMLInputElement>("main input[type=search]");
    field?.focus();
    field?.select();
    return field !== null;
  }
  if (key === "j" || key === "k") return moveInTable(key === "j" ? 1 : -1);
  return false;
}

/** Moves the focus over the rows' links of the page's main table. */
function moveInTable(by: number): boolean {
  const links = [...document.querySelectorAll<HTMLElement>("main [data-row-link]")];
  if (links.length === 0) return false;
  const at = links.indexOf(document.activeElement as HTMLElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by));
  links[next]?.focus();
  return true;
}
