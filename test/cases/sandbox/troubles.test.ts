import { expect, it } from "vitest";
import { endings, troubleGroups } from "../../../src/dev/sandbox/page/troubles.ts";
import { started } from "./started.ts";

const all = [...troubleGroups.flatMap(({ troubles }) => troubles), ...endings];

it("makes each trouble by a button of its page, says what to expect, and ends it again", async () => {
  const { origin } = await started();
  const press = async (trouble: string, headers: Record<string, string> = {}) => {
    const body = new URLSearchParams({ trouble });
    return fetch(`${origin}/_sandbox/trouble`, { method: "POST", body, redirect: "manual", headers });
  };
  const page = async (query = "") => (await fetch(`${origin}/_sandbox${query}`)).text();
  expect(await page()).toContain("Now: no failures.");
  for (const { id, label, done } of all) {
    expect(await page()).toContain(`<button name="trouble" value="${id}">${label.replace("'", "&#39;")}</button>`);
    const pressed = await press(id);
    const { status, headers } = pressed;
    expect([id, status, headers.get("location")]).toEqual([id, 303, `/_sandbox?made=${id}`]);
    expect(await page(`?made=${id}`)).toContain(done.replace("'", "&#39;"));
  }
  expect(await page()).toContain("Now: no failures.");
  await press("rate-limit");
  await press("short-tokens");
  expect(await page()).toContain(
    "access token lifetime in seconds 60; api, files, mail, sheets, calendar: error 3 times.",
  );
  const limited = await fetch(`${origin}/api/me`);
  expect([limited.status, limited.headers.get("retry-after")]).toEqual([429, "2"]);
  const shown = await page();
  expect(shown).toContain('<td class="bad">429</td><td>GET</td><td><code>/api/me</code></td>');
  expect(shown).not.toMatch(/[a-z][A-Z][a-z]+<\/td>/);
  expect((await press("behave", { "sec-fetch-site": "cross-site" })).status).toBe(403);
  expect((await press("no-such-trouble")).status).toBe(400);
});
