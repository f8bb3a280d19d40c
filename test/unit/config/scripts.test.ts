import { expect, it } from "vitest";
import { parseConfig } from "../../../src/config/config.ts";
import { defaultScripts } from "../../../src/config/scripts.ts";

const read = (text: string) => {
  const files = { read: () => ({ text, mode: 0o600 }) };
  const env = {
    LATCHKEY_CONFIG: "/latchkey.yaml",
    LATCHKEY_SEAL_KEYS: `main:${Buffer.alloc(32, 1).toString("base64")}`,
  };
  return parseConfig({ env, files }).scripts;
};

it("applies the file's limits of scripts, and the defaults otherwise", () => {
  expect(read("{}")).toEqual(defaultScripts);
  const { limits } = defaultScripts;
  expect(read("scripts: { threads: 2, deadline: 2h, busy: 500ms, memory_bytes: 134217728, tool_calls: 9 }")).toEqual({
    ...defaultScripts,
    threads: 2,
    limits: { ...limits, deadlineMs: 7_200_000, busyMs: 500, memoryBytes: 134_217_728, toolCalls: 9 },
  });
  expect(
    read(
      "scripts: { tool_calls_at_once: 2, output_bytes: 2048, log_lines: 0, log_line_bytes: 100, runs_per_integration: 3 }",
    ),
  ).toEqual({
    ...defaultScripts,
    runsPerIntegration: 3,
    limits: { ...limits, toolCallsAtOnce: 2, outputBytes: 2_048, logLines: 0, logLineBytes: 100 },
  });
  // The limit of one integration may not exceed that of all.
  expect(read("scripts: { runs: 4 }")).toEqual({ ...defaultScripts, runs: 4, runsPerIntegration: 4 });
});

it.each([
  ["scripts: { deadline: 25h }", "scripts.deadline: must be from 1s to 24h"],
  ["scripts: { deadline: 999ms }", "scripts.deadline: must be from 1s to 24h"],
  ["scripts: { busy: 6m }", "scripts.busy: must be from 100ms to 5m"],
  ["scripts: { threads: 0 }", "scripts.threads"],
  ["scripts: { memory_bytes: 1024 }", "scripts.memory_bytes"],
  ["scripts: { log_lines: -1 }", "scripts.log_lines"],
  ["scripts: { stack: 1 }", "stack"],
])("refuses %s", (text, message) => {
  expect(() => read(text)).toThrow(message);
});
