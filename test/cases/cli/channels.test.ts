import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { startWatching } from "../channels/channels.ts";
import { memoryTerminal } from "./memory-terminal.ts";

async function watchingByHand() {
  const watching = await startWatching();
  async function run(...argv: readonly string[]) {
    const terminal = memoryTerminal({ env: { LATCHKEY_KEY: adminKey, LATCHKEY_CONTROL: watching.sidecar.control } });
    const code = await runCli(["channels", ...argv, "-e", "dev"], terminal, []);
    return { code, out: terminal.out(), err: terminal.err() };
  }
  return { ...watching, run };
}

it("creates, lists, shows, renews and stops channels", async () => {
  const { run, connect, live } = await watchingByHand();
  await connect("ada");
  expect((await run("list")).out).toBe("");
  expect(await run("create", "sandbox-calendar/ada", "--id", "mine", "--for", "3d")).toMatchObject({ code: 0 });
  expect(live()).toMatchObject([{ id: "mine" }]);
  expect((await run("list")).out).toMatch(
    /^CHANNEL +CONNECTION +WATCHES +STATE +RENEWED +EXPIRES +LAST HEARD\nmine +sandbox-calendar\/ada +events primary +active +\d{4}-/,
  );
  expect((await run("show", "mine")).out).toContain("resource_kind: events");
  const renewed = await run("renew", "mine", "--json");
  const { id, previous_id } = JSON.parse(renewed.out);
  expect(previous_id).toBe("mine");
  expect(live()).toMatchObject([{ id }]);
  expect((await run("list", "--state", "stopped", "--connection", "sandbox-calendar/ada")).out).toContain("mine");
  expect(await run("stop", id)).toMatchObject({ code: 0 });
  expect(live()).toEqual([]);
  expect((await run("show", "none")).code).not.toBe(0);
  expect(await run("list", "--state", "asleep")).toMatchObject({ code: 2 });
  expect(await run("list", "--integration", "a", "--connection", "a/b")).toMatchObject({ code: 2 });
});
