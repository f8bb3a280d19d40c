/** What is wrong with a page that is shown: for people with disabilities, on a phone, and by planted markup. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/**
 * A text that would run a script or make an element wherever it is not shown as text. The name of the field says where
 * it came through.
 */
export const plantedText = (field: string): string => `"'><b data-planted=${field}><img src=x onerror=planted()>`;

const serious: readonly string[] = ["serious", "critical"];
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** The serious problems that axe finds; `colors` alone where only the theme has changed. */
export async function inaccessible(page: Page, rules: "all" | "colors"): Promise<readonly string[]> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe);
  const runOnly =
    rules === "all"
      ? { type: "tag", values: tags }
      : { type: "rule", values: ["color-contrast", "link-in-text-block"] };
  const found = (await page.evaluate(
    `axe.run(document, { runOnly: ${JSON.stringify(runOnly)}, resultTypes: ["violations"] }).then(({ violations }) => violations)`,
  )) as readonly Violation[];
  return found
    .filter(({ impact }) => serious.includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join("; ")}`.slice(0, 500));
}

/** What is wider than the window, without the boxes that scroll by themselves. */
export async function tooWide(page: Page): Promise<readonly string[]> {
  const over = (await page.evaluate(`(() => {
    const { scrollWidth, clientWidth } = document.scrollingElement;
    if (scrollWidth <= clientWidth) return [];
    const wide = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > clientWidth + 1);
    return [scrollWidth - clientWidth + " px wider than the window: " + wide.slice(-3).map((one) => one.outerHTML.slice(0, 120)).join("; ")];
  })()`)) as readonly string[];
  return over;
}

/** Elements, handlers and links that came from values. */
export async function plantedIn(page: Page): Promise<readonly string[]> {
  return (await page.evaluate(`(() => {
    const found = [...document.querySelectorAll("[data-planted], img[src='x'], [onerror], [onclick], [style*='expression']")];
    const scripts = [...document.scripts].filter((one) => !one.src.startsWith(location.origin + "/ui/assets/"));
    const links = [...document.querySelectorAll("a[href], form[action], iframe")].filter((one) => !/^(https?|mailto|blob):/.test(one.href ?? one.action ?? one.src));
    return [...found, ...scripts, ...links].map((one) => "from a value: " + one.outerHTML.slice(0, 200));
  })()`)) as readonly string[];
}

/** Secrets in the page or in what is entered there. The secrets of signatures are told by their beginning. */
export async function secretsIn(page: Page, secrets: readonly string[]): Promise<readonly string[]> {
  const text = (await page.evaluate(
    `document.documentElement.outerHTML + [...document.querySelectorAll("input, textarea")].map((one) => one.value).join(" ")`,
  )) as string;
  const found = secrets.filter((secret) => text.includes(secret));
  return [...found, ...(/whsec_[\w+/=]{16,}/.exec(text) ?? [])].map(
    (secret) => `shows a secret: ${secret.slice(0, 24)}`,
  );
}

/** Failures that the page shows, though the key may do everything. */
export async function failuresIn(page: Page): Promise<readonly string[]> {
  const shown = await page.locator("main [role=alert]").allInnerTexts();
  return shown.map((text) => `shows a failure: ${text.replaceAll("\n", " ").slice(0, 300)}`);
}

/** Resolves once a page shows what it has to show. */
export async function settled(page: Page): Promise<void> {
  await page.locator("main h1").first().waitFor();
  // The policy of the page allows no text that becomes code, which waiting for a condition would need.
  while ((await page.locator("main .skeleton").count()) > 0) await page.waitForTimeout(20);
}
